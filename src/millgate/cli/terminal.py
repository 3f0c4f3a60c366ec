"""The terminal: all commands print through `echo`, so that no foreign text can steer a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from shutil import get_terminal_size
from threading import Timer

import click

from millgate.text.table import printable


def echo(text: str | bytes = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line that may hold foreign text, or JSON."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    click.echo(printable(shown), err=err, nl=nl)


def format_minute(seconds: float) -> str:
    """A moment for a person, in UTC: 2026-05-01 09:30."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def fit(text: str) -> str:
    """The lines of a table, cut to the width of the terminal if one shows them; files and pipes get them whole."""
    if not sys.stdout.isatty():
        return text
    width = get_terminal_size().columns
    lines = text.splitlines()
    return "\n".join(line if len(line) <= width else f"{line[: width - 1]}…" for line in lines)


@contextmanager
def explain_wait(after_s: float = 3.0) -> Iterator[None]:
    """Say on standard error why a question takes so long, if it does."""
    said = "still working: the first question after an add waits until the index is up to date"
    timer = Timer(after_s, echo, (said,), {"err": True})
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
