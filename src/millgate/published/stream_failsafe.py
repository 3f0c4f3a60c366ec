"""A stream failsafe by entropy, with rollback, as published in an RFC: Entropy-Aware Context Rollback (LZ-CRF).

A model that falls into a loop ("dodododo") writes text of low entropy. The middleware watches H, the Shannon entropy of
the last 64 characters of its stream, and finds a stall when H is below 1.5 bits ("absolute") or falls by more than 0.3
bits within K = 8 characters ("derivative"), from the 16th character on. It then severs the connection, slices the
answer before the stall, appends the divergence token and calls the model again, at most three times:

    STATE_GENERATING -stall-> STATE_RECOVERING -slice, inject, call again-> STATE_GENERATING -end-> done
    STATE_RECOVERING -more than max_rollbacks-> failed

`chat_stream` is the whole of it: the middleware as a configuration switches it on.
The guard finds loops by exact repetition instead and resumes in plain words, since entropy measures the alphabet and
not repetition (docs/origins.md). It takes the rule from here as `guard.detector = "entropy"`.
"""

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from millgate.errors import InputError, LoopError

__all__ = [
    "DIVERGENCE_TOKEN",
    "CRFState",
    "Collapse",
    "EntropyCRFMiddleware",
    "EntropyMonitor",
    "LocalAgentConfig",
    "chat_stream",
]

WINDOW_SIZE = 64
MIN_ENTROPY = 1.5
DROP_THRESHOLD = 0.3
K = 8
WARM_UP = 16
MAX_ROLLBACKS = 3
DIVERGENCE_TOKEN = "<system: branch_divergence_forced>"  # noqa: S105  text for the model, no secret

Message = Mapping[str, Any]
Generate = Callable[[Sequence[Message]], AsyncIterator[str] | Awaitable[AsyncIterator[str]]]
"""Calls the model: an async generator, or a coroutine that returns one."""


class CRFState(StrEnum):
    """Where a watched answer is."""

    STATE_GENERATING = "generating"
    STATE_RECOVERING = "recovering"
    STATE_DONE = "done"
    STATE_FAILED = "failed"


@dataclass(slots=True)
class LocalAgentConfig:
    """An agent's settings of the failsafe."""

    enable_lz_crf: bool = True
    entropy_window_size: int = WINDOW_SIZE
    entropy_min_threshold: float = MIN_ENTROPY
    entropy_drop_threshold: float = DROP_THRESHOLD
    divergence_token: str = DIVERGENCE_TOKEN
    max_rollbacks: int = MAX_ROLLBACKS


class Collapse(NamedTuple):
    """Where a stream stalled: characters read, where to slice, and by which of the two rules."""

    position: int
    boundary: int
    reason: str


class EntropyMonitor:
    """Watches the entropy of a stream, a character at a time. After a stall it rests for one window."""

    def __init__(
        self,
        window_size: int = WINDOW_SIZE,
        min_entropy: float = MIN_ENTROPY,
        drop_threshold: float = DROP_THRESHOLD,
        *,
        k: int = K,
        warm_up: int = WARM_UP,
    ) -> None:
        if window_size < 2 or k < 1 or warm_up < 1:
            raise InputError(
                f"window_size {window_size}, k {k}, warm_up {warm_up}: "
                "a window needs 2 characters, the others at least 1"
            )
        self.window_size, self.min_entropy, self.drop_threshold = (
            window_size,
            min_entropy,
            drop_threshold,
        )
        self.k, self.warm_up = k, min(window_size, warm_up)
        self.reset()

    def reset(self, seen: int = 0) -> None:
        """Forget the window; `seen` characters stand before what comes now."""
        # numpy comes with it, which settings do not need that read only the constants above
        from millgate.text.entropy import SlidingEntropy  # noqa: PLC0415

        self._entropy = SlidingEntropy(self.window_size)
        self._past: deque[float] = deque(maxlen=self.k + 1)
        self._seen = seen
        self._rest = seen + self.warm_up

    @property
    def bits(self) -> float:
        """Entropy of the window now."""
        return self._entropy.bits

    def push(self, char: str) -> Collapse | None:
        """Take one character in; a stall if this one shows it."""
        past = self._past
        bits = self._entropy.push(char)
        past.append(bits)
        self._seen += 1
        if self._seen < self._rest:
            return None
        if bits < self.min_entropy:
            return self._collapse(f"absolute: {bits:.2f} bits", self.window_size)
        if len(past) > self.k and bits - past[0] < -self.drop_threshold:
            return self._collapse(f"derivative: {bits - past[0]:+.2f} bits", self.k)
        return None

    def _collapse(self, reason: str, reach: int) -> Collapse:
        self._rest = self._seen + self.window_size
        return Collapse(self._seen, max(0, self._seen - reach), reason)


