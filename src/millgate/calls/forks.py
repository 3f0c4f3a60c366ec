"""Internal: what a forked child must not find as its parent left it.

A child has one thread and a copy of memory: locks may be held by threads that it does not have, and a connection of
SQLite may not even be closed there. So three things happen. Stores finish their calls before a fork
(`prepare_for_forks`) and work on both sides of it. Caches of modules begin empty in the child (`call_in_children`). A
gate that finds itself in another process makes everything else anew over its store (gateway/lifecycle.py).
"""

import os
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import count
from threading import Lock
from typing import Protocol
from weakref import ref


class Forkable(Protocol):
    """Something that can be used on both sides of a fork, as a pool of connections."""

    def before_fork(self) -> None:
        """Finish what is under way and let nothing begin."""

    def after_fork(self) -> None:
        """Go on, in the process that forked."""

    def begin_in_child(self) -> None:
        """Begin anew in the child, with new locks. `before_fork` may not have run: some servers fork on their own."""


_NUMBERS = count()
# A dict, which is copied at once while others add to it. Adding to a WeakSet would need a lock, and a thread that waits
# for it inside a call of a store would keep a fork waiting for that call.
_OPEN: dict[int, "ref[Forkable]"] = {}
_FORKING = Lock()  # one fork at a time
_HELD: list[Forkable] = []  # by the fork under way


def prepare_for_forks(one: Forkable) -> None:
    """Tell an object of every fork, for as long as it lives."""
    number = next(_NUMBERS)
    _OPEN[number] = ref(one, lambda _: _OPEN.pop(number, None))


def call_in_children(action: Callable[[], object]) -> None:
    """Call a function of a module in every forked child, before anything else runs there."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=action)


def _all_open() -> list[Forkable]:
    return [one for found in list(_OPEN.values()) if (one := found()) is not None]


def _before() -> None:
    _FORKING.acquire()
    if (
        "numpy" in sys.modules
    ):  # it imports this at its first use; amid that a child would inherit a lock that is held
        import_module("numpy.ma")
    for one in _all_open():
        _HELD.append(one)
        one.before_fork()


def _after() -> None:
    while _HELD:
        _HELD.pop().after_fork()
    _FORKING.release()


def _begin() -> None:
    global _FORKING  # noqa: PLW0603  (it is held)
    _FORKING = Lock()
    _HELD.clear()
    for one in _all_open():
        one.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_begin)
