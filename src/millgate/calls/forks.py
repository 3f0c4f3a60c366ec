"""Internal: what is open belongs to the process that opened it.

A forked child has one thread and a copy of memory. Locks may be held by threads that it does not have, and neither
SQLite nor PostgreSQL lets it use a connection of its parent. So a store remembers its process, and each call in another
one is refused with the same error. A child may open the store for itself.
"""

import os

from millgate.errors import StoreError


def check_process(process: int) -> None:
    """Refuse to go on in another process than the one of that id."""
    if process != os.getpid():
        raise StoreError(
            "this Millgate was opened before the process was forked",
            hint="open it in each process, after the fork: Millgate.open(...)",
        )
