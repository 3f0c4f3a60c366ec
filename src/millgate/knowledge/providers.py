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
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import entry_points
from threading import Lock
from typing import Literal

from pydantic import Field

from millgate.calls.bugs import describe
from millgate.calls.loop import BackgroundLoop
from millgate.calls.parts import FAILURES, REST_S, Rest, contain, start_thread
from millgate.errors import ConfigError
from millgate.knowledge.facts import judge_recalled
from millgate.protocols import Clock, MemoryProvider
from millgate.published.context_strategy import pick_accepted
from millgate.text.fence import fence, quote
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.wanted import asks_nothing
from millgate.types import Candidate, Chunk, Plan, Sifted
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, Positive, PositiveCount, Tuning, Unit

Status = Literal["answered", "empty", "late", "failed", "unasked"]

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
    if reason := reason_not_to_ask(query, plan):
        return Recollection(reason=reason)
    pool = providers if isinstance(providers, ProviderPool) else ProviderPool(providers, policy)
    options = {
        "tenant": tenant,
        "session_id": session_id,
        "limit": plan and plan.limit,
        "min_trust": plan and plan.min_trust,
    }
    try:
        answers = await pool.ask(query, options)
    finally:
        if pool is not providers:  # it was made for this question
            pool.close()
    return Recollection(answers, sifted=candidates(answers, pool.policy, plan))


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
    return asyncio.run(
        prefetch_all(query, providers, plan, tenant=tenant, session_id=session_id, policy=policy)
    )


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
        found = (
            (_as_candidate(answer.provider, text, policy.trust * 0.9**place), policy.trust)
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
        asked = [self._ask(slot, query, options) for slot in self._slots.values()]
        return tuple(await asyncio.gather(*asked))

    async def _ask(
        self, slot: "_Slot", query: str, options: Mapping[str, object]
    ) -> ProviderAnswer:
        name, deadline_s = slot.name, self.policy.deadlines.get(slot.name, self.policy.deadline_s)
        future = slot.ask(query, options, deadline_s, most=self.policy.running)
        if isinstance(future, str):
            return ProviderAnswer(name, "unasked", reason=future)
        mine = asyncio.wrap_future(future)
        try:
            await asyncio.wait({mine}, timeout=deadline_s)
        finally:
            mine.cancel()  # changes nothing when it is done; else its answer is dropped
        error = future.exception() if future.done() else None
        said = future.result() if future.done() and error is None else None
        if not future.done():
            answer = ProviderAnswer(name, "late", reason=f"late: no answer in {deadline_s:g} s")
        elif error is not None or not isinstance(said, str | None):
            why = describe(error) if error else f"answered {type(said).__name__}, not text"
            shown = " ".join(f"failed: {why}".split())[:REASON_CHARS]
            answer = ProviderAnswer(name, "failed", reason=shown)
        else:
            text = (said or "")[: self.policy.answer_chars].strip()
            answer = ProviderAnswer(name, "answered" if text else "empty", text)
        slot.rest.note(answer.reason)
        return answer

    def start(self, tenant: str) -> None:
        """Initialize the providers that want it, all at once; from now on they are also closed.

        One that fails is logged, and tried again with the next question.
        """
        begun = {slot: slot.start(tenant) for slot in self._slots.values()}
        wait(begun.values(), min(START_WAIT_S, self.policy.deadline_s))
        for slot, future in begun.items():
            if future.done() and (error := future.exception()):
                LOGGER.warning("memory provider %s cannot be initialized: %s", slot.name, error)
                slot.rest.note(f"failed: {describe(error)}")

    def close(self) -> None:
        """Close the providers that were started, and stop the event loops of async ones."""
        begun = {slot: slot.shut_down() for slot in self._slots.values() if slot.ready}
        wait(begun.values(), self.policy.deadline_s)
        for slot, future in begun.items():
            error = future.exception() if future.done() else "it did not end in time"
            if error is not None:
                LOGGER.warning("memory provider %s did not close: %s", slot.name, error)
        for slot in self._slots.values():
            slot.loop.stop()


class _Slot:
    """A provider, the threads and the loop that it runs on, and its record.

    A provider may have `initialize` and `close` (or `shutdown`), plain or async. `tenant` and `session_id` go to an
    initialize that takes them.
    """

    def __init__(self, provider: MemoryProvider, rest: Rest) -> None:
        self.provider = provider
        self.rest = rest
        self.loop = BackgroundLoop()
        self.ready: Future[object] | None = None
        name = getattr(provider, "name", None)
        shown = name if isinstance(name, str) and name.strip() else type(provider).__name__
        self.name = " ".join(shown.split())[:64]
        self._tenant = ""
        self._running = 0
        self._lock = Lock()

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
        if self.ready is not None:
            self.start(self._tenant).result()
        available = getattr(self.provider, "is_available", None)
        if available is not None and not available():
            return None
        prefetch = self.provider.prefetch
        return self._run(prefetch, query, timeout_s=deadline_s, **pick_accepted(prefetch, options))

    def start(self, tenant: str) -> "Future[object]":
        """The initialization, which is begun if it was not or has failed."""
        initialize = getattr(self.provider, "initialize", None) or (lambda: None)
        given = pick_accepted(initialize, {"tenant": tenant, "session_id": ""})
        with self._lock:
            self._tenant, ready = tenant, self.ready
            if ready is None or (ready.done() and ready.exception()):
                self.ready = ready = start_thread(self.name, self._run, initialize, **given)
            return ready

    def shut_down(self) -> "Future[object]":
        """Begin to close the provider."""
        self.ready = None
        end = getattr(self.provider, "close", None) or getattr(self.provider, "shutdown", None)
        return start_thread(self.name, self._run, end or (lambda: None))

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
        return self.loop.run(asyncio.wait_for(method(*args, **given), timeout_s))


def load_plugins() -> list[MemoryProvider]:
    """The providers that installed packages offer, by name of their entry point.

    An entry names a class or function that makes a provider without arguments.
    """
    made: list[MemoryProvider] = []
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        try:
            provider = contain("plugin", contain("plugin", entry.load))
        except Exception as error:
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
