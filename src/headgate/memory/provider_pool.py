"""ProviderPool: calls memory providers so that none can block the caller, and tracks the health of each.

A plain provider runs in a daemon thread of its own, an async one on an event loop of its own, so neither a
blocked call nor a blocked loop reaches the others, and neither keeps the process from ending. Threads do
not pile up: a provider with too many calls still running is not asked again until some return, and one that
failed several times in a row rests for a while. Each call has its own future, so a late answer is dropped
and can never answer a newer question.
"""

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import Any

from pydantic import Field

from headgate.errors import ConfigError
from headgate.forks import ForkSafeLock, renew_in_children
from headgate.policy import Policy, Positive, PositiveCount, Tuning, Unit
from headgate.protocols import Clock, MemoryProvider

ENTRY_POINTS = "headgate.memory"


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
    trust: Unit = 0.5
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


class ProviderUnavailable(Exception):
    """The provider said that it is not available."""


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
        self._lock = ForkSafeLock()
        self._slots: dict[str, _Slot] = {}
        for provider in providers:
            name = name_of(provider)
            if name in self._slots:
                raise ConfigError(f"two memory providers are called {name!r}", hint="rename one")
            self._slots[name] = _Slot(provider)

    @property
    def names(self) -> tuple[str, ...]:
        """The providers' names, in the order they are asked."""
        return tuple(self._slots)

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

    def close(self) -> None:
        """Stop the event loops of async providers."""
        for slot in self._slots.values():
            slot.close()

    def _ask(
        self, name: str, slot: "_Slot", query: str, options: Mapping[str, object]
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

    def _refusal(self, slot: "_Slot") -> str:
        if slot.running >= self.policy.running:
            return f"busy: {slot.running} calls have not returned"
        if self._clock() < slot.health.resting_until:
            return (
                f"resting after {slot.health.failures_in_a_row} failures: {slot.health.last_error}"
            )
        return ""

    def _note_return(self, slot: "_Slot", began: float) -> None:
        with self._lock:
            slot.running -= 1
            slot.health = replace(slot.health, seconds=self._clock() - began)


class _Slot:
    """A provider, how to call it, and its health."""

    def __init__(self, provider: MemoryProvider) -> None:
        self.provider = provider
        self.accepts = accepted_options(provider.prefetch)
        self.health = ProviderHealth()
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """No call runs, and the loop is started when it is needed: a forked child has no thread for it."""
        self.running = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def call(self, query: str, options: Mapping[str, object]) -> "Future[object]":
        given = {name: value for name, value in options.items() if name in self.accepts}
        if inspect.iscoroutinefunction(self.provider.prefetch):
            return asyncio.run_coroutine_threadsafe(
                self._call_async(query, given), self._event_loop()
            )
        future: Future[object] = Future()
        future.set_running_or_notify_cancel()
        work = threading.Thread(
            target=_run_into,
            args=(future, lambda: self._call_plain(query, given)),
            name=f"headgate-{name_of(self.provider)}",
            daemon=True,
        )
        work.start()
        return future

    def close(self) -> None:
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    def _call_plain(self, query: str, given: Mapping[str, Any]) -> object:
        self._check_available()
        return self.provider.prefetch(query, **given)

    async def _call_async(self, query: str, given: Mapping[str, Any]) -> object:
        self._check_available()
        answer: Coroutine[Any, Any, object] = self.provider.prefetch(query, **given)  # type: ignore[assignment]
        return await answer

    def _check_available(self) -> None:
        available = getattr(self.provider, "is_available", None)
        if available is not None and not available():
            raise ProviderUnavailable

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_loop, args=(self._loop,), daemon=True).start()
            return self._loop


def load_plugins() -> list[MemoryProvider]:
    """Providers that installed packages offer under the entry-point group `headgate.memory`, by name.

    An entry names a class or function that makes a provider without arguments.
    """
    made: list[MemoryProvider] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            provider = entry.load()()
        except (ImportError, AttributeError, TypeError, ValueError, OSError, RuntimeError) as error:
            raise ConfigError(
                f"the memory plugin {entry.name!r} cannot be loaded: {error}",
                hint=f"repair or uninstall the package that offers {entry.value}",
            ) from error
        if not callable(getattr(provider, "prefetch", None)):
            raise ConfigError(
                f"the memory plugin {entry.name!r} has no prefetch()",
                hint="a provider has a name, is_available() and prefetch(query, ...)",
            )
        made.append(provider)
    return made


def name_of(provider: MemoryProvider) -> str:
    """The provider's name on one line, or that of its class where it has none."""
    name = getattr(provider, "name", None)
    shown = name if isinstance(name, str) and name.strip() else type(provider).__name__
    return " ".join(shown.split())[:64]


def accepted_options(prefetch: Callable[..., object]) -> frozenset[str]:
    """Which of session_id, limit and min_trust a provider's signature takes."""
    known = frozenset({"session_id", "limit", "min_trust"})
    try:
        parameters = inspect.signature(prefetch).parameters
    except (TypeError, ValueError):  # written in C, it has no signature to read: give it all three
        return known
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return known
    return frozenset(p.name for p in parameters.values() if p.kind is not p.POSITIONAL_ONLY) & known


def _run_into(future: "Future[object]", work: Callable[[], object]) -> None:
    """Run a provider's code; its result, or any error, goes into the future."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is handed on to whoever waits for the future
        future.set_exception(error)
    else:
        future.set_result(result)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=1))
    loop.close()
