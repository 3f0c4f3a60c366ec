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

from millgate.guard.channels import CONTENT
from millgate.guard.dialects import dialect_for
from millgate.service.observe.model_call import ModelCall, known, read_fields
from millgate.sessions.compaction.account import KINDS as ITEM_KINDS
from millgate.sessions.compaction.keep import NOT_PUT_BACK
from millgate.sessions.xray.findings import KINDS
from millgate.sessions.xray.formats import LineReader
from millgate.sessions.xray.session import SessionBuilder
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
    cut_facts = ("channel", "onset", "period", "cut_chars", "reason", "unit")
    cap_facts = ("scope", "name", "state", "used", "cap", "unit", "calls_left")
    steps = [_call_step(call), *_window_steps(call)]
    if cached := call.cache_facts():
        steps.append(Step(Stage.CACHE, 0.0, facts=cached))
    steps += _compaction_steps(call)
    for cut in call.report.cuts if call.report else ():
        steps.append(Step(Stage.CUT, 0.0, facts=read_fields(cut, *cut_facts), text=cut.text))
    steps += [*_circle_steps(call), *_fold_steps(call)]
    for cap in call.cap_statuses:
        facts = read_fields(cap, *cap_facts) | {"reason": cap.describe()}
        steps.append(Step(Stage.FUSE, 0.0, facts=facts))
    return Trace(call.id, request, steps=tuple(steps), created=now)


def _window_steps(call: ModelCall) -> Iterator[Step]:
    """What was in the window, if that is known and can be read in little time."""
    fields = loads(call.sent) if call.sent else {}
    if not fields:
        return
    dialect = dialect_for(call.path)
    messages = dialect.conversation(fields)
    if len(messages) > MOST_MESSAGES:
        return
    # else the x-ray knows the format itself
    if fields.keys().isdisjoint({"messages", "input", "prompt"}):
        said = [{"role": "system", "content": text} for text in dialect.preamble(fields)]
        fields = {"messages": [*said, *messages], "tools": fields.get("tools")}
    yield window_step(fields, call.length)


def _call_step(call: ModelCall) -> Step:
    warnings = "; ".join(call.report.warnings[:MOST_WARNINGS]) if call.report else ""
    facts = call.facts() | known(repetition=warnings)
    text = GAP.join(_pieces(call))
    return Step(Stage.MODEL, call.seconds, degraded=call.problem, facts=facts, text=text)


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


def _compaction_steps(call: ModelCall) -> Iterator[Step]:
    """What left the window, in numbers; its text is what is gone."""
    told = call.compaction
    if told is None and not call.put_back and not call.not_put_back:
        return
    facts, gone = read_fields(call, "put_back", NOT_PUT_BACK), ""
    if told is not None:
        facts |= known(reason=told.describe(), left=told.tokens)
        facts |= read_fields(told, "id", "way", "turn")
        for kind, (left, lost) in told.counts.items():
            facts |= {f"{kind}s": left, f"{kind}s_gone": lost}
        items = [(item.kind, item.text) for item in told.list_gone(*ITEM_KINDS)]
        gone = orjson.dumps(items[:MOST_GONE]).decode() if items else ""
    yield Step(Stage.COMPACTION, 0.0, facts=facts, text=gone)


def _circle_steps(call: ModelCall) -> Iterator[Step]:
    """Each rung that is new, and the end of the turn: once reached it comes with every later call of the turn."""
    reached = [(mark.step, mark.circle) for mark in call.circles.marks]
    ended = call.circles.ended
    if ended is not None and all(rung != "end" for rung, _ in reached):
        reached.append(("end", ended))
    for rung, circle in reached:
        facts = read_fields(circle, "period", "copies", "first", "last")
        facts |= {"rung": rung, "reason": circle.describe()}
        yield Step(Stage.CIRCLES, 0.0, facts=facts)


def _fold_steps(call: ModelCall) -> Iterator[Step]:
    """What folding did with a call, and each run of lines that it folded for the first time."""
    folded = call.fold
    if folded is None:
        return
    report, is_on = folded.report, folded.group == "on"
    new = folded.new_tokens if call.answered else 0
    facts = read_fields(folded, "group", "repeated_calls") | known(
        folds=len(report.folds),
        saved_tokens=new if is_on else None,
        would_save=None if is_on else new,
        folded=report.saved_tokens if is_on else None,
        saved_cost=None if folded.saved_cost is None else round(folded.saved_cost, 6),
        stops=1 if folded.has_stopped else None,
        stopped=report.stopped_by if is_on else None,
    )
    yield Step(Stage.FOLD, 0.0, facts=facts)
    for fold, text in zip(folded.new_folds, folded.texts, strict=True) if is_on else ():
        named = read_fields(fold, "lines", "tokens", "source")
        named |= known(stale=1 if fold.is_stale else None)
        yield Step(Stage.FOLD, 0.0, facts=named, text=text[:PIECE_CHARS])


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
