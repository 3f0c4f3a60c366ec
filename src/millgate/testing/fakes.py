"""Fakes: a store that fails where and when a test wants it to, a model that streams what a test gives it, time that
stands still, and bugs that are raised.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Pause:
    """Say nothing for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call of the model as it was made."""

    messages: Sequence[Mapping[str, Any]]
    sampling: Mapping[str, float] | None


@dataclass(slots=True)
class ScriptedModel:
    """`ScriptedModel([["Hello", " there"], ...])`: usable as `generate`; the last script repeats.

    Each script is what one call streams: texts (or any other piece) are yielded, an exception is raised, a `Pause` is
    waited for. It remembers every call, and how many of its streams are still open.
    """

    scripts: Sequence[Iterable[Any]]
    calls: list[ModelCall] = field(default_factory=list)
    open: int = 0
    yielded: int = 0

    def __call__(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        sampling: Mapping[str, float] | None = None,
    ) -> AsyncGenerator[Any]:
        """Stream the next script."""
        script = self.scripts[min(len(self.calls), len(self.scripts) - 1)]
        self.calls.append(ModelCall(messages, sampling))
        return self._stream(script)

    async def _stream(self, script: Iterable[Any]) -> AsyncGenerator[Any]:
        self.open += 1
        try:
            for item in script:
                if isinstance(item, BaseException):
                    raise item
                if isinstance(item, Pause):
                    await asyncio.sleep(item.seconds)
                    continue
                self.yielded += 1
                yield item
                await asyncio.sleep(0)
        finally:
            self.open -= 1
