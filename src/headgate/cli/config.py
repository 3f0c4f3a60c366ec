"""`headgate config show|check`: the settings in force, and where each came from."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
import orjson
from rich.table import Table

from headgate.cli.completion import completion
from headgate.cli.terminal import SafeConsole, echo
from headgate.settings import Setting, inspect, load

_FILE = click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Settings file (default: HEADGATE_CONFIG, else ./headgate.toml).",
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


@click.group()
def config() -> None:
    """Show or check the settings in force."""


config.add_command(completion)


@config.command()
@_FILE
@_JSON
@click.option("--changed", is_flag=True, help="Only what differs from the default.")
def show(file: Path | None, as_json: bool, changed: bool) -> None:
    """Every setting: its value, where it came from, and what it does; exit 2 when something cannot be used."""
    found, errors = inspect(file)
    _print_settings([s for s in found if not changed or s.value != s.default], as_json=as_json)
    for error in errors:
        echo(f"error: {error}", err=True)
    if errors:
        sys.exit(2)


def _print_settings(settings: Sequence[Setting], *, as_json: bool) -> None:
    if as_json:
        rows = [{"name": s.name, "value": s.value, "default": s.default, "origin": s.origin}
                for s in settings]  # fmt: skip
        echo(orjson.dumps(rows, default=_plain, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table("setting", "value", "from", "what it does", box=None, header_style="bold")
    for s in settings:
        style = None if s.origin == "default" else "green"
        table.add_row(s.name, str(_plain(s.value)), s.origin, s.doc, style=style)
    SafeConsole().print(table)


@config.command()
@_FILE
@_JSON
def check(file: Path | None, as_json: bool) -> None:
    """Say whether the settings can be used; exit 2 with the reason when not."""
    load(file)
    given = [s for s in inspect(file).settings if s.origin != "default"]
    if as_json:
        echo(orjson.dumps({"ok": True, "given": [s.name for s in given]}).decode())
    else:
        echo(f"ok: {len(given)} given, the rest at its default")


def _plain(value: object) -> object:
    """A value that JSON can hold: sets as sorted lists, unknown types as text."""
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value if isinstance(value, str | int | float | bool | list | dict) else str(value)
