"""`headgate why TRACE CHUNK`: where a chunk fell, and the smallest change with which it would have entered."""

import click
import orjson

from headgate.cli.options import json_option, opened
from headgate.explain.why import Why


@click.command()
@click.argument("trace")
@click.argument("chunk")
@click.option("--store", help="Store folder (default: the setting `store`).")
@click.option("--tenant", help="Whose data (default: the setting `tenant`).")
@json_option
def why(trace: str, chunk: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Say why CHUNK is not in the context of TRACE, and what would have let it in."""
    with opened(store, tenant) as hg:
        told = hg.why(trace, chunk)
    if as_json:
        click.echo(orjson.dumps(told.as_dict(), option=orjson.OPT_INDENT_2).decode())
    else:
        click.echo(_read(told))


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
