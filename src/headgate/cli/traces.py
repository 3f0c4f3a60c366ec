"""`headgate traces [ID]`: the last requests, or one in full."""

from datetime import UTC, datetime

import click
from rich.markup import escape
from rich.table import Column, Table

from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import SafeConsole
from headgate.explain.as_data import summary_data, trace_data
from headgate.notes import Stage
from headgate.operations.presence import whole_trace_id
from headgate.types import Step, Trace, TraceSummary


@click.command()
@click.argument("id", required=False)
@place_options
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True)
@json_option
def traces(
    id: str | None, store: str | None, tenant: str | None, limit: int, as_json: bool
) -> None:
    """List the last requests, or show what happened to every candidate of the request ID.

    The beginning of an id will do, and `last` stands for the newest.
    """
    with open_existing(store, tenant) as hg:
        one = hg.trace(whole_trace_id(hg, id)) if id else None
        found = [] if one else hg.traces(limit=limit)
    if as_json:
        data = trace_data(one) if one else [summary_data(summary) for summary in found]
        print_json(data)
    elif one:
        print_trace(one)
    else:
        _list(found)


def _list(found: list[TraceSummary]) -> None:
    id = Column("trace", no_wrap=True, min_width=32)  # it is there to be copied
    query = Column("query", no_wrap=True, overflow="ellipsis")
    when = Column("when", no_wrap=True)
    table = Table(
        id, when, "kept", "of", "ms", query, box=None, header_style="bold", pad_edge=False
    )
    for row in found:
        at = datetime.fromtimestamp(row.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
        kept, of, ms = str(row.kept), str(row.candidates), f"{1000 * row.seconds:.1f}"
        table.add_row(row.id, at, kept, of, ms, escape(row.query[:60]))
    SafeConsole().print(table if found else "no request was traced yet")


def print_trace(trace: Trace) -> None:
    """What each stage did, and what became of every candidate."""
    console = SafeConsole()
    console.print(escape(f"{trace.plan.strategy.value}: {trace.plan.reasoning}"))
    table = Table("stage", "ms", "received", "kept", "dropped", "", box=None, header_style="bold")
    for step in trace.steps:
        counts = map(str, (step.received, step.kept, step.dropped))
        table.add_row(
            step.stage, f"{1000 * step.seconds:.2f}", *counts, escape(_describe_step(step))
        )
    console.print(table)
    for candidate in trace.candidates:
        console.print(escape(candidate.chunk.id), style="bold", highlight=False)
        for note in candidate.notes:
            line = f"  {note.stage:<10} {note.fate:<5} {note.score:6.3f}  {note.reason}"
            console.print(escape(line), highlight=False)


def _describe_step(step: Step) -> str:
    """Say what went wrong in a step, and what is known of a model call and of what the guard did to it."""
    known = step.facts if step.stage in (Stage.MODEL, Stage.CUT, Stage.CIRCLES, Stage.FUSE) else {}
    facts = ", ".join(f"{name} {str(value)[:60]}" for name, value in known.items())
    return "; ".join(part for part in (step.degraded, facts) if part)
