"""`millgate xray [PATH]`: what filled the window in recorded agent sessions."""

import os
from pathlib import Path

import click

from millgate.cli.options import json_option
from millgate.cli.terminal import echo, fit, print_json
from millgate.errors import InputError, MissingExtra
from millgate.sessions.xray.files import find
from millgate.sessions.xray.page import MARKER, page
from millgate.sessions.xray.session import analyze
from millgate.sessions.xray.summary import describe_rest, summary
from millgate.settings import load
from millgate.spending.prices import Prices, table_version
from millgate.text.table import count_of

DEFAULT = "millgate-xray.html"


@click.command(epilog="Example: millgate xray ~/.claude/projects --no-html")
@click.argument("path", required=False)
@click.option(
    "--html", "target", help=f"Where the page is written (default: {DEFAULT}; none with --json)."
)
@click.option("--no-html", is_flag=True, help="Write no page.")
@json_option
def xray(path: str | None, target: str | None, no_html: bool, as_json: bool) -> None:
    """Show what filled the window in the sessions at PATH, or in those of the agents on this machine.

    The command reads the sessions of Claude Code, Codex, Gemini CLI, OpenCode and pi, and message logs (JSON lines),
    and writes one HTML page. It needs no network. If the files tell what the provider cached, it also says what broke
    the cache and what that cost.
    """
    files = find(path, home=Path.home())
    where = None if no_html or (as_json and target is None) else Path(target or DEFAULT)
    if where is not None:
        _refuse_foreign(where)
    found = analyze(files, Prices(load().prices))
    if not found.sessions:
        raise InputError(
            f"no session was found in {count_of(len(files), 'file')}",
            hint="; ".join([*describe_rest(found), "see what is read: millgate xray --help"]),
        )
    if as_json:
        print_json(found)
    else:
        echo(fit(summary(found)))
    if not table_version():
        missing = MissingExtra("genai-prices", extra="service")
        echo(f"\nno amounts of money: {missing.message}; {missing.hint}", err=as_json)
    if where is not None:
        _write(where, page(found))
        echo(f"\npage: {where}", err=as_json)


def _refuse_foreign(where: Path) -> None:
    """Refuse to overwrite a file that is not our own page."""
    try:
        ours = not where.exists() or where.is_file()
        if ours:  # a pipe would be waited for
            with where.open("rb") as held:
                ours = held.read(len(MARKER)) == MARKER.encode()
    except FileNotFoundError:
        if where.is_symlink():  # what is written would land where the link points
            raise InputError(f"{where} is a link to nothing", hint="name another file with --html") from None  # fmt: skip
        return
    except OSError as error:
        raise InputError(f"{where} cannot be written: {error.strerror}") from error
    if not ours:
        raise InputError(
            f"{where} is not a page of millgate xray", hint="name another file with --html"
        )


def _write(where: Path, text: str) -> None:
    """Write the page for its owner alone: it quotes the sessions."""
    try:
        descriptor = os.open(where, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="replace") as out:
            out.write(text)
    except OSError as error:
        raise InputError(f"{where} cannot be written: {error.strerror}") from error
