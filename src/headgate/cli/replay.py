"""`headgate replay TRACE NAME=VALUE …`: a stored request under other settings, and the difference."""

from typing import Any

import click
import orjson

from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import echo
from headgate.errors import InputError
from headgate.explain.replay import Replay
from headgate.operations.presence import whole_trace_id


@click.command()
@click.argument("trace")
@click.argument("changes", nargs=-1, metavar="NAME=VALUE ...")
@place_options
@json_option
def replay(
    trace: str, changes: tuple[str, ...], store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Run the request of TRACE again with changes, as `budget=2000 gate.order=entropy`.

    The beginning of a trace's id will do, and `last` stands for the newest.
    """
    given = dict(map(_change, changes))
    with open_existing(store, tenant) as hg:
        made = hg.replay(whole_trace_id(hg, trace), given)
    if as_json:
        print_json(made.as_dict())
    else:
        echo(_read(made))


def _change(text: str) -> tuple[str, Any]:
    """A name and its value; the value is read as JSON if it is JSON, else as text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"{text!r} is not a change", hint="write it as name=value, as budget=2000")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def _read(made: Replay) -> str:
    before, after = made.before, made.after
    lines = [
        f"chunks {len(before.kept):>6} -> {len(after.kept)}",
        f"tokens {before.tokens:>6} -> {after.tokens}",
        *(f"  + {id}" for id in made.entered),
        *(f"  - {id}" for id in made.left),
    ]
    if not made.entered and not made.left:
        lines.append("the same chunks as before")
    if made.drift:
        lines.append(f"changed since the trace was stored: {', '.join(made.drift)}")
    return "\n".join(lines)
