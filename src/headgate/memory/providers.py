"""Providers: many memories, asked at once, one answer.

Each provider has its own deadline. What is not empty is joined, labelled by provider; one that fails or is
late is left out and named as degraded, and never blocks the others. The plan is obeyed: no question is asked
when it skips or when memory is not wanted, and its limit and min_trust go to every provider that takes them.
A bare greeting or a slash command asks nothing. Recalled text leaves here only inside a fence.
"""

import asyncio
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from headgate.memory.facts import Notebook
from headgate.memory.provider_pool import Call, ProviderPool, RecallPolicy, Unavailable
from headgate.notes import Fate, NoteCode, Stage
from headgate.protocols import MemoryProvider
from headgate.text.fence import fence, quote
from headgate.types import Candidate, Chunk, Plan, Sifted

Status = Literal["answered", "empty", "unavailable", "late", "failed", "unasked"]

REASON_CHARS = 200

_WORDS = (
    r"hi|hiya|hello|hey|heya|yo|howdy|greetings|good (?:morning|afternoon|evening|day|night)|gm|gn|sup"
    r"|what'?s up|how are you(?: doing)?(?: today)?|thanks?|thank you|thx|ty|cheers|ok(?:ay)?|k|cool|nice|great"
    r"|perfect|yes|yep|yeah|no|nope|sure|bye|goodbye|see you|later|welcome|please|there|all|team|everyone|again"
    r"|so much|very much|a lot|hallo|hola|bonjour|ciao|salut|moin|servus|danke|merci|gracias"
)
_GREETING = re.compile(rf"(?:(?:{_WORDS})[\W_]*)+", re.IGNORECASE)
_LABEL = re.compile(r"^##", re.MULTILINE)  # in an answer: it would pose as another provider's
_COMMAND = re.compile(r"/[A-Za-z][\w:.-]*(?:\s|$)")


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of asking one provider."""

    provider: str
    status: Status
    text: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The answers of all providers in their order; `asked` is False where no question was worth it."""

    answers: tuple[Answer, ...] = ()
    asked: bool = True
    reason: str = ""

    @property
    def degraded(self) -> tuple[str, ...]:
        """Providers that were left out, as 'name: why'."""
        bad = (a for a in self.answers if a.status in ("late", "failed", "unasked"))
        return tuple(f"{a.provider}: {a.reason}" for a in bad)

    @property
    def text(self) -> str:
        """What was answered, labelled by provider; not yet fenced."""
        said = (a for a in self.answers if a.status == "answered")
        return "\n\n".join(f"## {a.provider}\n{_quoted(a.text)}" for a in said)

    def fenced(self, secret: bytes) -> str:
        """The answers as a block that says what it is and that stored text cannot close; empty for none."""
        return fence(self.text, secret) if self.text else ""


def worth_asking(query: str) -> bool:
    """Whether a message may call for recall: not when it is empty, a bare greeting or a slash command."""
    said = query.strip()
    bare = len(said) <= 80 and _GREETING.fullmatch(said.lstrip("¡¿").strip()) is not None
    return bool(re.search(r"\w", said)) and not bare and not _COMMAND.match(said)


async def prefetch_all(
    query: str,
    providers: ProviderPool | Sequence[MemoryProvider],
    plan: Plan | None = None,
    *,
    session_id: str = "",
    policy: RecallPolicy | None = None,
) -> Recalled:
    """Ask all providers at once; answers, and who was left out, after at most the longest deadline."""
    reason = declined(query, plan)
    if reason:
        return Recalled(asked=False, reason=reason)
    with _seated(providers, policy) as panel:
        began = time.monotonic()
        calls = panel.ask(query, _options(plan, session_id))
        answers = {call.provider: _refused(call) for call in calls}
        for call, future in _by_deadline(calls):
            mine = asyncio.wrap_future(future)
            try:
                left = began + call.deadline_s - time.monotonic()
                await asyncio.wait({mine}, timeout=max(0.0, left))
            finally:
                mine.cancel()  # changes nothing when it is done
            answers[call.provider] = _close(panel, call, future)
        return Recalled(tuple(answers.values()))


def prefetch_all_sync(
    query: str,
    providers: ProviderPool | Sequence[MemoryProvider],
    plan: Plan | None = None,
    *,
    session_id: str = "",
    policy: RecallPolicy | None = None,
) -> Recalled:
    """`prefetch_all` for callers without an event loop."""
    asked = prefetch_all(query, providers, plan, session_id=session_id, policy=policy)
    return asyncio.run(asked)


def candidates(recalled: Recalled, policy: RecallPolicy, plan: Plan | None = None) -> Sifted:
    """The answers' paragraphs as candidates of source "memory", all of them added here.

    A provider has chosen its text for the query: score = trust in it · 0.9^place. The plan's limit holds for each.
    """
    judged: list[Candidate] = []
    for answer in recalled.answers:
        trust = policy.trusts.get(answer.provider, policy.trust)
        for place, text in enumerate(_pieces(answer.text)):
            candidate = _candidate(answer.provider, text, trust * 0.9**place)
            judged.append(_judge(candidate, trust, place, plan))
    unique = {candidate.chunk.id: candidate for candidate in reversed(judged)}
    ordered = sorted(unique.values(), key=lambda c: (-c.score, c.chunk.id))
    return Sifted.split(ordered, added=ordered)


