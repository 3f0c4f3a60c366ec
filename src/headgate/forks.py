"""Forks: locks, threads and caches in a process that was forked.

A forked child inherits locks as they were, perhaps held by threads that it does not have, and no thread but one.
Whatever owns a lock or a thread registers here, and its `renew` is called in every child before anything else runs.
What must not be caught in the middle, as a transaction of SQLite, is paused while the fork happens; imports under way
are waited for.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import Lock
from typing import Protocol
from weakref import WeakSet


class Renewable(Protocol):
    """An object that can be made usable in a forked child."""

    def renew(self) -> None:
        """Replace locks and threads, and whatever a thread may have left half changed."""


class Pausable(Protocol):
    """An object whose work must not be under way during a fork."""

    def pause(self) -> None:
        """Let no work begin, and wait a while for what is under way."""

    def resume(self) -> None:
        """Go on, in the process that forked."""


_OBJECTS: "WeakSet[Renewable]" = WeakSet()


_PAUSED: "WeakSet[Pausable]" = WeakSet()


def pause_for_forks(one: Pausable) -> None:
    """Call `one.pause()` before every fork, and `one.resume()` after it in the process that forked."""
    _PAUSED.add(one)


def renew_in_children(one: Renewable) -> None:
    """Call `one.renew()` in every child forked from now on, for as long as it lives."""
    _OBJECTS.add(one)


_FILES: set[int] = set()


@contextmanager
def close_in_children(descriptor: int) -> Iterator[None]:
    """Close an open file in every child forked inside the block: a lock on it would outlive its holder there."""
    _FILES.add(descriptor)
    try:
        yield
    finally:
        _FILES.discard(descriptor)


class ForkSafeLock:
    """A lock that is free in a forked child, whoever held it in the parent."""

    def __init__(self) -> None:
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Be free."""
        self._lock = Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        # in a child that was forked inside the block the lock is another one, and free
        if self._lock.locked():
            self._lock.release()


def _renew_all() -> None:
    for descriptor in _FILES:
        with suppress(OSError):
            os.close(descriptor)
    _FILES.clear()
    for one in list(_OBJECTS):
        one.renew()


def _pause_all() -> None:
    for one in list(_PAUSED):
        one.pause()
    _finish_imports()


def _finish_imports() -> None:
    """Wait for the modules that other threads are importing: in a child they would stay half imported, and locked, for
    ever.
    """
    for name, module in list(sys.modules.items()):
        if getattr(getattr(module, "__spec__", None), "_initializing", False):
            with suppress(Exception):  # whoever imports it is told
                import_module(name)


def _resume_all() -> None:
    for one in list(_PAUSED):
        one.resume()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_renew_all)
