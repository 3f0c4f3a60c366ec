"""Providers: memories of others, asked at once, each under its own deadline, and joined into one answer.

What is not empty is joined, labeled by provider; one that fails or is late is left out and named as degraded, and never
blocks the others. No provider is asked when the plan skips, when it does not want memory, or for a bare greeting or a
slash command. The plan's limit and min_trust, the tenant and the session go to every provider that takes them.

Each call runs in a daemon thread, what is async on an event loop of the provider's own: neither a blocked call nor a
blocked loop reaches the others or keeps the process from ending. Each call has its own future, so a late answer is
dropped and can never answer a newer question. Calls do not pile up: a provider with too many still running is not
asked, and one that failed several times in a row rests for a while. A pool that was started initializes its providers,
and closes them when it is closed.
"""

import asyncio
import inspect
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import entry_points
from threading import Lock
from typing import Literal

from pydantic import Field

from millgate.calls.bugs import describe
from millgate.calls.loop import serve_loop
from millgate.calls.parts import FAILURES, REST_S, Rest, contain, start_thread
from millgate.errors import ConfigError, UpstreamError
from millgate.knowledge.facts import judge_recalled
from millgate.protocols import Clock, MemoryProvider
from millgate.published.context_strategy import pick_accepted
from millgate.text.fence import fence, quote
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.wanted import asks_nothing
from millgate.types import Candidate, Chunk, Plan, Sifted
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, Positive, PositiveCount, Tuning, Unit

Status = Literal["answered", "empty", "unavailable", "late", "failed", "unasked"]

ENTRY_POINTS = "millgate.memory"
# how long opening waits for providers to initialize; a slower one goes on, and the first question waits for it
START_WAIT_S = 1.0
REASON_CHARS = 200

LOGGER = logging.getLogger("millgate.memory")

# in an answer it would pass for another provider's label
_LABEL = lazy_compile(r"^##", re.MULTILINE)


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
class ProviderAnswer:
    """How one provider answered, or why it did not."""

    provider: str
    status: Status
    text: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Recollection:
    """The answers of all providers in their order, and their passages as candidates.

    `reason` says why no provider was asked; it is empty if they were.
    """

    answers: tuple[ProviderAnswer, ...] = ()
    reason: str = ""
    sifted: Sifted = field(default_factory=Sifted)

    @property
    def asked(self) -> bool:
        """Whether the providers were asked at all."""
        return not self.reason

    @property
    def degraded(self) -> tuple[str, ...]:
        """Providers that were left out, as 'name: why'."""
        bad = (a for a in self.answers if a.status in ("late", "failed", "unasked"))
        return tuple(f"{a.provider}: {a.reason}" for a in bad)

    @property
    def text(self) -> str:
        """The answers, each under the provider's name; not fenced."""
        return "\n\n".join(
            f"## {a.provider}\n" + _LABEL.sub(r"\\##", quote(a.text))
            for a in self.answers
            if a.status == "answered"
        )

    def fence(self, secret: bytes) -> str:
        """The answers inside a fence that stored text cannot close; empty without answers."""
        return fence(self.text, secret) if self.text else ""


async def prefetch_all(
    query: str,
    providers: "ProviderPool | Sequence[MemoryProvider]",
    plan: Plan | None = None,
    *,
    tenant: str = "",
    session_id: str = "",
    policy: RecallPolicy | None = None,
) -> Recollection:
    """Ask all providers at once; answers, and who was left out, after at most the longest deadline."""
    reason = reason_not_to_ask(query, plan)
    if reason:
        return Recollection(reason=reason)
    options = {
        "tenant": tenant,
        "session_id": session_id,
        "limit": plan and plan.limit,
        "min_trust": plan and plan.min_trust,
    }
    if isinstance(providers, ProviderPool):
        answers = await providers.ask(query, options)
        return Recollection(answers, sifted=candidates(answers, providers.policy, plan))
    pool = ProviderPool(providers, policy)  # closed after this question
    try:
        return await prefetch_all(query, pool, plan, tenant=tenant, session_id=session_id)
    finally:
        pool.close()


def prefetch_all_sync(
    query: str,
    providers: "ProviderPool | Sequence[MemoryProvider]",
    plan: Plan | None = None,
    *,
    tenant: str = "",
    session_id: str = "",
    policy: RecallPolicy | None = None,
) -> Recollection:
    """`prefetch_all` for callers without an event loop."""
    asked = prefetch_all(
        query, providers, plan, tenant=tenant, session_id=session_id, policy=policy
    )
    return asyncio.run(asked)


def reason_not_to_ask(query: str, plan: Plan | None) -> str:
    """Why memory is not asked, or nothing when it is."""
    if plan is not None and plan.skip:
        return "the plan skips retrieval"
    if plan is not None and not plan.prefetch:
        return "the plan does not want memory"
    return "nothing in the message calls for memory" if asks_nothing(query) else ""


