"""`millgate why [TRACE [CHUNK]]` and `millgate replay TRACE`: what became of a request, and what would change it.

Without a trace: the last requests, with the model calls of an agent's session in one row. With one: what each stage
did, what was shown, what was left out, and what was done to a call through the proxy (notes, cuts, caps). With a chunk:
where it fell, and the smallest change that admits it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from shlex import quote
from typing import Any

import click
import orjson

from millgate.circles.finder import clip
from millgate.cli.options import Output, on_store
from millgate.cli.terminal import fit, format_minute, table_of
from millgate.errors import InputError, NotFound
from millgate.explain.as_data import summary_data, trace_data
from millgate.explain.costs import Costs, add_up
from millgate.explain.describe import describe, describe_notes
from millgate.explain.replay import Replay
from millgate.explain.why import Why
from millgate.gateway import Millgate
from millgate.guard.report import LOOP_ERRORS
from millgate.operations.presence import (
    describe_empty,
    did_you_mean,
    enumerate_names,
    whole_chunk_id,
    whole_trace_id,
)
from millgate.sessions.xray.summary import short
from millgate.text.table import count_of, money_of
from millgate.types import Trace, TraceSummary
from millgate.types.notes import Stage

ID_CHARS = 8  # of a trace's 32: two of ten thousand begin alike once in eighty stores, and the error then names both
MOST_LISTED = 10_000  # requests that are grouped; a tenant keeps no more by default
# what became of the answers of model calls, what went wrong first
OUTCOMES = {
    "failed": "failed",
    "looped": "kept looping",
    "broken": "broke off",
    "unanswered": "without an answer",
    "ended": "ended for going in circles",
    "abandoned": "given up by the agent",
    "passed": "passed on as they were",
    "recovered": "recovered",
    "off": "not watched",
    "clean": "clean",
}
# Of the chunks that were left out, the best first: with what was shown, a screen of them.
MOST_LEFT_OUT = 15


@click.command(epilog="Example: millgate why last docs/refunds.md#2")
@click.argument("trace", required=False)
@click.argument("chunk", required=False)
@click.option("--list", "lists", is_flag=True, help="List the last requests.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Most rows to list.")  # fmt: skip
@click.option("--session", help="List each call of this session; the beginning of its name is enough.")  # fmt: skip
@on_store
def why(
    gate: Millgate,
    trace: str | None,
    chunk: str | None,
    lists: bool,
    limit: int,
    session: str | None,
) -> Output:
    """Show the last request or TRACE in full, say why CHUNK is not in it, or list the last requests.

    In the list, the model calls of an agent's session are one row with their outcomes.
    The beginning of a trace's id is enough, and `last` is the newest trace. For a CHUNK that was left out, the command
    finds the smallest change of the settings that would have let it in.
    """
    if lists or session is not None:
        found = gate.traces(limit=MOST_LISTED)
        if session is None:
            rows = _group_sessions(found)
        else:
            found = _of_session(found, session)
            rows = [[one] for one in found]
        text, note = _list(rows[:limit], names_session=session is None)
        return Output([summary_data(one) for one in found[:limit]], text, note)
    stored = gate.trace(_find_trace(gate, trace or "last"))
    if chunk is not None:
        answer = gate.why(stored, whole_chunk_id(gate, stored, chunk))
        return Output(answer.as_dict(), _describe_answer(answer))
    told = describe(stored)
    done, left_out = [asdict(one) for one in told.done], [asdict(one) for one in told.left_out]
    lines = [describe_trace(stored)]
    if _looked_in_vain(stored) and (empty := describe_empty(gate)):
        lines.append(empty)
    return Output(
        trace_data(stored) | {"interventions": done, "left_out": left_out}, "\n".join(lines)
    )


def _find_trace(gate: Millgate, given: str) -> str:
    """The whole id of a trace; who names a chunk instead is told how to ask for it."""
    try:
        return whole_trace_id(gate, given)
    except NotFound as error:
        if not any(gate.store.chunks(gate.tenant, name, [given]) for name in gate.collections()):
            raise
        raise NotFound(error.message, hint=f"it is a chunk: millgate why last {quote(given)}") from None  # fmt: skip


# Lists of requests


def _of_session(found: Sequence[TraceSummary], name: str) -> list[TraceSummary]:
    """The requests of the sessions that begin so; an error if there is none."""
    rows = [row for row in found if row.session.startswith(name)]
    if not rows:
        known = list(dict.fromkeys(row.session for row in found if row.session))
        there = f"there are: {enumerate_names(known)}" if known else "no request named one"
        raise NotFound(f"there is no session {name!r}", hint=f"{did_you_mean(name, known)}{there}")
    return rows


def _group_sessions(found: Sequence[TraceSummary]) -> list[list[TraceSummary]]:
    """The requests as rows, newest first: a row is one request, or all model calls of one session."""
    rows: dict[tuple[str, str], list[TraceSummary]] = {}
    for one in found:
        is_call = bool(one.outcome and one.session)
        rows.setdefault(("session", one.session) if is_call else ("trace", one.id), []).append(one)
    return list(rows.values())


def _list(rows: Sequence[Sequence[TraceSummary]], *, names_session: bool) -> tuple[str, str]:
    """Two lines for each row, to fit a terminal: what was asked, and what became of that; and notes on the rows."""
    if not rows:
        return "no request was traced yet", ""
    lines, compactions, breaks = [], list[str](), False
    for row in rows:
        newest, spent = row[0], add_up(row)
        errors = (why.removeprefix("model: ") for one in row for why in one.degraded)
        asked = clip(row[-1].query or next(errors, ""), 200)  # of a refused call, why
        described = (describe_row(row, names_session=names_session), _describe_cost(spent))
        lines.append(f"{newest.id[:ID_CHARS]:{ID_CHARS}}  {format_minute(newest.created)}  {asked}")
        lines.append(f"{'':{ID_CHARS}}  {', '.join(filter(None, described))}")
        compactions += [one.compaction for one in reversed(row) if one.compaction]
        breaks |= spent.breaks > 0
    notes = list(dict.fromkeys(compactions))
    if breaks:
        notes.append("!: the provider's cache broke; millgate why TRACE says why")
    notes.append("one in full: millgate why TRACE; one chunk of it: millgate why TRACE CHUNK")
    if any(len(row) > 1 for row in rows):
        notes.append("the calls of a session: millgate why --session NAME")
    return fit("\n".join(lines)), "\n".join(notes)


def describe_row(row: Sequence[TraceSummary], *, names_session: bool = True) -> str:
    """What became of a request; for a session its name, how many calls it made, and what became of them."""
    newest, time = row[0], f"{1000 * sum(one.seconds for one in row):,.1f} ms"
    if not newest.outcome:
        return f"{newest.kept} of {newest.candidates} kept, {time}"
    counts = Counter(map(_outcome_of, row))
    named = [*OUTCOMES, *(name for name in counts if name not in OUTCOMES)]
    outcomes = [f"{counts[name]} {OUTCOMES.get(name, clip(name, 20))}" for name in named if counts[name]]  # fmt: skip
    if refused := Counter(
        str(one.status or "not reached") for one in row if one.outcome == "unanswered"
    ):
        told = ", ".join(f"{status} ×{count}" for status, count in sorted(refused.items()))
        outcomes = [f"{said} ({told})" if said.endswith(OUTCOMES["unanswered"]) else said for said in outcomes]  # fmt: skip
    if not names_session:
        model = newest.cost.model if newest.cost else "model call"
        return f"{model}, {outcomes[0].removeprefix('1 ')}, {time}"
    session = f"{newest.session}: " if newest.session else ""
    return f"{session}{count_of(sum(one.is_model_call for one in row), 'call')}, {', '.join(outcomes)}, {time}"


def _outcome_of(call: TraceSummary) -> str:
    """What became of a call; a failed one by its error, and one that was not watched and ended in an error as failed.

    An error of its booking does not end a call.
    """
    said = [why.removeprefix("model: ") for why in call.degraded if why.startswith("model: ")]
    errors = [why for why in said if not why.startswith("not booked")]
    if call.outcome == "failed" and errors:
        return "looped" if LOOP_ERRORS & set(errors) else "broken"
    return "failed" if call.outcome == "off" and errors else call.outcome


def _describe_cost(spent: Costs) -> str:
    """What calls cost, and whether the provider's cache broke; their tokens if the model has no price."""
    if not spent.calls:
        return ""
    tokens = spent.read + spent.written + spent.fresh + spent.output
    money = money_of(spent.cost) if spent.priced else f"{short(tokens)} tokens"
    return f"{money} !" if spent.breaks else money


