"""A stream failsafe by entropy, with rollback, as published in an RFC: Entropy-Aware Context Rollback (LZ-CRF).

A model that falls into a loop ("dodododo") writes text of low entropy. The middleware watches H, the Shannon entropy of
the last 64 characters of its stream, and finds a collapse when H is below 1.5 bits ("absolute") or 0.3 bits less than
K = 8 characters before ("derivative"), from the 16th character on. It then severs the connection, slices the answer
before the collapse, appends the divergence token and calls the model again, at most three times:

    STATE_GENERATING -collapse-> STATE_RECOVERING -slice, inject, call again-> STATE_GENERATING -end-> STATE_DONE
    STATE_RECOVERING -more than max_rollbacks-> STATE_FAILED

The guard finds loops by exact repetition instead and resumes in plain words, since entropy measures the alphabet and
not repetition (docs/origins.md). It takes the rule from here as `guard.detector = "entropy"`.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from millgate.errors import InputError, LoopError

__all__ = [
    "DIVERGENCE_TOKEN",
    "CRFState",
    "Collapse",
    "EntropyCRFConfig",
    "EntropyCRFMiddleware",
    "EntropyMonitor",
]

WINDOW_SIZE = 64
MIN_ENTROPY = 1.5
DROP_THRESHOLD = 0.3
K = 8
WARM_UP = 16
MAX_ROLLBACKS = 3
DIVERGENCE_TOKEN = "<system: branch_divergence_forced>"  # noqa: S105  text for the model, no secret

Message = Mapping[str, Any]


class CRFState(StrEnum):
    """Where a watched answer is."""

    STATE_GENERATING = "generating"
    STATE_RECOVERING = "recovering"
    STATE_DONE = "done"
    STATE_FAILED = "failed"


@dataclass(frozen=True, slots=True)
class EntropyCRFConfig:
    """When a stream counts as collapsed, and what happens then."""

    window_size: int = WINDOW_SIZE
    """Characters over which entropy is measured."""
    min_entropy: float = MIN_ENTROPY
    """Bits below which the stream has collapsed."""
    drop_threshold: float = DROP_THRESHOLD
    """Bits by which entropy may not fall within `k` characters."""
    k: int = K
    """How many characters before the present one the fall is measured from."""
    warm_up: int = WARM_UP
    """Characters that are read before the first verdict; `window_size` at most."""
    max_rollbacks: int = MAX_ROLLBACKS
    """Rollbacks of one answer; one more collapse fails it."""
    divergence_token: str = DIVERGENCE_TOKEN
    """What stands behind the sliced answer in the next call."""

    def __post_init__(self) -> None:
        if self.window_size < 2 or self.k < 1 or self.warm_up < 1:
            raise InputError(
                f"window_size {self.window_size}, k {self.k}, warm_up {self.warm_up}: "
                "a window needs 2 characters, the others at least 1"
            )
        if self.max_rollbacks < 0:
            raise InputError(f"max_rollbacks is {self.max_rollbacks}; it must be 0 or more")


class Collapse(NamedTuple):
    """Where a stream collapsed: characters read, where to slice, and by which of the two rules."""

    position: int
    boundary: int
    reason: str


class EntropyMonitor:
    """Watches the entropy of a stream, a character at a time. After a collapse it rests for one window."""

    def __init__(self, config: EntropyCRFConfig | None = None) -> None:
        self.config = config or EntropyCRFConfig()
        self.warm_up = min(self.config.window_size, self.config.warm_up)
        self.reset()

    def reset(self, seen: int = 0) -> None:
        """Forget the window; `seen` characters stand before what comes now."""
        # numpy comes with it, which settings do not need that read only the constants above
        from millgate.text.entropy import SlidingEntropy  # noqa: PLC0415

        self._entropy = SlidingEntropy(self.config.window_size)
        self._past: deque[float] = deque(maxlen=self.config.k + 1)
        self._seen = seen
        self._rest = seen + self.warm_up

    @property
    def bits(self) -> float:
        """Entropy of the window now."""
        return self._entropy.bits

    def push(self, char: str) -> Collapse | None:
        """Take one character in; a collapse if this one shows it."""
        config, past = self.config, self._past
        bits = self._entropy.push(char)
        past.append(bits)
        self._seen += 1
        if self._seen < self._rest:
            return None
        if bits < config.min_entropy:
            return self._collapse(f"absolute: {bits:.2f} bits", config.window_size)
        if len(past) > config.k and past[0] - bits >= config.drop_threshold:
            return self._collapse(f"derivative: {bits - past[0]:+.2f} bits", config.k)
        return None

    def _collapse(self, reason: str, reach: int) -> Collapse:
        self._rest = self._seen + self.config.window_size
        return Collapse(self._seen, max(0, self._seen - reach), reason)


class EntropyCRFMiddleware:
    """One answer of a model, watched and rolled back as published.

    Feed what the model streams with `process_chunk`. In STATE_RECOVERING close the stream, and ask `rollback` for the
    messages of the next call. `stream` does both around a function that calls the model.
    """

    def __init__(self, messages: Sequence[Message], config: EntropyCRFConfig | None = None) -> None:
        self.messages = tuple(messages)
        self.config = config or EntropyCRFConfig()
        self.state = CRFState.STATE_GENERATING
        self.text = ""
        """The answer so far, without what was sliced off."""
        self.rollbacks = 0
        self.collapses: list[Collapse] = []
        self._monitor = EntropyMonitor(self.config)

    def process_chunk(self, chunk: str) -> CRFState:
        """Take in what the model said; the state afterwards. Text behind a collapse is not kept."""
        if self.state is not CRFState.STATE_GENERATING:
            raise InputError(f"a chunk came in state {self.state}", hint="call rollback() first")
        for at, char in enumerate(chunk, 1):
            found = self._monitor.push(char)
            if found:
                self.text = (self.text + chunk[:at])[: found.boundary]
                self.collapses.append(found)
                self.state = CRFState.STATE_RECOVERING
                return self.state
        self.text += chunk
        return self.state

    def rollback(self) -> list[Message]:
        """The messages of the next call: the sliced answer with the divergence token behind it."""
        if self.state is not CRFState.STATE_RECOVERING:
            raise InputError(f"nothing to roll back in state {self.state}")
        if self.rollbacks >= self.config.max_rollbacks:
            self.state = CRFState.STATE_FAILED
            raise LoopError(
                f"the stream collapsed {self.rollbacks + 1} times ({self.collapses[-1].reason})",
                text=self.text,
            )
        self.rollbacks += 1
        self.state = CRFState.STATE_GENERATING
        self._monitor.reset(len(self.text))
        answer = self.text + self.config.divergence_token
        return [*self.messages, {"role": "assistant", "content": answer}]

    def finish(self) -> str:
        """The model ended its answer by itself: the answer."""
        self.state = CRFState.STATE_DONE
        return self.text

    async def stream(
        self, generate: Callable[[Sequence[Message]], AsyncGenerator[str, None]]
    ) -> AsyncIterator[str]:
        """Call the model until an answer ends, and give each chunk as it comes.

        What was given before a collapse was found cannot be taken back: `text` is the answer without it.
        """
        messages: Sequence[Message] = self.messages
        while True:
            async with aclosing(generate(messages)) as chunks:
                async for chunk in chunks:
                    if self.process_chunk(chunk) is CRFState.STATE_RECOVERING:
                        break
                    yield chunk
            if self.state is CRFState.STATE_GENERATING:
                self.finish()
                return
            messages = self.rollback()
