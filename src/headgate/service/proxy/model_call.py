"""ModelCall: what is known of one call that went through the proxy, for metrics, log, spans and traces.

As a trace, a call is one step for itself, one for its window, and one for each cut of its answer, each rung that its
agent reached and each cap of its accounts. The window is read as the x-ray would read it from a log. Its texts are not
kept, only sizes: by kind, by the tools whose results stand there, of tool definitions, of blocks that Headgate
injected, and of what stands there twice or was made stale by an edit.
"""

import time
from asyncio import CancelledError
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

import orjson

from headgate.compaction.account import Account
from headgate.compaction.items import KINDS as ITEM_KINDS
from headgate.compaction.items import Kind as ItemKind
from headgate.compaction.keep import NOT_PUT_BACK
from headgate.errors import GuardError, HeadgateError, UpstreamTimeout
from headgate.guard.channels import CONTENT
from headgate.guard.dialects import dialect_for
from headgate.guard.dialects.usage import CachedInput
from headgate.guard.fuse import CapStatus
from headgate.guard.ladder import Climb
from headgate.guard.parts import parts_of
from headgate.guard.policy import CircleStep
from headgate.guard.report import Cut, GuardReport, State
from headgate.guard.steps import as_json
from headgate.guard.tools import Circle
from headgate.notes import Stage
from headgate.prompt_cache.judgment import CacheCounts, Judgment
from headgate.prompt_cache.witness import Observation
from headgate.service.proxy.folded_call import FoldedCall
from headgate.service.proxy.transport import NotReached
from headgate.text.bounded_json import loads
from headgate.text.fence import LABEL, without_fences
from headgate.text.redact import redact
from headgate.text.table import clip
from headgate.text.tokens import estimate_tokens
from headgate.types import Plan, Request, Step, Strategy, Tier, Trace
from headgate.types.lengths import SUMMARY_CHARS
from headgate.xray.findings import KINDS
from headgate.xray.formats import entries_of
from headgate.xray.session import SessionBuilder

MOST_GONE = 300  # things that a trace names of those that a compaction lost, those first that nobody can look up
FIRST_ERROR = 400  # the lowest status that says that there is no answer
MOST_WARNINGS = 5  # of the guard that a trace keeps: a line or two of text
MOST_MESSAGES = 10_000  # of a conversation that is read; each takes some 40 microseconds
GAP = "\x1e"  # between the pieces of an answer that was cut: unlike offsets, it stays true when secrets are taken out
PIECE_CHARS = 8000
TOOLS = 8  # tools that are named, those that brought most

Guarded = Literal["off", "clean", "recovered", "passed", "failed", "abandoned"]
Outcome = Guarded | Literal["ended", "unanswered"]


