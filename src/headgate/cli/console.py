"""The console for tables, colors and bars: rich's, with every foreign text made printable."""

from typing import Any

from rich.console import Console
from rich.text import Text

from headgate.text.table import printable


class SafeConsole(Console):
    """rich's console, whose texts may be foreign."""

    def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401  (rich's own options)
        """Turn a string into styled text, its unsafe characters made visible."""
        return super().render_str(printable(text), **options)
