"""Providers: many memories, asked at once, joined into one answer.

Each provider has its own deadline. What is not empty is joined, labeled by provider; one that fails or is late is left
out and named as degraded, and never blocks the others. No provider is asked when the plan skips, when it does not
want memory, or for a bare greeting or a slash command. The plan's limit and min_trust, the tenant and the session go to
every provider that takes them. `Recollection.fenced` puts the text inside a fence.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal

from millgate.bugs import describe
from millgate.memory.provider_pool import ProviderCall, ProviderPool, RecallPolicy
from millgate.memory.provider_slot import ProviderUnavailable
from millgate.notes import Fate, NoteCode, Stage
from millgate.protocols import MemoryProvider
from millgate.text.fence import fence, quote
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.small_talk import asks_nothing
from millgate.types import Candidate, Chunk, Plan, Sifted

Status = Literal["answered", "empty", "unavailable", "late", "failed", "unasked"]

REASON_CHARS = 200

# in an answer it would pass for another provider's label
_LABEL = lazy_compile(r"^##", re.MULTILINE)


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
        given = (a for a in self.answers if a.status == "answered")
        return "\n\n".join(f"## {a.provider}\n{_quote_labels(a.text)}" for a in given)

    def fence(self, secret: bytes) -> str:
        """The answers inside a fence that stored text cannot close; empty without answers."""
        return fence(self.text, secret) if self.text else ""


async def prefetch_all(
    query: str,
    providers: ProviderPool | Sequence[MemoryProvider],
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
    with _pool_for(providers, policy) as pool:
        began = time.monotonic()
        calls = pool.ask(query, _options(plan, tenant, session_id))
        answers = {
            c.provider: ProviderAnswer(c.provider, "unasked", reason=c.refusal) for c in calls
        }
        for call, future in _by_deadline(calls):
            mine = asyncio.wrap_future(future)
            try:
                left = began + call.deadline_s - time.monotonic()
                await asyncio.wait({mine}, timeout=max(0.0, left))
            finally:
                mine.cancel()  # changes nothing when it is done
            answers[call.provider] = _finish(pool, call, future)
        given = tuple(answers.values())
        return Recollection(given, sifted=candidates(given, pool.policy, plan))


def prefetch_all_sync(
    query: str,
    providers: ProviderPool | Sequence[MemoryProvider],
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


def candidates(
    answers: Sequence[ProviderAnswer], policy: RecallPolicy, plan: Plan | None = None
) -> Sifted:
    """The answers' passages as candidates of source "memory", all of them added here.

    The provider chose its text for this query, so score = trust in it · 0.9^place. The plan's limit holds for each.
    """
    judged: list[Candidate] = []
    for answer in answers:
        trust = policy.trusts.get(answer.provider, policy.trust)
        for place, text in enumerate(_passages(answer.text)):
            candidate = _as_candidate(answer.provider, text, trust * 0.9**place)
            judged.append(_judge(candidate, trust, place, plan))
    unique = {candidate.chunk.id: candidate for candidate in reversed(judged)}
    ordered = sorted(unique.values(), key=lambda c: (-c.score, c.chunk.id))
    return Sifted.split(ordered, added=ordered)


def _quote_labels(text: str) -> str:
    return _LABEL.sub(r"\\##", quote(text))


def reason_not_to_ask(query: str, plan: Plan | None) -> str:
    """Why memory is not asked, or nothing when it is."""
    if plan is not None and plan.skip:
        return "the plan skips retrieval"
    if plan is not None and not plan.prefetch:
        return "the plan does not want memory"
    return "nothing in the message calls for memory" if asks_nothing(query) else ""


@contextmanager
def _pool_for(
    providers: ProviderPool | Sequence[MemoryProvider], policy: RecallPolicy | None
) -> Iterator[ProviderPool]:
    """The given pool, or a new one that is closed after this question."""
    if isinstance(providers, ProviderPool):
        yield providers
        return
    pool = ProviderPool(providers, policy)
    try:
        yield pool
    finally:
        pool.close()


def _by_deadline(calls: Sequence[ProviderCall]) -> list[tuple[ProviderCall, "Future[object]"]]:
    """Running calls, the shortest deadline first, so that each is read when its own time is up."""
    running = [(call, call.future) for call in calls if call.future is not None]
    return sorted(running, key=lambda pair: pair[0].deadline_s)


def _options(plan: Plan | None, tenant: str, session_id: str) -> Mapping[str, object]:
    limit = None if plan is None else plan.limit
    min_trust = None if plan is None else plan.min_trust
    return {
        "tenant": tenant, "session_id": session_id, "limit": limit, "min_trust": min_trust,
    }  # fmt: skip


def _finish(pool: ProviderPool, call: ProviderCall, future: "Future[object]") -> ProviderAnswer:
    """The answer of a call that is done, or a late one; the pool gets a report."""
    if not future.done() or future.cancelled():
        future.cancel()  # ends an async provider; a thread goes on, but its answer is dropped
        answer = ProviderAnswer(
            call.provider, "late", reason=f"late: no answer in {call.deadline_s:g} s"
        )
    else:
        answer = _read_answer(call.provider, future, pool.policy.answer_chars)
    ok = answer.status in ("answered", "empty", "unavailable")
    pool.report(call.provider, "" if ok else answer.reason)
    return answer


def _read_answer(provider: str, future: "Future[object]", most: int) -> ProviderAnswer:
    error = future.exception(timeout=0)
    if isinstance(error, ProviderUnavailable):
        return ProviderAnswer(provider, "unavailable", reason="not available")
    if error is not None:
        shown = " ".join(f"failed: {describe(error)}".split())
        return ProviderAnswer(provider, "failed", reason=shown[:REASON_CHARS])
    said = future.result(timeout=0)
    if said is not None and not isinstance(said, str):
        return ProviderAnswer(
            provider, "failed", reason=f"failed: answered {type(said).__name__}, not text"
        )
    text = (said or "")[:most].strip()
    return ProviderAnswer(provider, "answered" if text else "empty", text)


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


def _judge(candidate: Candidate, trust: float, place: int, plan: Plan | None) -> Candidate:
    """The candidate, dropped if the plan does not want it."""
    if plan is not None and plan.min_trust is not None and trust < plan.min_trust:
        return candidate.with_note(
            Stage.MEMORY, Fate.DROP, NoteCode.LOW_TRUST, trust=trust, min_trust=plan.min_trust
        )
    if plan is not None and plan.limit is not None and place >= plan.limit:
        return candidate.with_note(Stage.MEMORY, Fate.DROP, NoteCode.BEYOND_LIMIT, limit=plan.limit)
    return candidate
