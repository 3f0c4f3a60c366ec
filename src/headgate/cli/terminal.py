"""The terminal: the one way by which commands print, so that no foreign text can do harm there (printable.py)."""

from typing import TYPE_CHECKING

import click

from headgate.cli.printable import printable

if TYPE_CHECKING:
    from headgate.cli.console import SafeConsole

__all__ = ["SafeConsole", "echo", "printable"]


def echo(text: str | bytes = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line that may hold foreign text, or JSON."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    click.echo(printable(shown), err=err, nl=nl)


def __getattr__(name: str) -> object:
    """SafeConsole, whose library is loaded only by commands that draw something."""
    if name != "SafeConsole":
        raise AttributeError(f"module 'headgate.cli.terminal' has no attribute {name!r}")
    from headgate.cli.console import SafeConsole  # noqa: PLC0415  (see above)

    return SafeConsole
