"""Quota: how much one tenant may hold in the SQLite store.

Counted are ids, titles, metadata and texts as UTF-8, of documents, facts and edges: what a caller sent. What is derived
from it comes on top. `sizes` and `tenants` hold the counts, which follow every write. The check stands at the end of a
write, inside its transaction, so no two writers pass it together.
"""

import sqlite3

from headgate.errors import QuotaError

_USED = """
SELECT (SELECT coalesce(sum(bytes), 0) FROM sizes WHERE tenant = ?1)
  + coalesce((SELECT record_bytes FROM tenants WHERE tenant = ?1), 0)
"""


def used_bytes(connection: sqlite3.Connection, tenant: str) -> int:
    """How much a tenant holds."""
    (used,) = connection.execute(_USED, (tenant,)).fetchone()
    return int(used)


def check_quota(connection: sqlite3.Connection, tenant: str, limit: int | None) -> None:
    """Refuse a write after which a tenant holds more than it may; the transaction takes it back."""
    if limit is None:
        return
    used = used_bytes(connection, tenant)
    if used > limit:
        raise QuotaError(
            f"the tenant {tenant!r} would hold {used:,} bytes; limits.tenant_bytes allows {limit:,}",
            hint="remove something first, or raise limits.tenant_bytes; nothing of this write was kept",
        )
