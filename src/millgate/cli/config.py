"""`millgate config`: the settings in force and where each came from, and the completion of commands in a shell."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click
import orjson
from click.shell_completion import get_completion_class
from rich.table import Table

from millgate.cli.command_group import CommandGroup
from millgate.cli.console import SafeConsole
from millgate.cli.options import json_option, print_json
from millgate.cli.terminal import echo
from millgate.errors import ConfigError, InputError
from millgate.settings import Setting, inspect
from millgate.settings.found import IgnoredSetting
from millgate.text.table import printable

_FILE = click.option(
    "--file",
    type=click.Path(path_type=Path),
    help="Settings file (default: MILLGATE_CONFIG, else ./millgate.toml).",
)
_COMPLETION_LINES = {
    "bash": 'eval "$(millgate config completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(millgate config completion zsh)"   # in ~/.zshrc',
    "fish": "millgate config completion fish | source   # in ~/.config/fish/config.fish",
}


@click.group(cls=CommandGroup)
def config() -> None:
    """Show or check the settings in force; let a shell complete commands."""


@config.command(epilog="Example: millgate config show --changed")
@_FILE
@json_option
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
def show(file: Path | None, as_json: bool, changed: bool) -> None:
    """Show every setting and where its value came from.

    The exit code is 2 if a setting cannot be used.
    """
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
        value = "not set" if s.value is None else str(_plain(s.value))
        table.add_row(s.name, value, s.origin, s.doc, style=style)
    SafeConsole().print(table)


@config.command(epilog="Example: millgate config check millgate.toml")
@click.argument("path", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@_FILE
@json_option
def check(path: Path | None, file: Path | None, as_json: bool) -> None:
    """Say whether the settings can be used. If not, the exit code is 2 and the error says why.

    Other commands ignore what a found file may not set, or sets wrongly. This one lists it, and the exit code is 2.
    """
    if path and file:
        raise InputError("two files are named", hint="name one: millgate config check FILE")
    found, errors = inspect(path or file)
    if wrong := [error for error in errors if not isinstance(error, IgnoredSetting)]:
        _refuse(wrong)
    given = [s for s in found if s.origin != "default"]
    if as_json:
        ignored = [{"what": error.message, "hint": error.hint} for error in errors]
        print_json({"ok": not errors, "given": [s.name for s in given], "ignored": ignored})
    else:
        for error in errors:
            echo(f"ignored: {error.message}\n  hint: {error.hint}")
        left_out = f", {len(errors)} ignored" if errors else ""
        echo(
            f"{'not ok' if errors else 'ok'}: {len(given)} given{left_out}, the rest at its default"
        )
    if errors:
        sys.exit(2)


def _refuse(errors: Sequence[ConfigError]) -> NoReturn:
    """End with an error that tells of all that is wrong, each with its own hint."""
    if len(errors) == 1:
        raise errors[0]
    for error in errors:
        echo(f"error: {printable(error.message)}\n  hint: {printable(error.hint)}", err=True)
    raise ConfigError(f"{len(errors)} settings cannot be used", hint="see: millgate config show")


def _plain(value: object) -> object:
    """A value that JSON can hold: sets as sorted lists, unknown types as text."""
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value if isinstance(value, str | int | float | bool | list | dict) else str(value)


@config.command(
    epilog="\b\nExample, a line for the file that your shell reads at its start:\n"
    + "\n".join(f"  {line}" for line in _COMPLETION_LINES.values())
)
@click.argument("shell", type=click.Choice(list(_COMPLETION_LINES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands in SHELL."""
    kind = get_completion_class(shell)
    assert kind is not None
    app = ctx.find_root().command
    echo(kind(app, {}, "millgate", "_MILLGATE_COMPLETE").source())
