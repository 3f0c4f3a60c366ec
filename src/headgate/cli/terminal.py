"""The terminal: the one way by which commands print, so that no foreign text can move the cursor or hide itself.

Questions, file names, titles and errors come from others. Control characters in them (escape sequences among them) and
marks that reverse the order of letters are shown as `\\u001b`, which is also how JSON writes them.
"""

import re
from typing import Any

import click
from rich.console import Console
from rich.text import Text

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """The text with everything in it that a terminal would obey, or could not print, made visible."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def echo(text: str | bytes = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line that may hold foreign text, or JSON."""
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    click.echo(printable(shown), err=err, nl=nl)


class SafeConsole(Console):
    """rich's console for tables and styles, whose texts may be foreign."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401  (rich's own options)
        """Turn a string into styled text, its unsafe characters made visible."""
        return super().render_str(printable(text), **options)
