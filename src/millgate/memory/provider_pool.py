"""ProviderPool: memory providers from their start to their end, none of which can block the caller.

Each runs in threads or on a loop of its own (provider_slot.py). Calls do not pile up: a provider with too many
still running is not asked again until some return, and one that failed several times in a row rests for a while.
Each call has its own future, so a late answer is dropped and can never answer a newer question.
A pool that was started initializes its providers, and closes them when it is closed.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from threading import Lock

from pydantic import Field

from millgate.bugs import describe
from millgate.errors import ConfigError
from millgate.memory.provider_slot import ProviderSlot, name_of
from millgate.own_parts import FAILURES, REST_S, Rest
from millgate.policy import Policy, Positive, PositiveCount, Tuning, Unit
from millgate.protocols import Clock, MemoryProvider

# how long opening waits for providers to initialize; a slower one goes on, and the first question waits for it
START_WAIT_S = 1.0

LOGGER = logging.getLogger("millgate.memory")


class RecallPolicy(Policy):
    """How long providers may take, and when they are not asked."""

    deadline_s: Positive = 8.0
    """Seconds a provider may take to answer."""
    deadlines: Tuning[Mapping[str, Positive]] = Field(default={})
    """Other deadlines, by provider."""
    running: Tuning[PositiveCount] = 8
    """Calls of one provider that may run at once, hanging ones included."""
    failures: Tuning[PositiveCount] = FAILURES
    """Failures in a row after which a provider rests."""
    rest_s: Tuning[Positive] = REST_S
    """Seconds a provider rests."""
    answer_chars: Tuning[PositiveCount] = 100_000
    """Longest answer that is read; the rest of a longer one is left out."""
    trust: Tuning[Unit] = 0.5
    """Trust in what a provider says, as that of a new fact."""
    trusts: Tuning[Mapping[str, Unit]] = Field(default={})
    """Other trusts, by provider."""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One question to one provider: its future, or (future None) why it was not asked."""

    provider: str
    deadline_s: float
    future: "Future[object] | None"
    refusal: str = ""


class _Slot(ProviderSlot):
    """A provider with its record: how many of its calls run, and how the last ones ended."""

    def __init__(self, provider: MemoryProvider, rest: Rest) -> None:
        super().__init__(provider)
        self.running = 0
        self.rest = rest


class ProviderPool:
    """Providers by name, in the order given. Safe to share between threads."""

    def __init__(
        self,
        providers: Sequence[MemoryProvider] = (),
        policy: RecallPolicy | None = None,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        self.policy = policy or RecallPolicy()
        self._lock = Lock()
        self._slots: dict[str, _Slot] = {}
        self._started = False
        for provider in providers:
            name = name_of(provider)
            if name in self._slots:
                raise ConfigError(f"two memory providers are called {name!r}", hint="rename one")
            rest = Rest(self.policy.failures, self.policy.rest_s, clock=clock)
            self._slots[name] = _Slot(provider, rest)

    @property
    def names(self) -> tuple[str, ...]:
        """The providers' names, in the order they are asked."""
        return tuple(self._slots)

    @property
    def longest_deadline_s(self) -> float:
        """Seconds after which every provider has answered, or is late."""
        return max((self.policy.deadline_s, *self.policy.deadlines.values()))

    def failures_in_a_row(self) -> dict[str, int]:
        """How often each provider has failed since it last answered, by name."""
        with self._lock:
            return {name: slot.rest.failures_in_a_row for name, slot in self._slots.items()}

    def ask(self, query: str, options: Mapping[str, object]) -> list[ProviderCall]:
        """Start a call to every provider that is neither busy nor resting."""
        return [self._ask(name, slot, query, options) for name, slot in self._slots.items()]

    def report(self, name: str, error: str) -> None:
        """Record how a call ended; an empty `error` means that it was answered."""
        with self._lock:
            self._slots[name].rest.note(error)

    def start(self, tenant: str) -> None:
        """Initialize the providers that want it, all at once; from now on they are also closed.

        One that fails is logged, and tried again with the next question.
        """
        self._started = True
        begun = {name: slot.start(tenant) for name, slot in self._slots.items()}
        running = {name: future for name, future in begun.items() if future is not None}
        wait(running.values(), timeout=min(START_WAIT_S, self.policy.deadline_s))
        for name, future in running.items():
            error = future.exception() if future.done() else None
            if error is not None:
                LOGGER.warning("memory provider %s cannot be initialized: %s", name, error)
                self.report(name, f"failed: {describe(error)}")

    def close(self) -> None:
        """Close the providers that were started, and stop the event loops of async ones."""
        started, self._started = self._started, False
        begun = {name: slot.shut_down() for name, slot in self._slots.items() if started}
        running = {name: future for name, future in begun.items() if future is not None}
        wait(running.values(), timeout=self.policy.deadline_s)
        for name, future in running.items():
            error = future.exception() if future.done() else "it did not end in time"
            if error is not None:
                LOGGER.warning("memory provider %s did not close: %s", name, error)
        for slot in self._slots.values():
            slot.stop_loop()

    def _ask(
        self, name: str, slot: _Slot, query: str, options: Mapping[str, object]
    ) -> ProviderCall:
        deadline = self.policy.deadlines.get(name, self.policy.deadline_s)
        with self._lock:
            refusal = self._refusal(slot)
            if refusal:
                return ProviderCall(name, deadline, None, refusal)
            slot.running += 1
        future = slot.call(query, options)
        future.add_done_callback(lambda _: self._note_return(slot))
        return ProviderCall(name, deadline, future)

    def _refusal(self, slot: _Slot) -> str:
        if slot.running >= self.policy.running:
            return f"busy: {slot.running} calls have not returned"
        return slot.rest.reason

    def _note_return(self, slot: _Slot) -> None:
        with self._lock:
            slot.running -= 1
