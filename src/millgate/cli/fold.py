"""`millgate fold FILE`, `millgate expand FILE`, `millgate fold report`: say once what the window holds twice."""

import time
from collections.abc import Callable
from typing import Any

import click
import orjson

from millgate.cli.options import CommandGroup, Output, days_option, on_store, prints, read_input
from millgate.cli.terminal import echo, table_of
from millgate.errors import InputError
from millgate.explain.costs import FoldGroup, compare_groups
from millgate.gateway import Millgate
from millgate.guard.dialects import dialect_for
from millgate.sessions.folding.folder import expand as expand_messages
from millgate.sessions.folding.folder import fold as fold_messages
from millgate.sessions.folding.report import FoldReport
from millgate.sessions.xray.summary import short
from millgate.text.bounded_json import loads

PATHS = {"messages": "/v1/chat/completions", "input": "/v1/responses", "contents": "/v1beta/models"}
"""By the field that holds a request's conversation: a path of its API. Anthropic's field is that of OpenAI's chat."""


class FoldCommands(CommandGroup):
    """A group whose first argument may be a file, which is folded."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named, or `messages` for anything else."""
        named = args if args[0] in self.commands else ["messages", *args]
        return super().resolve_command(ctx, named)


@click.group(cls=FoldCommands, epilog="Example: millgate fold messages request.json")
def fold() -> None:
    """Fold what a conversation holds twice into pointers, and report what folding did. `millgate expand` undoes it.

    `messages` may be left out: a file in its place is folded.
    """


@fold.command("messages", epilog="Example: millgate fold messages request.json")
@click.argument("file", default="-")
@prints
def messages(file: str) -> Output:
    """Print the messages or the request in FILE (JSON, - for stdin) folded; stderr says what was saved.

    With --json the folds are printed instead, each with its place and its pointer.
    """
    found: list[FoldReport] = []

    def work(conversation: list[Any], fields: dict[str, Any]) -> list[Any]:
        sent, report = fold_messages(conversation, request=fields)
        found.append(report)
        return sent

    changed = _change(file, work)
    return Output(found[0], changed, f"folded: {found[0].describe()}")


@click.command(epilog="Example: millgate expand folded.json")
@click.argument("file", default="-")
def expand(file: str) -> None:
    """Print the folded messages or request in FILE (JSON, - for stdin) as they were before folding."""
    echo(_change(file, lambda conversation, _: expand_messages(conversation)))


def _change(file: str, work: Callable[[list[Any], dict[str, Any]], list[Any]]) -> str:
    """The JSON of a file with its conversation changed: a list of messages, or a request of one of the APIs."""
    try:
        given = loads(read_input(file))
    except orjson.JSONDecodeError as error:
        raise InputError(f"{file} is not JSON: {error}", hint="give a list of messages, or a request") from error  # fmt: skip
    if isinstance(given, list):
        return orjson.dumps(work(given, {})).decode()
    name = next((name for name in PATHS if isinstance(given, dict) and name in given), None)
    if name is None:
        raise InputError(f"{file} holds no conversation", hint="give a list of messages, or a request with messages, input or contents")  # fmt: skip
    dialect = dialect_for(PATHS[name])
    changed = work(list(dialect.conversation(given)), given)
    return orjson.dumps({**given, **dialect.replace_conversation(changed)}).decode()


@fold.command(epilog="Example: millgate fold report --days 7")
@days_option
@on_store
def report(gate: Millgate, days: float | None) -> Output:
    """Compare sessions that were folded with those that were not, as far back as traces are kept.

    `fold.holdout = 0.5` leaves every other session alone. Figures are for one session, on average.
    """
    since = time.time() - 86_400 * days if days else 0.0
    found = compare_groups(gate.traces(limit=gate.settings.trace.keep), since=since)
    heads = ("sessions", "count", "turns", "repeated calls", "input", "output", "cost", "saved", "of cost", "stopped")  # fmt: skip
    none = "no call was folded or measured yet"
    return Output(found, table_of(*heads, rows=map(_row, found), empty=none))


def _row(one: FoldGroup) -> tuple[str, ...]:
    names = {"on": "folded", "holdout": "held out", "measure": "measured"}
    would = "" if one.group == "on" else "would be "
    return (
        names[one.group], f"{one.sessions:,}", f"{one.per_session(one.turns):.1f}",
        f"{one.per_session(one.repeated_calls):.1f}", short(round(one.per_session(one.input_tokens))),
        short(round(one.per_session(one.output_tokens))), f"${one.per_session(one.cost):.2f}",
        f"{would}{short(one.saved)}", f"{would}${one.saved_cost:,.2f}", str(one.stopped),
    )  # fmt: skip