@dataclass(slots=True)
class ModelCall:
    """One call, filled while it happens and read when it is over."""

    path: str
    id: str = field(default_factory=lambda: uuid4().hex, kw_only=True)
    operation: str = ""
    model: str = ""
    upstream: str = ""
    server: str = ""
    query: str = ""
    """What the last human turn asked."""
    session: str = ""
    key: str = ""
    """The id of the API key that the client called with."""
    tool_results: tuple[tuple[str, str], ...] = ()
    """Tools whose results the request brings to the model for the first time, each with the id of its call."""
    context_trace: str = ""
    sent: bytes = b""
    """The request as the model got it, empty if it is huge. Parsed it would take up to ten times the memory."""
    length: int = 0
    """The length of the model's window, if the client says it."""
    answer: str = ""
    """What the client has of an answer that was cut."""
    status: int = 0
    answered: bool = False
    """Whether the upstream answered with 200."""
    ignored: str = ""
    """Headers that look like ours and do not exist, each with the nearest that does."""
    unwatched: str = ""
    """Why the guard did not watch although it was asked to."""
    report: GuardReport | None = None
    """What the guard did; None if it did not watch."""
    rescued_by: str = ""
    """The upstream that made the last try, if another one did."""
    climb: Climb = field(default_factory=Climb)
    """The rungs of the ladder that this call's messages reached, and whether the turn was ended for it."""
    fold: FoldedCall | None = None
    """What folding did with its request, or would have done; None if nobody asked for that."""
    cap_statuses: tuple[CapStatus, ...] = ()
    """How its accounts stand to their caps."""
    prompt_tokens: int | None = None
    """The tokens of its prompt, estimated; None until they are needed."""
    unreported_prompts: int = 0
    """How often an upstream got the prompt and did not report its tokens; they are estimated when the call is over."""
    is_spend_unknown: bool = False
    """Whether the upstream did not report what the call spent: it is booked at its likely size."""
    estimated: bool = False
    """Whether some of its tokens are an estimate."""
    input_tokens: int = 0
    cached_input: CachedInput = field(default_factory=CachedInput)
    first_input: tuple[int, CachedInput] = (0, CachedInput())
    """Input of the client's own request, without what further calls of the answer took."""
    output_tokens: int = 0
    cache_observation: Observation | None = None
    """The request beside the last one of its conversation; None if it was not compared."""
    cache_counts: CacheCounts | None = None
    """What the provider read from its cache and wrote to it for the client's own request; None if it did not say."""
    cache_judgment: Judgment | None = None
    """What the provider read from its cache, and why not more; None if it did not report that."""
    repaired: str = ""
    """What was put back as it was in the last request, so that the provider's cache holds."""
    cost: float | None = None
    """What the call cost with all its tries, in the currency of the prices; None if the model has no price."""
    cache_cost: float | None = None
    """What of it was paid because the cache broke."""
    compaction: Account | None = None
    """What left the window in a compaction before this call; None if there was none."""
    put_back: int = 0
    """Tokens of what was put back for its last question, of what compactions lost."""
    new_blocks: tuple[int, ...] = ()
    """Tokens of each block that was put back for the first time."""
    not_put_back: str = ""
    """Why nothing was put back for its last question, if something was lost."""
    error: str = ""
    """The kind of what went wrong."""
    error_message: str = ""
    """What the client was told of it, without secrets."""
    response_id: str = ""
    began: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    first_byte_s: float | None = None

    @property
    def outcome(self) -> Outcome:
        """What became of the call: whether it had an answer at all, and what became of that."""
        if self.climb.ended is not None:
            return "ended"
        return "unanswered" if self.status >= FIRST_ERROR else self.guarded

    @property
    def guarded(self) -> Guarded:
        """What became of the answer under the guard."""
        report = self.report
        if report is None:
            return "off"
        if report.state is State.FAILED:
            return "failed"
        if report.state is State.CLOSED:
            return "abandoned"
        if report.passed_on:
            return "passed"
        return "recovered" if report.rollbacks or report.cuts else "clean"

    @property
    def problem(self) -> str:
        """What went wrong: its kind, and what the client was told."""
        return f"{self.error}: {self.error_message}" if self.error_message else self.error

    def note_error(self, error: BaseException) -> None:
        """Keep what went wrong; what the guard did is told by its report."""
        self.error = type(error).__name__
        if isinstance(error, HeadgateError) and not isinstance(error, GuardError):
            self.error_message = clip(redact(str(error)), SUMMARY_CHARS)

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait for the head of a response. If the wait is given up, the upstream may still have read the prompt."""
        try:
            yield
        except (UpstreamTimeout, CancelledError) as error:
            self.unreported_prompts += not isinstance(error, NotReached)
            raise

    def end(self, begun_at: float | None) -> None:
        """The call is over; the reply began at this time, if it did."""
        self.seconds = time.perf_counter() - self.began
        if begun_at is not None:
            self.first_byte_s = begun_at - self.began


def call_trace(call: ModelCall, *, tenant: str, now: float) -> Trace:
    """The call as a trace: one step for the call itself, one for its window, and one for each cut, rung and cap."""
    what = f"{call.model} at {call.upstream}: {call.outcome}" if call.upstream else call.problem
    plan = Plan(
        skip=True,
        tier=Tier.STUFF,
        strategy=Strategy.STUFF,
        budget=0,
        reasoning=f"{call.path} {what}",
    )
    request = Request(call.query, tenant=tenant, session=call.session)
    cuts = call.report.cuts if call.report else []
    steps = (
        _call_step(call),
        *_window_steps(call),
        *_cache_steps(call),
        *_compaction_steps(call),
        *(_cut_step(cut) for cut in cuts),
        *(_circle_step(mark.rung, mark.circle) for mark in call.climb.marks),
        *_fold_steps(call),
        *(_fuse_step(status) for status in call.cap_statuses),
    )
    return Trace(call.id, request, plan, steps, created=now)


def _window_steps(call: ModelCall) -> Iterator[Step]:
    """What was in the window, if that is known and can be read in little time."""
    fields = loads(call.sent) if call.sent else {}
    if not fields:
        return
    dialect = dialect_for(call.path)
    messages = dialect.conversation(fields)
    if len(messages) > MOST_MESSAGES:
        return
    if not fields.keys() & {
        "messages",
        "input",
        "prompt",
    }:  # else the x-ray knows the format itself
        said = [{"role": "system", "content": text} for text in dialect.preamble(fields)]
        fields = {"messages": [*said, *messages], "tools": fields.get("tools")}
    yield window_step(fields, call.length)


def _call_step(call: ModelCall) -> Step:
    facts: dict[str, float | str] = {
        "path": call.path,
        "model": call.model,
        "upstream": call.upstream,
        "key": call.key,
        "status": call.status,
        "outcome": call.outcome,
        "guard": call.guarded,
        "rollbacks": call.report.rollbacks if call.report else "",
        "wasted_tokens": call.report.wasted_tokens if call.report else "",
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        "estimated": 1 if call.estimated else "",
        "cost": "" if call.cost is None else round(call.cost, 6),
        "first_byte_s": "" if call.first_byte_s is None else round(call.first_byte_s, 4),
        "ignored": call.ignored,
        "unwatched": call.unwatched,
        "passed_on": call.report.passed_on if call.report else "",
        "repetition": "; ".join(call.report.warnings[:MOST_WARNINGS]) if call.report else "",
        "rescued_by": call.rescued_by,
        "repaired": call.repaired,
        "response_id": call.response_id,
        "context_trace": call.context_trace,
    }
    text = GAP.join(_pieces(call))
    return Step(
        Stage.MODEL, call.seconds, degraded=call.problem, facts=_without_blanks(facts), text=text
    )


def _pieces(call: ModelCall) -> Iterator[str]:
    """What the client has of an answer that was cut: what stands before each cut, and after the last."""
    if not call.answer:
        return
    at, answer = 0, call.answer.replace(GAP, " ")
    for cut in call.report.cuts if call.report else ():
        if cut.channel == CONTENT:
            yield answer[max(at, cut.at - PIECE_CHARS) : cut.at]
            at = cut.at
    yield answer[at : at + PIECE_CHARS]


def _cache_steps(call: ModelCall) -> Iterator[Step]:
    """What the provider read from its cache, if it reports that, and why not more."""
    counts, judged, observed = call.cache_counts, call.cache_judgment, call.cache_observation
    if counts is None:
        return
    facts: dict[str, float | str] = {
        "read": counts.read,
        "written": counts.written,
        "fresh": counts.fresh,
    }
    if judged is not None:
        facts |= {
            "expected": judged.expected,
            "lost": judged.lost,
            "blame": judged.blame if judged.is_break else "",
            "reason": judged.reason,
            "change": observed.difference.change if observed and observed.difference else "",
            "cost": round(call.cache_cost, 6)
            if judged.is_break and call.cache_cost is not None
            else "",
        }
    yield Step(Stage.CACHE, 0.0, facts=_without_blanks(facts))


def _cut_step(cut: Cut) -> Step:
    facts: dict[str, float | str] = {
        "channel": cut.channel,
        "onset": cut.onset,
        "period": cut.period,
        "cut_chars": cut.cut_chars,
        "reason": cut.reason,
        "unit": cut.unit,
    }
    return Step(Stage.CUT, 0.0, facts=facts, text=cut.text)


def _compaction_steps(call: ModelCall) -> Iterator[Step]:
    """What left the window, in numbers; its text is what is gone."""
    told = call.compaction
    if told is None and not call.put_back and not call.not_put_back:
        return
    facts: dict[str, float | str] = {
        "put_back": call.put_back,
        NOT_PUT_BACK: call.not_put_back,
    }
    gone: list[tuple[ItemKind, str]] = []
    if told is not None:
        counts = ((f"{kind}s", left, lost) for kind, (left, lost) in told.counts.items())
        facts |= {
            "reason": told.describe(),
            "id": told.id,
            "way": told.way,
            "turn": told.turn,
            "left": told.tokens,
            **{
                name: n
                for kind, left, lost in counts
                for name, n in ((kind, left), (f"{kind}_gone", lost))
            },
        }
        gone = [(item.kind, item.text) for item in told.list_gone(*ITEM_KINDS)][:MOST_GONE]
    text = orjson.dumps(gone).decode() if gone else ""
    yield Step(Stage.COMPACTION, 0.0, facts=_without_blanks(facts), text=text)


def _circle_step(rung: CircleStep, circle: Circle) -> Step:
    facts: dict[str, float | str] = {
        "rung": rung,
        "period": circle.period,
        "copies": circle.copies,
        "first": circle.first,
        "last": circle.last,
        "reason": circle.describe(),
    }
    return Step(Stage.CIRCLES, 0.0, facts=facts)


def _fold_steps(call: ModelCall) -> Iterator[Step]:
    """What folding did with a call, and each run of lines that it folded for the first time."""
    folded = call.fold
    if folded is None:
        return
    report, is_on = folded.report, folded.group == "on"
    facts: dict[str, float | str] = {
        "group": folded.group,
        "folds": len(report.folds),
        "saved_tokens" if is_on else "would_save": report.saved_tokens,
        "saved_cost": "" if folded.saved_cost is None else round(folded.saved_cost, 6),
        "repeated_calls": folded.repeated_calls,
        "stops": 1 if folded.has_stopped else "",
        "stopped": report.stopped_by if is_on else "",
    }
    yield Step(Stage.FOLD, 0.0, facts=_without_blanks(facts))
    for fold, text in zip(folded.new_folds, folded.texts, strict=True) if is_on else ():
        named: dict[str, float | str] = {
            "lines": fold.lines,
            "tokens": fold.tokens,
            "source": fold.source,
            "stale": 1 if fold.is_stale else "",
        }
        yield Step(Stage.FOLD, 0.0, facts=_without_blanks(named), text=text[:PIECE_CHARS])


def _fuse_step(status: CapStatus) -> Step:
    facts: dict[str, float | str] = {
        "scope": status.scope,
        "name": status.name,
        "state": status.state,
        "used": status.used,
        "cap": status.cap,
        "unit": status.unit,
        "calls_left": "" if status.calls_left is None else status.calls_left,
        "reason": status.describe(),
    }
    return Step(Stage.FUSE, 0.0, facts=_without_blanks(facts))


def _without_blanks(facts: Mapping[str, float | str]) -> dict[str, float | str]:
    return {name: value for name, value in facts.items() if value != ""}


def window_step(fields: Mapping[str, Any], length: int) -> Step:
    """The window that a request's fields describe; `length` is the model's, 0 if unknown."""
    began = time.perf_counter()
    builder = SessionBuilder("", "")
    entries = list(entries_of(dict(fields)))
    for entry in entries:
        builder.add_entry(entry)
    found = builder.finish()
    definitions = fields.get("tools")
    tools = estimate_tokens(as_json(definitions)) if definitions else 0
    facts: dict[str, float | str] = {
        "tokens": found.added + tools,
        **{kind: found.by_kind.get(kind, 0) for kind in KINDS},
        "tools": tools,
        "repeated": found.repeated,
        "stale": found.stale,
        "injected": sum(_count_injected(m) for entry in entries for m in entry.snapshot or ()),
        "length": length,
        **{f"result {use.tool}": use.tokens for use in found.tools[:TOOLS] if use.tokens},
    }
    facts = {name: value for name, value in facts.items() if value}
    return Step(Stage.WINDOW, time.perf_counter() - began, facts=facts)


def _count_injected(message: dict[str, Any]) -> int:
    """The tokens of the fenced blocks in a message of a person or of the system."""
    content = message.get("content")
    if isinstance(content, str) and f"<{LABEL} " not in content:
        return 0
    return sum(
        _count_fenced(part.text) for part in parts_of(message) if part.kind in ("human", "system")
    )


def _count_fenced(text: str) -> int:
    rest = without_fences(text)
    return estimate_tokens(text) - estimate_tokens(rest) if rest != text else 0
