"""`millgate config`: the settings in force and where each came from, and the completion of commands in a shell."""

from pathlib import Path

import click
from click.shell_completion import get_completion_class

from millgate.cli.options import CommandGroup, Output, prints
from millgate.cli.terminal import as_plain, echo, table_of
from millgate.errors import ConfigError, InputError
from millgate.settings import inspect
from millgate.settings.load import IgnoredSetting
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
@click.option("--changed", is_flag=True, help="Only settings that differ from their default.")
@prints
def show(file: Path | None, changed: bool) -> Output:
    """Show every setting and where its value came from.

    The exit code is 2 if a setting cannot be used.
    """
    found, errors = inspect(file)
    shown = [s for s in found if not changed or s.value != s.default]
    rows = [
        (s.name, "not set" if s.value is None else as_plain(s.value), s.origin, s.doc)
        for s in shown
    ]
    for error in errors:
        echo(f"error: {error}", err=True)
    return Output(
        [{"name": s.name, "value": s.value, "default": s.default, "origin": s.origin} for s in shown],
        table_of("setting", "value", "from", "what it does", rows=rows),
        code=2 if errors else 0,
    )  # fmt: skip


@config.command(epilog="Example: millgate config check millgate.toml")
@click.argument("path", required=False, metavar="[FILE]", type=click.Path(path_type=Path))
@_FILE
@prints
def check(path: Path | None, file: Path | None) -> Output:
    """Say whether the settings can be used. If not, the exit code is 2 and the error says why.

    Other commands ignore what a found file may not set, or sets wrongly. This one lists it, and the exit code is 2.
    """
    if path and file:
        raise InputError("two files are named", hint="name one: millgate config check FILE")
    found, errors = inspect(path or file)
    wrong = [error for error in errors if not isinstance(error, IgnoredSetting)]
    if len(wrong) == 1:
        raise wrong[0]
    if wrong:
        for error in wrong:
            echo(f"error: {printable(error.message)}\n  hint: {printable(error.hint)}", err=True)
        raise ConfigError(f"{len(wrong)} settings cannot be used", hint="see: millgate config show")
    given = [s.name for s in found if s.origin != "default"]
    lines = [f"ignored: {error.message}\n  hint: {error.hint}" for error in errors]
    left_out = f", {len(errors)} ignored" if errors else ""
    ok = "not ok" if errors else "ok"
    return Output(
        {"ok": not errors, "given": given, "ignored": [{"what": e.message, "hint": e.hint} for e in errors]},
        "\n".join([*lines, f"{ok}: {len(given)} given{left_out}, the rest at its default"]),
        code=2 if errors else 0,
    )  # fmt: skip


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
