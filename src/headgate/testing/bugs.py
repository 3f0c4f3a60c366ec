"""Bugs in tests: they are raised instead of survived, so that a test sees them."""

from collections.abc import Iterator
from contextlib import contextmanager

from headgate import bugs


@contextmanager
def strict(on: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002  strict(False) reads well
    """Inside the block an unexpected exception in a stage is raised; with False it is survived and logged."""
    before = bugs.set_strict(on)
    try:
        yield
    finally:
        bugs.set_strict(before)
