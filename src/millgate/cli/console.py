"""The console for tables, colors and bars: rich's, with every foreign text made printable.

Only commands that draw something import this file: `millgate --help` and `millgate context` do not load rich.
"""

from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from millgate.text.table import printable


class SafeConsole(Console):
    """rich's console, whose texts may be foreign."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401  (rich's own options)
        """Turn a string into styled text, its unsafe characters made visible."""
        return super().render_str(printable(text), **options)


def progress_bar() -> Progress:
    """A bar that counts chunks on standard error, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())  # fmt: skip
    console = SafeConsole(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal)
