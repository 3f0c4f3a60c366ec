"""A table in plain text: columns as wide as they need, the last one free."""

from collections.abc import Sequence


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Rows of cells as aligned lines; cells that look like numbers stand to the right."""
    if not rows:
        return ""
    rows = [[" ".join(cell.splitlines()) for cell in row] for row in rows]  # a row is one line
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        gap.join(_cell(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def clip(text: str, width: int) -> str:
    """The text on one line, cut to `width` with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _cell(cell: str, width: int) -> str:
    number = cell.replace(".", "", 1).isdigit()
    return cell.rjust(width) if number else cell.ljust(width)