# One request


def describe_trace(trace: Trace) -> str:
    """What each stage did, what was done to the request, what was shown, and what was left out."""
    told = describe(trace)
    counted = () if trace.step(Stage.MODEL) else ("received", "kept", "dropped")
    rows = [
        (step.stage, f"{1000 * step.seconds:.2f}", *(getattr(step, n) for n in counted), said)
        for step, said in told.steps
    ]
    lines = [told.plan, table_of("stage", "ms", *counted, "", rows=rows)]
    for chunk, notes in told.shown.items():
        lines += [chunk, *(f"  {note}" for note in notes)]
    for one in told.done:
        lines.append(f"{one.stage:<10} {clip(one.what, 1000)}")
        lines.append(f"{'':<10} {clip(one.change, 1000)}")
    for left in told.left_out[:MOST_LEFT_OUT]:
        lines.append(f"{left.stage:<10} {clip(left.chunk, 200)}: {clip(left.reason, 1000)}")
    if len(told.left_out) > MOST_LEFT_OUT:
        lines.append(f"and {len(told.left_out) - MOST_LEFT_OUT:,} more: --json lists them all")
    if told.left_out:
        lines.append(f"what would have let one in: millgate why {trace.id[:ID_CHARS]} CHUNK")
    return "\n".join(line for line in [*lines, told.untouched] if line)


