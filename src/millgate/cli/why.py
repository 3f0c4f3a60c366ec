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
from rich.markup import escape
from rich.table import Table

from millgate.circles.finder import clip
from millgate.cli.console import SafeConsole
from millgate.cli.options import (
    Output,
    json_option,
    on_store,
    open_existing,
    place_options,
    print_json,
)
from millgate.cli.terminal import echo, fit, format_minute
from millgate.errors import InputError, NotFound
from millgate.explain.as_data import summary_data, trace_data
from millgate.explain.costs import Costs, add_up
from millgate.explain.describe import Description, describe, describe_notes
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
QUERY_CHARS = 200
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
@place_options
@click.option("--list", "lists", is_flag=True, help="List the last requests.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Most rows to list.")  # fmt: skip
@click.option("--session", help="List each call of this session; the beginning of its name is enough.")  # fmt: skip
@json_option
def why(
    trace: str | None,
    chunk: str | None,
    store: str | None,
    tenant: str | None,
    lists: bool,
    limit: int,
    session: str | None,
    as_json: bool,
) -> None:
    """Show the last request or TRACE in full, say why CHUNK is not in it, or list the last requests.

    In the list, the model calls of an agent's session are one row with their outcomes.
    The beginning of a trace's id is enough, and `last` is the newest trace. For a CHUNK that was left out, the command
    finds the smallest change of the settings that would have let it in.
    """
    with open_existing(store, tenant) as gate:
        if lists or session is not None:
            found = gate.traces(limit=limit if as_json and session is None else MOST_LISTED)
            if session is not None:
                found = _of_session(found, session)
            if as_json:
                print_json([summary_data(summary) for summary in found[:limit]])
            elif session is not None:
                _print_list([[row] for row in found[:limit]], names_session=False)
            else:
                _print_list(group_sessions(found)[:limit])
            return
        stored = gate.trace(_find_trace(gate, trace or "last"))
        if chunk is not None:
            answer = gate.why(stored, whole_chunk_id(gate, stored, chunk))
        empty = describe_empty(gate) if _looked_in_vain(stored) else ""
    if chunk is not None:
        _print_answer(answer, as_json=as_json)
    elif as_json:
        told = describe(stored)
        done = [asdict(one) for one in told.done]
        left_out = [asdict(one) for one in told.left_out]
        print_json(trace_data(stored) | {"interventions": done, "left_out": left_out})
    else:
        print_trace(stored, empty=empty)


def _find_trace(gate: Millgate, given: str) -> str:
    """The whole id of a trace; who names a chunk instead is told how to ask for it."""
    try:
        return whole_trace_id(gate, given)
    except NotFound as error:
        if not any(gate.store.chunks(gate.tenant, name, [given]) for name in gate.collections()):
            raise
        raise NotFound(error.message, hint=f"it is a chunk: millgate why last {quote(given)}") from None  # fmt: skip


def _of_session(found: Sequence[TraceSummary], name: str) -> list[TraceSummary]:
    """The requests of the sessions that begin so; an error if there is none."""
    rows = [row for row in found if row.session.startswith(name)]
    if not rows:
        known = list(dict.fromkeys(row.session for row in found if row.session))
        there = f"there are: {enumerate_names(known)}" if known else "no request named one"
        raise NotFound(f"there is no session {name!r}", hint=f"{did_you_mean(name, known)}{there}")
    return rows


def group_sessions(found: Sequence[TraceSummary]) -> list[list[TraceSummary]]:
    """The requests as rows, newest first: a row is one request, or all model calls of one session."""
    rows: dict[tuple[str, str], list[TraceSummary]] = {}
    for one in found:
        is_call = bool(one.outcome and one.session)
        rows.setdefault(("session", one.session) if is_call else ("trace", one.id), []).append(one)
    return list(rows.values())


def _print_list(rows: Sequence[Sequence[TraceSummary]], *, names_session: bool = True) -> None:
    """Print two lines for each row, so that they fit a terminal: what was asked, and below it what became of that."""
    costs = [add_up(row) for row in rows]
    for row, spent in zip(rows, costs, strict=True):
        newest = row[0]
        id, when, asked = newest.id[:ID_CHARS], format_minute(newest.created), _name_question(row)
        echo(fit(f"{id:{ID_CHARS}}  {when}  {asked}"))
        described = (_describe_row(row, names_session=names_session), _describe_cost(spent))
        echo(fit(f"{'':{ID_CHARS}}  {', '.join(filter(None, described))}"))
    if not rows:
        echo("no request was traced yet")
    for told in dict.fromkeys(
        one.compaction for row in rows for one in reversed(row) if one.compaction
    ):
        echo(told, err=True)
    if any(one.breaks for one in costs):
        echo("!: the provider's cache broke; millgate why TRACE says why", err=True)
    if rows:
        echo("one in full: millgate why TRACE; one chunk of it: millgate why TRACE CHUNK", err=True)
    if any(len(row) > 1 for row in rows):
        echo("the calls of a session: millgate why --session NAME", err=True)


