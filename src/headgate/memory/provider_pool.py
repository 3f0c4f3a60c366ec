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
from dataclasses import dataclass, replace
from threading import Lock

from pydantic import Field

from headgate.bugs import describe
from headgate.errors import ConfigError
from headgate.memory.provider_slot import ProviderSlot, name_of
from headgate.policy import Policy, Positive, PositiveCount, Tuning, Unit
from headgate.protocols import Clock, MemoryProvider

# how long opening waits for providers to initialize; a slower one goes on, and the first question waits for it
START_WAIT_S = 1.0

LOGGER = logging.getLogger("headgate.memory")


class RecallPolicy(Policy):
    """How long providers may take, and when they are not asked."""

    deadline_s: Positive = 8.0
    """Seconds a provider may take to answer."""
    deadlines: Tuning[Mapping[str, Positive]] = Field(default={})
    """Other deadlines, by provider."""
    running: Tuning[PositiveCount] = 8
    """Calls of one provider that may run at once, hanging ones included."""
    failures: Tuning[PositiveCount] = 3
    """Failures in a row after which a provider rests."""
    rest_s: Tuning[Positive] = 30.0
    """Seconds a provider rests."""
    answer_chars: Tuning[PositiveCount] = 100_000
    """Longest answer that is read; the rest of a longer one is left out."""
    trust: Tuning[Unit] = 0.5
    """Trust in what a provider says, as that of a new fact."""
    trusts: Tuning[Mapping[str, Unit]] = Field(default={})
    """Other trusts, by provider."""


@dataclass(frozen=True, slots=True)
class ProviderHealth:
    """The record of one provider.

    `failures_in_a_row` counts failures since it last answered; `seconds` is how long the last finished call took.
    """

    asked: int = 0
    answered: int = 0
    failed: int = 0
    late: int = 0
    failures_in_a_row: int = 0
    resting_until: float = 0.0
    last_error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One question to one provider: its future, or (future None) why it was not asked."""

    provider: str
    deadline_s: float
    future: "Future[object] | None"
    refusal: str = ""


class _Slot(ProviderSlot):
    """A provider with its record: how many of its calls run, and how the last ones ended."""

    def __init__(self, provider: MemoryProvider) -> None:
        super().__init__(provider)
        self.running = 0
        self.health = ProviderHealth()


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
        self._clock = clock
        self._lock = Lock()
        self._slots: dict[str, _Slot] = {}
        self._started = False
        for provider in providers:
            name = name_of(provider)
            if name in self._slots:
                raise ConfigError(f"two memory providers are called {name!r}", hint="rename one")
            self._slots[name] = _Slot(provider)

    @property
    def names(self) -> tuple[str, ...]:
        """The providers' names, in the order they are asked."""
        return tuple(self._slots)

    @property
    def longest_deadline_s(self) -> float:
        """Seconds after which every provider has answered, or is late."""
        return max((self.policy.deadline_s, *self.policy.deadlines.values()))

    def health(self) -> dict[str, ProviderHealth]:
        """The record of each provider, by name."""
        with self._lock:
            return {name: slot.health for name, slot in self._slots.items()}

    def ask(self, query: str, options: Mapping[str, object]) -> list[ProviderCall]:
        """Start a call to every provider that is neither busy nor resting."""
        return [self._ask(name, slot, query, options) for name, slot in self._slots.items()]

    def report(self, name: str, *, error: str = "", late: bool = False) -> None:
        """Record how a call ended; an empty `error` means that it was answered."""
        with self._lock:
            slot = self._slots[name]
            health = slot.health
            if not error:
                slot.health = replace(
                    health, answered=health.answered + 1, failures_in_a_row=0, resting_until=0
                )
                return
            failures = health.failures_in_a_row + 1
            rests = failures >= self.policy.failures
            slot.health = replace(
                health,
                failed=health.failed + (not late),
                late=health.late + late,
                failures_in_a_row=failures,
                resting_until=self._clock() + self.policy.rest_s if rests else 0.0,
                last_error=error,
            )

    def start(self, tenant: str) -> None:
        """Initialize the providers that want it, all at once; from now on they are also closed.

        One that fails is named in its health and tried again with the next question.
        """
        self._started = True
        begun = {name: slot.start(tenant) for name, slot in self._slots.items()}
        running = {name: future for name, future in begun.items() if future is not None}
        wait(running.values(), timeout=min(START_WAIT_S, self.policy.deadline_s))
        for name, future in running.items():
            error = future.exception() if future.done() else None
            if error is not None:
                LOGGER.warning("memory provider %s cannot be initialized: %s", name, error)
                self.report(name, error=f"failed: {describe(error)}")

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
            slot.health = replace(slot.health, asked=slot.health.asked + 1)
        began = self._clock()
        future = slot.call(query, options)
        future.add_done_callback(lambda _: self._note_return(slot, began))
        return ProviderCall(name, deadline, future)

    def _refusal(self, slot: _Slot) -> str:
        if slot.running >= self.policy.running:
            return f"busy: {slot.running} calls have not returned"
        if self._clock() < slot.health.resting_until:
            return (
                f"resting after {slot.health.failures_in_a_row} failures: {slot.health.last_error}"
            )
        return ""

    def _note_return(self, slot: _Slot, began: float) -> None:
        with self._lock:
            slot.running -= 1
            slot.health = replace(slot.health, seconds=self._clock() - began)
