"""`headgate why TRACE [CHUNK]`: where a chunk fell, and the smallest change with which it would have entered.

Without a chunk: what was done to a call through the proxy (notes, cuts, caps), and with what it would have been left undone.
"""

from dataclasses import asdict

import click
import orjson

from headgate.cli.options import json_option, opened, print_json
from headgate.cli.terminal import echo
from headgate.explain.interventions import interventions
from headgate.explain.why import Why
from headgate.guard.tools import clip


@click.command()
@click.argument("trace")
@click.argument("chunk", required=False)
@click.option("--store", help="Store folder (default: the setting `store`).")
@click.option("--tenant", help="Whose data (default: the setting `tenant`).")
@json_option
def why(
    trace: str, chunk: str | None, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Say why CHUNK is not in the context of TRACE, and what would have let it in.

    Without CHUNK: what was done to the call TRACE that went through the proxy, and why.
    """
    if chunk is None:
        _print_interventions(trace, store, tenant, as_json=as_json)
        return
    with opened(store, tenant) as hg:
        told = hg.why(trace, chunk)
    if as_json:
        echo(orjson.dumps(told.as_dict(), option=orjson.OPT_INDENT_2).decode())
    else:
        echo(_read(told))


def _print_interventions(
    trace: str, store: str | None, tenant: str | None, *, as_json: bool
) -> None:
    with opened(store, tenant) as hg:
        done = interventions(hg.trace(trace))
    if as_json:
        print_json([asdict(one) for one in done])
        return
    for one in done:
        echo(f"{one.stage:<10} {clip(one.what, 1000)}")
        echo(f"{'':<10} it would not have been with {clip(one.change, 1000)}")
    if not done:
        echo("nothing was done to this request; name a chunk to ask about it")


def _read(told: Why) -> str:
    lines = [
        f"{note.stage:<10} {note.fate:<5} {note.score:6.3f}  {note.reason}" for note in told.notes
    ]
    if told.entered:
        return "\n".join([*lines, f"{told.chunk} was shown"])
    lines.append(f"{told.chunk} fell at {told.stage}: {told.reason}")
    if told.changes:
        lines.append("it would have entered with")
        lines += [f"  {c.name} = {c.now} (was {c.was})" for c in told.changes]
    if told.note:
        lines.append(told.note)
    return "\n".join(lines)
