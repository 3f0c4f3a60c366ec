"""Forks: locks, threads and caches in a process that was forked.

A forked child inherits locks as they were, perhaps held by threads that it does not have, and no thread but one.
Whatever owns a lock or a thread registers here, and its `renew` is called in every child before anything else runs.
"""

import os
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """An object that can be made usable in a forked child."""

    def renew(self) -> None:
        """Replace locks and threads, and whatever a thread may have left half changed."""


_OBJECTS: "WeakSet[Renewable]" = WeakSet()


def renew_in_children(one: Renewable) -> None:
    """Call `one.renew()` in every child forked from now on, for as long as it lives."""
    _OBJECTS.add(one)


def _renew_all() -> None:
    for one in list(_OBJECTS):
        one.renew()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_renew_all)