class EntropyCRFMiddleware:
    """A function that calls a model, watched: an answer that stalls is rolled back and goes on.

    `text` is the answer so far without what was sliced off; what was given before a stall was found cannot be taken
    back. `state`, `rollbacks` and `collapses` say how it came about.
    """

    def __init__(  # noqa: PLR0917  the published signature
        self,
        generate_fn: Generate,
        window_size: int = WINDOW_SIZE,
        min_entropy: float = MIN_ENTROPY,
        drop_threshold: float = DROP_THRESHOLD,
        divergence_token: str = DIVERGENCE_TOKEN,
        max_rollbacks: int = MAX_ROLLBACKS,
        *,
        k: int = K,
        warm_up: int = WARM_UP,
    ) -> None:
        if max_rollbacks < 0:
            raise InputError(f"max_rollbacks is {max_rollbacks}; it must be 0 or more")
        self._generate = generate_fn
        self._monitor = EntropyMonitor(window_size, min_entropy, drop_threshold, k=k, warm_up=warm_up)  # fmt: skip
        self.divergence_token, self.max_rollbacks = divergence_token, max_rollbacks
        self.state = CRFState.STATE_GENERATING
        self.text = ""
        self.rollbacks = 0
        self.collapses: list[Collapse] = []

    async def generate(self, history: Sequence[Message]) -> AsyncIterator[str]:
        """Call the model until an answer ends, and give each chunk as it comes; a LoopError after `max_rollbacks`."""
        self.text, self.rollbacks, self.collapses = "", 0, []
        messages = list(history)
        while True:
            self.state = CRFState.STATE_GENERATING
            self._monitor.reset(len(self.text))
            answer = self._generate(messages)
            chunks = await answer if inspect.isawaitable(answer) else answer
            try:
                async for chunk in chunks:
                    if clean := self._take(chunk):
                        yield clean
                    if self.state is CRFState.STATE_RECOVERING:
                        break
            finally:  # the connection is severed, not left to be collected
                if close := getattr(chunks, "aclose", None):
                    await close()
            if self.state is CRFState.STATE_GENERATING:
                self.state = CRFState.STATE_DONE
                return
            if self.rollbacks == self.max_rollbacks:
                self.state = CRFState.STATE_FAILED
                raise LoopError(
                    f"the stream stalled {self.rollbacks + 1} times ({self.collapses[-1].reason})",
                    text=self.text,
                )
            self.rollbacks += 1
            said = self.text + self.divergence_token
            messages = [*history, {"role": "assistant", "content": said}]

    def _take(self, chunk: str) -> str:
        """What may be given of a chunk: all of it, or what stands before a stall."""
        given = len(self.text)
        for at, char in enumerate(chunk, 1):
            if found := self._monitor.push(char):
                self.collapses.append(found)
                self.state = CRFState.STATE_RECOVERING
                self.text = (self.text + chunk[:at])[: found.boundary]
                return self.text[given:]
        self.text += chunk
        return chunk


async def chat_stream(
    generate_fn: Generate, history: Sequence[Message], config: LocalAgentConfig | None = None
) -> AsyncIterator[str]:
    """A model's answer as an agent streams it: watched, or as it comes if the failsafe is off."""
    config = config or LocalAgentConfig()
    if not config.enable_lz_crf:
        answer = generate_fn(history)
        async for chunk in await answer if inspect.isawaitable(answer) else answer:
            yield chunk
        return
    middleware = EntropyCRFMiddleware(
        generate_fn,
        window_size=config.entropy_window_size,
        min_entropy=config.entropy_min_threshold,
        drop_threshold=config.entropy_drop_threshold,
        divergence_token=config.divergence_token,
        max_rollbacks=config.max_rollbacks,
    )
    async for chunk in middleware.generate(history):
        yield chunk