def candidates(
    answers: Iterable[ProviderAnswer], policy: RecallPolicy, plan: Plan | None = None
) -> Sifted:
    """The answers' passages as candidates of source "memory", all of them added here.

    The provider chose its text for this query, so score = trust in it · 0.9^place. The plan's limit holds for each.
    """
    least, most = (plan.min_trust, plan.limit) if plan else (None, None)
    judged: list[Candidate] = []
    for answer in answers:
        trust = policy.trusts.get(answer.provider, policy.trust)
        found = (
            (_as_candidate(answer.provider, text, trust * 0.9**place), trust)
            for place, text in enumerate(_passages(answer.text))
        )
        judged += judge_recalled(found, min_trust=least, limit=most)
    unique = {candidate.chunk.id: candidate for candidate in reversed(judged)}
    ordered = sorted(unique.values(), key=lambda c: (-c.score, c.chunk.id))
    return Sifted.split(ordered, added=ordered)


def _passages(text: str) -> list[str]:
    """The paragraphs of an answer, or its lines if it is a list."""
    listed = [line.strip() for line in text.splitlines() if line.strip()]
    if listed and all(line.startswith(("-", "*", "•")) for line in listed):
        return [line.lstrip("-*• ") for line in listed]
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _as_candidate(provider: str, text: str, score: float) -> Candidate:
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    chunk = Chunk(f"{provider}:{digest}", text, document=provider, source="memory")
    found = Candidate(chunk, score)
    return found.with_note(Stage.MEMORY, Fate.ADD, NoteCode.RECALLED, subject=provider)


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
        self._slots: dict[str, _Slot] = {}
        self._started = False
        for provider in providers:
            slot = _Slot(provider, Rest(self.policy.failures, self.policy.rest_s, clock=clock))
            if self._slots.setdefault(slot.name, slot) is not slot:
                raise ConfigError(
                    f"two memory providers are called {slot.name!r}", hint="rename one"
                )

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
        return {name: slot.rest.failures_in_a_row for name, slot in self._slots.items()}

    async def ask(self, query: str, options: Mapping[str, object]) -> tuple[ProviderAnswer, ...]:
        """Ask every provider that is neither busy nor resting; an answer, or why there is none, of each."""
        began = time.monotonic()
        answers: dict[str, ProviderAnswer] = {}
        calls: list[tuple[float, _Slot, Future[object]]] = []
        for name, slot in self._slots.items():
            deadline = self.policy.deadlines.get(name, self.policy.deadline_s)
            asked = slot.ask(query, options, deadline, most=self.policy.running)
            reason = asked if isinstance(asked, str) else ""
            answers[name] = ProviderAnswer(name, "unasked", reason=reason)
            if not isinstance(asked, str):
                calls.append((deadline, slot, asked))
        # the shortest deadline first, so that each is read when its own time is up
        for deadline, slot, future in sorted(calls, key=lambda call: call[0]):
            mine = asyncio.wrap_future(future)
            try:
                left = began + deadline - time.monotonic()
                await asyncio.wait({mine}, timeout=max(0.0, left))
            finally:
                mine.cancel()  # changes nothing when it is done; else its answer is dropped
            answer = answers[slot.name] = self._read_answer(slot.name, future, deadline)
            slot.rest.note(answer.reason if answer.status in ("late", "failed") else "")
        return tuple(answers.values())

    def _read_answer(self, name: str, future: "Future[object]", deadline: float) -> ProviderAnswer:
        error = future.exception() if future.done() else _Late()
        if isinstance(error, _Late):
            return ProviderAnswer(name, "late", reason=f"late: no answer in {deadline:g} s")
        if isinstance(error, _Unavailable):
            return ProviderAnswer(name, "unavailable", reason="not available")
        if error is not None:
            shown = " ".join(f"failed: {describe(error)}".split())
            return ProviderAnswer(name, "failed", reason=shown[:REASON_CHARS])
        said = future.result()
        if said is not None and not isinstance(said, str):
            reason = f"failed: answered {type(said).__name__}, not text"
            return ProviderAnswer(name, "failed", reason=reason)
        text = (said or "")[: self.policy.answer_chars].strip()
        return ProviderAnswer(name, "answered" if text else "empty", text)

    def start(self, tenant: str) -> None:
        """Initialize the providers that want it, all at once; from now on they are also closed.

        One that fails is logged, and tried again with the next question.
        """
        self._started = True
        begun = [(slot, slot.start(tenant)) for slot in self._slots.values()]
        for slot, error in _errors(begun, min(START_WAIT_S, self.policy.deadline_s)):
            if not isinstance(error, _Late):
                LOGGER.warning("memory provider %s cannot be initialized: %s", slot.name, error)
                slot.rest.note(f"failed: {describe(error)}")

    def close(self) -> None:
        """Close the providers that were started, and stop the event loops of async ones."""
        started, self._started = self._started, False
        begun = [(slot, slot.shut_down()) for slot in self._slots.values() if started]
        for slot, error in _errors(begun, self.policy.deadline_s):
            LOGGER.warning("memory provider %s did not close: %s", slot.name, error)
        for slot in self._slots.values():
            slot.stop_loop()


