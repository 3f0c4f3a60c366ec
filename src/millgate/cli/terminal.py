"""The terminal: all commands print through `echo`, so that no foreign text can steer a terminal."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from shutil import get_terminal_size
from threading import Timer

import click
import orjson

from millgate.text.table import clip, printable, table

_CELL = 40  # characters of a cell that a terminal shows, but of the last in its row


def echo(text: str | bytes = "", *, err: bool = False) -> None:
    """Print a line that may hold foreign text, or JSON."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    click.echo(printable(shown), err=err)


def print_json(value: object) -> None:
    """Print a value, dataclasses included, as indented JSON."""
    echo(orjson.dumps(value, default=as_plain, option=orjson.OPT_INDENT_2))


def as_plain(value: object) -> object:
    """A value as JSON and a person can have it: sets as sorted lists, unknown types as text."""
    if isinstance(value, frozenset | set):
        return sorted(value)
    return value if isinstance(value, str | int | float | bool | list | dict) else str(value)


def table_of(
    *heads: str, rows: Iterable[Sequence[object]], empty: str = "", cut: bool = True
) -> str:
    """A table under its headings, as wide as the terminal if one shows it; `empty` if it has no row."""
    cells = [[str(cell) for cell in row] for row in rows]
    if not cells:
        return empty
    if not cut:
        return table([heads, *cells])
    if sys.stdout.isatty():  # one long cell must not push the columns behind it out of sight
        cells = [[*(clip(cell, _CELL) for cell in row[:-1]), row[-1]] for row in cells]
    return fit(table([heads, *cells]))


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


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[..., None]]:
    """A bar on standard error, if that is a terminal. What it gives moves it: so much done, of how much, of what."""
    if not sys.stderr.isatty():
        yield lambda done, total, of="": None
        return
    with click.progressbar(length=1, label=what, file=sys.stderr) as bar:

        def move(done: int, total: int, of: str = what) -> None:
            bar.length, bar.label = total, printable(of)
            bar.update(done - bar.pos)

        yield move