def _name_question(row: Sequence[TraceSummary]) -> str:
    """What was asked, or asked first in a session; for a call that was refused, why."""
    errors = (why.removeprefix("model: ") for one in row for why in one.degraded)
    return clip(row[-1].query or next(errors, ""), QUERY_CHARS)


def _describe_row(row: Sequence[TraceSummary], *, names_session: bool = True) -> str:
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


def print_trace(trace: Trace, *, empty: str = "") -> None:
    """Print what each stage did, what was done to the request, what was shown, and what was left out.

    `empty` says that there is nothing in the store, if that is why nothing was found.
    """
    console, told = SafeConsole(), describe(trace)
    console.print(escape(told.plan))
    counted = () if trace.step(Stage.MODEL) else ("received", "kept", "dropped")
    table = Table("stage", "ms", *counted, "", box=None, header_style="bold")
    for step, said in told.steps:
        counts = (str(getattr(step, name)) for name in counted)
        table.add_row(step.stage, f"{1000 * step.seconds:.2f}", *counts, escape(said))
    console.print(table)
    for chunk, lines in told.shown.items():
        console.print(escape(chunk), style="bold", highlight=False)
        for line in lines:
            console.print(escape(f"  {line}"), highlight=False, soft_wrap=True)
    for line in _describe_outcome(told, trace):
        echo(line)
    if empty:
        echo(empty)


def _describe_outcome(told: Description, trace: Trace) -> Iterator[str]:
    """What was done to a request, and which candidates were left out of it."""
    for one in told.done:
        yield f"{one.stage:<10} {clip(one.what, 1000)}"
        yield f"{'':<10} {clip(one.change, 1000)}"
    for left in told.left_out[:MOST_LEFT_OUT]:
        yield f"{left.stage:<10} {clip(left.chunk, 200)}: {clip(left.reason, 1000)}"
    if len(told.left_out) > MOST_LEFT_OUT:
        yield f"and {len(told.left_out) - MOST_LEFT_OUT:,} more: --json lists them all"
    if told.left_out:
        yield f"what would have let one in: millgate why {trace.id[:ID_CHARS]} CHUNK"
    if told.untouched:
        yield told.untouched


def _looked_in_vain(trace: Trace) -> bool:
    """Whether context was looked up, and there was none."""
    if (call := trace.step(Stage.MODEL)) is None:
        return not trace.candidates and not (trace.plan and trace.plan.skip)
    return "context_trace" in call.facts and not call.facts.get("context_tokens")


def _print_answer(answer: Why, *, as_json: bool) -> None:
    """Print where a chunk fell, and what would have let it in."""
    if as_json:
        print_json(answer.as_dict())
        return
    for line in describe_notes(answer.notes):
        echo(line)
    if answer.entered:
        echo(f"{answer.chunk} was shown")
        return
    echo(f"{answer.chunk} fell at {answer.stage}: {answer.reason}")
    if answer.changes:
        several = " all of these together" if len(answer.changes) > 1 else ""
        echo(f"it would have entered with{several}")
        for change in answer.changes:
            echo(f"  {change.name} = {change.now} (was {change.was})")
    if answer.note:
        echo(answer.note)


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
    return Output(made.as_dict(), _describe_replay(made))


def _parse_change(text: str) -> tuple[str, Any]:
    """A name and its value; the value is read as JSON if it is JSON, else as text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"{text!r} is not a change", hint="write it as name=value, as budget=2000")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _describe_replay(made: Replay) -> str:
    before, after = made.before, made.after
    lines = [
        f"chunks {len(before.kept):>6} -> {len(after.kept)}",
        f"tokens {before.tokens:>6} -> {after.tokens}",
        *(f"  + {id}" for id in made.entered),
        *(f"  - {id}  {made.reasons[id]}" for id in made.left),
        *(f"    {id}  {why}" for id, why in made.reasons.items() if id not in made.left),
    ]
    if not made.entered and not made.left:
        lines.append("the same chunks as before")
    if made.drift:
        lines.append(f"changed since the trace was stored: {', '.join(made.drift)}")
    return "\n".join(lines)