def _errors(
    begun: "Sequence[tuple[_Slot, Future[object] | None]]", timeout_s: float
) -> "Iterator[tuple[_Slot, BaseException]]":
    """Those that failed, or did not end in time."""
    running = [(slot, future) for slot, future in begun if future is not None]
    wait([future for _, future in running], timeout_s)
    for slot, future in running:
        error = future.exception() if future.done() else _Late("it did not end in time")
        if error is not None:
            yield slot, error


class _Unavailable(Exception):
    """The provider said that it is not available."""


class _Late(Exception):
    """The provider did not end in time."""


class _Slot:
    """A provider, the threads and the loop that it runs on, and its record.

    A provider may have `initialize` and `close` (or `shutdown`), plain or async. `tenant` and `session_id` go to an
    initialize that takes them.
    """

    def __init__(self, provider: MemoryProvider, rest: Rest) -> None:
        self.provider = provider
        self.rest = rest
        name = getattr(provider, "name", None)
        shown = name if isinstance(name, str) and name.strip() else type(provider).__name__
        self.name = " ".join(shown.split())[:64]
        self._running = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = Lock()
        self._initialize: Callable[[], Future[object]] | None = None
        self._ready: Future[object] | None = None

    def ask(
        self, query: str, options: Mapping[str, object], deadline_s: float, *, most: int
    ) -> "Future[object] | str":
        """Begin a call, once the provider is initialized; or say why it is not asked."""
        with self._lock:
            if self._running >= most:
                return f"busy: {self._running} calls have not returned"
            if self.rest.reason:
                return self.rest.reason
            self._running += 1
        future = start_thread(self.name, self._prefetch, query, options, deadline_s)
        future.add_done_callback(self._count_return)
        return future

    def _count_return(self, _: object) -> None:
        with self._lock:
            self._running -= 1

    def _prefetch(self, query: str, options: Mapping[str, object], deadline_s: float) -> object:
        if (ready := self._begin_initialization()) is not None:
            ready.result()
        available = getattr(self.provider, "is_available", None)
        if available is not None and not available():
            raise _Unavailable
        prefetch = self.provider.prefetch
        return self._run(prefetch, query, timeout_s=deadline_s, **pick_accepted(prefetch, options))

    def start(self, tenant: str) -> "Future[object] | None":
        """Begin to initialize the provider; None if it has nothing to initialize."""
        initialize = getattr(self.provider, "initialize", None)
        if initialize is not None:
            given = pick_accepted(initialize, {"tenant": tenant, "session_id": ""})
            self._initialize = lambda: start_thread(self.name, self._run, initialize, **given)
        return self._begin_initialization()

    def _begin_initialization(self) -> "Future[object] | None":
        """The initialization that is done or under way; a failed one is begun anew."""
        with self._lock:
            ready = self._ready
            failed = ready is not None and ready.done() and ready.exception() is not None
            if self._initialize is not None and (ready is None or failed):
                self._ready = self._initialize()
            return self._ready

    def shut_down(self) -> "Future[object] | None":
        """Begin to close the provider; None if it has nothing to close."""
        end = getattr(self.provider, "close", None) or getattr(self.provider, "shutdown", None)
        return None if end is None else start_thread(self.name, self._run, end)

    def stop_loop(self) -> None:
        """Stop the event loop of an async provider."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._loop = None

    def _run(
        self,
        method: Callable[..., object],
        *args: object,
        timeout_s: float | None = None,
        **given: object,
    ) -> object:
        """Call a method of the provider from a thread of its own, and await it on the loop if it is async."""
        if not inspect.iscoroutinefunction(method):
            return method(*args, **given)
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=serve_loop, args=(self._loop,), daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(method(*args, **given), self._loop)
        if not wait([future], timeout_s).done:
            future.cancel()
            raise _Late
        return future.result()


def load_plugins() -> list[MemoryProvider]:
    """The providers that installed packages offer, by name of their entry point.

    An entry names a class or function that makes a provider without arguments.
    """
    made: list[MemoryProvider] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            provider = contain("plugin", contain("plugin", entry.load))
        except (
            UpstreamError, ImportError, AttributeError, TypeError, ValueError, OSError, RuntimeError,
        ) as error:  # fmt: skip
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
