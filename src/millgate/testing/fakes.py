"""Fakes: a store that fails where and when a test wants it to, time that stands still, and bugs that are raised."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from millgate.calls import bugs
from millgate.errors import StoreError
from millgate.protocols import Store


class FailingStore:
    """Passes every call on to the store it wraps. After `after` good calls to `methods` (all when empty), those calls
    raise StoreError, until `repair` is called.
    """

    def __init__(
        self,
        store: Store,
        *,
        methods: Iterable[str] = (),
        after: int = 0,
        error: Exception | None = None,
    ) -> None:
        self._store = store
        self._methods = frozenset(methods)
        self._left = after
        self._error = error or StoreError("the store is down", hint="this failure is a test")
        self.failed = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # stands for whatever the store has there
        inner = getattr(self._store, name)
        if not callable(inner) or name == "close" or (self._methods and name not in self._methods):
            return inner
        return self._wrap(inner)

    def repair(self) -> None:
        """Let every call through again."""
        self._methods = frozenset({""})

    def _wrap(self, inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **options: object) -> Any:  # noqa: ANN401
            if self._left > 0:
                self._left -= 1
                return inner(*args, **options)
            self.failed += 1
            raise self._error

        return call


class FixedClock:
    """A clock for tests: returns `now`, and moves only by `advance`."""

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> float:
        """Let time pass; the new now."""
        self.now += seconds
        return self.now


@contextmanager
def strict(on: bool = True) -> Iterator[None]:  # noqa: FBT001, FBT002  strict(False) reads well
    """Inside the block an unexpected exception in a stage is raised; with False it is survived and logged."""
    before = bugs.set_strict(on)
    try:
        yield
    finally:
        bugs.set_strict(before)
