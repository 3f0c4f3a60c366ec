"""ScriptedModel: a model that streams what a test gives it, call by call.

Each script is what one call streams: texts (or any other piece) are yielded, an exception is raised, a
`Pause` is waited for. It remembers every call, and how many of its streams are still open.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


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
    """`ScriptedModel([["Hello", " there"], ...])`: usable as `generate`; the last script repeats."""

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