class FactProvider:
    """The built-in provider: a notebook's facts as lines of text."""

    name = "facts"

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook

    def is_available(self) -> bool:
        """Always: its facts are in the store."""
        return True

    def prefetch(
        self, query: str, *, session_id: str = "", limit: int | None, min_trust: float | None
    ) -> str:
        """The facts that fit the query, one a line, with the trust they have."""
        hits = self._notebook.search(query, limit=limit, min_trust=min_trust)
        return "\n".join(f"- {hit.fact.content} (trust {hit.fact.trust:.2f})" for hit in hits)


def _quoted(text: str) -> str:
    return _LABEL.sub(r"\\##", quote(text))


def declined(query: str, plan: Plan | None) -> str:
    """Why memory is not asked, or nothing when it is."""
    if plan is not None and plan.skip:
        return "the plan skips retrieval"
    if plan is not None and not plan.prefetch:
        return "the plan does not want memory"
    return "" if worth_asking(query) else "nothing in the message calls for memory"


@contextmanager
def _seated(
    providers: ProviderPool | Sequence[MemoryProvider], policy: RecallPolicy | None
) -> Iterator[ProviderPool]:
    """The panel given, or one for this question alone."""
    if isinstance(providers, ProviderPool):
        yield providers
        return
    panel = ProviderPool(providers, policy)
    try:
        yield panel
    finally:
        panel.close()


def _by_deadline(calls: Sequence[Call]) -> list[tuple[Call, "Future[object]"]]:
    """Running calls, the shortest deadline first, so that each is judged when its own time is up."""
    running = [(call, call.future) for call in calls if call.future is not None]
    return sorted(running, key=lambda pair: pair[0].deadline_s)


def _options(plan: Plan | None, session_id: str) -> Mapping[str, object]:
    limit = None if plan is None else plan.limit
    min_trust = None if plan is None else plan.min_trust
    return {"session_id": session_id, "limit": limit, "min_trust": min_trust}


def _refused(call: Call) -> Answer:
    return Answer(call.provider, "unasked", reason=call.refusal)


def _close(panel: ProviderPool, call: Call, future: "Future[object]") -> Answer:
    """Read a call that is done, give up one that is not, and tell the panel."""
    if not future.done() or future.cancelled():
        future.cancel()  # ends an async provider; a thread goes on, and nobody listens
        answer = Answer(call.provider, "late", reason=f"late: no answer in {call.deadline_s:g} s")
    else:
        answer = _read(call.provider, future, panel.policy.answer_chars)
    well = answer.status in ("answered", "empty", "unavailable")
    panel.told(call.provider, error="" if well else answer.reason, late=answer.status == "late")
    return answer


def _read(provider: str, future: "Future[object]", most: int) -> Answer:
    error = future.exception(timeout=0)
    if isinstance(error, Unavailable):
        return Answer(provider, "unavailable", reason="not available")
    if error is not None:
        shown = " ".join(f"failed: {type(error).__name__}: {error}".split())
        return Answer(provider, "failed", reason=shown[:REASON_CHARS])
    said = future.result(timeout=0)
    if said is not None and not isinstance(said, str):
        return Answer(
            provider, "failed", reason=f"failed: answered {type(said).__name__}, not text"
        )
    text = (said or "")[:most].strip()
    return Answer(provider, "answered" if text else "empty", text)


def _pieces(text: str) -> list[str]:
    """The paragraphs of an answer, or its lines where it is a list."""
    listed = [line.strip() for line in text.splitlines() if line.strip()]
    if listed and all(line.startswith(("-", "*", "•")) for line in listed):
        return [line.lstrip("-*• ") for line in listed]
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def _candidate(provider: str, text: str, score: float) -> Candidate:
    digest = sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    chunk = Chunk(f"{provider}:{digest}", text, document=provider, source="memory")
    found = Candidate(chunk, score)
    return found.with_note(Stage.MEMORY, Fate.ADD, NoteCode.RECALLED, subject=provider)


def _judge(candidate: Candidate, trust: float, place: int, plan: Plan | None) -> Candidate:
    """The candidate, dropped where the plan does not want it."""
    if plan is not None and plan.min_trust is not None and trust < plan.min_trust:
        return candidate.with_note(
            Stage.MEMORY, Fate.DROP, NoteCode.LOW_TRUST, trust=trust, min_trust=plan.min_trust
        )
    if plan is not None and plan.limit is not None and place >= plan.limit:
        return candidate.with_note(Stage.MEMORY, Fate.DROP, NoteCode.BEYOND_LIMIT, limit=plan.limit)
    return candidate