def _looked_in_vain(trace: Trace) -> bool:
    """Whether context was looked up, and there was none."""
    if (call := trace.step(Stage.MODEL)) is None:
        return not trace.candidates and not (trace.plan and trace.plan.skip)
    return "context_trace" in call.facts and not call.facts.get("context_tokens")


def _describe_answer(answer: Why) -> str:
    """Where a chunk fell, and what would have let it in."""
    lines = [*describe_notes(answer.notes)]
    if answer.entered:
        lines.append(f"{answer.chunk} was shown")
        return "\n".join(lines)
    lines.append(f"{answer.chunk} fell at {answer.stage}: {answer.reason}")
    if answer.changes:
        several = " all of these together" if len(answer.changes) > 1 else ""
        lines.append(f"it would have entered with{several}")
        lines += [f"  {change.name} = {change.now} (was {change.was})" for change in answer.changes]
    return "\n".join([*lines, answer.note] if answer.note else lines)


@click.command(epilog="Example: millgate replay last budget=2000 grade.floor=0")
@click.argument("trace")
@click.argument("changes", nargs=-1, metavar="NAME=VALUE ...")
@on_store
def replay(gate: Millgate, trace: str, changes: tuple[str, ...]) -> Output:
    """Run the request of TRACE again under other settings, and show what enters and what leaves.

    The beginning of a trace's id is enough, and `last` is the newest trace.
    """
    given = dict(map(_parse_change, changes))
    made = gate.replay(whole_trace_id(gate, trace), given)
    return Output(made.as_dict(), "\n".join(_describe_replay(made)))


def _parse_change(text: str) -> tuple[str, Any]:
    """A name and its value; the value is read as JSON if it is JSON, else as text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"{text!r} is not a change", hint="write it as name=value, as budget=2000")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _describe_replay(made: Replay) -> Iterator[str]:
    before, after = made.before, made.after
    yield f"chunks {len(before.kept):>6} -> {len(after.kept)}"
    yield f"tokens {before.tokens:>6} -> {after.tokens}"
    yield from (f"  + {id}" for id in made.entered)
    yield from (f"  - {id}  {made.reasons[id]}" for id in made.left)
    yield from (f"    {id}  {why}" for id, why in made.reasons.items() if id not in made.left)
    if not made.entered and not made.left:
        yield "the same chunks as before"
    if made.drift:
        yield f"changed since the trace was stored: {', '.join(made.drift)}"
