"""Call trace: a call of a model as a trace.

The trace has one step for the call itself, one for its window, and one for each cut of its answer, each rung that its
agent reached and each cap of its accounts. The window is read as the x-ray would read it from a log. Its texts are not
kept, only sizes: by kind, by the tools whose results stand there, of tool definitions, of blocks that Millgate
injected, and of what stands there twice or was made stale by an edit.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from millgate.circles.finder import Circle
from millgate.circles.policy import CircleStep
from millgate.guard.channels import CONTENT
from millgate.guard.dialects import dialect_for
from millgate.guard.report import Cut
from millgate.service.observe.model_call import ModelCall
from millgate.sessions.compaction.items import KINDS as ITEM_KINDS
from millgate.sessions.compaction.items import Kind as ItemKind
from millgate.sessions.compaction.keep import NOT_PUT_BACK
from millgate.sessions.xray.findings import KINDS
from millgate.sessions.xray.formats import LineReader
from millgate.sessions.xray.session import SessionBuilder
from millgate.spending.limits import CapStatus
from millgate.text.bounded_json import loads
from millgate.text.fence import LABEL, without_fences
from millgate.text.tokens import estimate_tokens
from millgate.transcript.parts import as_json, read
from millgate.types import Request, Step, Trace
from millgate.types.notes import Stage

MOST_GONE = 300  # things that a trace names of those that a compaction lost, those first that nobody can look up
MOST_WARNINGS = 5  # of the guard that a trace keeps: a line or two of text
MOST_MESSAGES = 10_000  # of a conversation that is read; each takes some 40 microseconds
GAP = "\x1e"  # between the pieces of an answer that was cut: unlike offsets, it stays true when secrets are taken out
PIECE_CHARS = 8000
TOOLS = 8  # tools that are named, those that brought most


def call_trace(call: ModelCall, *, tenant: str, now: float) -> Trace:
    """The call as a trace: one step for the call itself, one for its window, and one for each cut, rung and cap."""
    request = Request(call.query, tenant=tenant, session=call.session)
    cuts = call.report.cuts if call.report else []
    steps = (
        _call_step(call),
        *_window_steps(call),
        *_cache_steps(call),
        *_compaction_steps(call),
        *(_cut_step(cut) for cut in cuts),
        *_circle_steps(call),
        *_fold_steps(call),
        *(_fuse_step(status) for status in call.cap_statuses),
    )
    return Trace(call.id, request, steps=steps, created=now)


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
    cached = call.cached_input
    facts: dict[str, float | str] = {
        "path": call.path,
        "model": call.model,
        "upstream": call.upstream,
        "key": call.key,
        "status": "" if call.not_reached and call.outcome == "unanswered" else call.status,
        "outcome": call.outcome,
        "guard": call.guarded,
        "rollbacks": call.report.rollbacks if call.report else "",
        "wasted_tokens": call.report.wasted_tokens if call.report else "",
        "input_tokens": call.input_tokens,
        "output_tokens": call.output_tokens,
        # of all tries, as the cost; the step of the cache tells of the client's own request
        "read": cached.within + cached.read or "",
        "written": cached.written or "",
        "fresh": call.input_tokens - cached.within,
        "estimated": 1 if call.estimated else "",
        "cost": "" if call.cost is None else round(call.cost, 6),
        "priced_as": call.priced_as,
        "uncounted": call.uncounted,
        "first_byte_s": "" if call.first_byte_s is None else round(call.first_byte_s, 4),
        "ignored": call.ignored,
        "unwatched": call.unwatched,
        "passed_on": call.report.passed_on if call.report else "",
        "repetition": "; ".join(call.report.warnings[:MOST_WARNINGS]) if call.report else "",
        "rescued_by": call.rescued_by,
        "repaired": call.repaired,
        "unknown_parts": call.unknown_parts or "",
        "response_id": call.response_id,
        "context_trace": call.context_trace,
        "context_tokens": call.context_tokens or "",
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


def _circle_steps(call: ModelCall) -> Iterator[Step]:
    """Each rung that is new, and the end of the turn: once reached it comes with every later call of the turn."""
    marks, ended = call.circles.marks, call.circles.ended
    yield from (_circle_step(mark.step, mark.circle) for mark in marks)
    if ended is not None and all(mark.step != "end" for mark in marks):
        yield _circle_step("end", ended)


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
        "saved_tokens" if is_on else "would_save": folded.new_tokens if call.answered else 0,
        "folded": report.saved_tokens if is_on else "",
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
    entries = LineReader().read(dict(fields))
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
        _count_fenced(part.text) for part in read(message) if part.kind in ("human", "system")
    )


def _count_fenced(text: str) -> int:
    rest = without_fences(text)
    return estimate_tokens(text) - estimate_tokens(rest) if rest != text else 0
