"""`headgate why TRACE [CHUNK]`: where a chunk fell, and the smallest change with which it would have entered.

Without a chunk: what was left out of a context, or what was done to a call through the proxy (notes, cuts, caps) and
with what it would have been left undone.
"""

from dataclasses import asdict

import click

from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import echo
from headgate.explain.interventions import interventions
from headgate.explain.why import Why
from headgate.guard.tools import clip
from headgate.operations.presence import whole_chunk_id, whole_trace_id
from headgate.types import Trace

MOST_LEFT_OUT = 20  # of the chunks that fell, the best first


@click.command()
@click.argument("trace")
@click.argument("chunk", required=False)
@place_options
@json_option
def why(
    trace: str, chunk: str | None, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Say why CHUNK is not in the context of TRACE, and what would have let it in.

    The beginning of a trace's id will do, and `last` stands for the newest. Without CHUNK: what was left out of the
    context TRACE, or done to the call TRACE that went through the proxy, and why.
    """
    with open_existing(store, tenant) as hg:
        stored = hg.trace(whole_trace_id(hg, trace))
        if chunk is None:
            _print_trace(stored, as_json=as_json)
            return
        answer = hg.why(stored, whole_chunk_id(hg, stored, chunk))
    if as_json:
        print_json(answer.as_dict())
    else:
        echo(_describe(answer))


def _print_trace(trace: Trace, *, as_json: bool) -> None:
    """Print what was done to a request, and which candidates were left out of it."""
    done = interventions(trace)
    fell = [(candidate.chunk.id, candidate.notes[-1]) for candidate in trace.candidates if candidate.dropped]  # fmt: skip
    if as_json:
        left_out = [{"chunk": chunk, "stage": note.stage, "reason": note.reason} for chunk, note in fell]  # fmt: skip
        print_json({"interventions": [asdict(one) for one in done], "left_out": left_out})
        return
    for one in done:
        echo(f"{one.stage:<10} {clip(one.what, 1000)}")
        echo(f"{'':<10} it would not have been with {clip(one.change, 1000)}")
    for chunk, note in fell[:MOST_LEFT_OUT]:
        echo(f"{note.stage:<10} {clip(chunk, 200)}: {clip(note.reason, 1000)}")
    if len(fell) > MOST_LEFT_OUT:
        echo(f"and {len(fell) - MOST_LEFT_OUT:,} more: --json lists them all")
    if fell:
        echo(f"what would have let one in: headgate why {trace.id[:8]} CHUNK")
    if not done and not fell:
        echo("nothing was done to this request, and nothing was left out")


def _describe(answer: Why) -> str:
    lines = [
        f"{note.stage:<10} {note.fate:<5} {note.score:6.3f}  {note.reason}" for note in answer.notes
    ]
    if answer.entered:
        return "\n".join([*lines, f"{answer.chunk} was shown"])
    lines.append(f"{answer.chunk} fell at {answer.stage}: {answer.reason}")
    if answer.changes:
        lines.append("it would have entered with")
        lines += [f"  {c.name} = {c.now} (was {c.was})" for c in answer.changes]
    if answer.note:
        lines.append(answer.note)
    return "\n".join(lines)
