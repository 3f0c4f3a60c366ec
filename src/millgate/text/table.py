"""A table in plain text, columns as wide as they need; and foreign text as a terminal may show it.

Questions, file names, titles and errors come from others. Control characters in them (escape sequences among them) and
marks that reverse the order of letters are shown as JSON writes them: `\\u001b`.
"""

import re
from collections.abc import Sequence

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

_NUMBER = re.compile(r"(?:-?\$?\d[\d,.]*(?: ?(?:%|[kM]?B|[kM]|m?s))?)?")


def table(rows: Sequence[Sequence[str]], *, gap: str = "  ") -> str:
    """Rows of cells under their headings as aligned lines; a column of numbers stands to the right."""
    if not rows:
        return ""
    rows = [[" ".join(cell.splitlines()) for cell in row] for row in rows]  # a row is one line
    columns = [
        [cell.rjust(width) if is_number else cell.ljust(width) for cell in column]
        for column in zip(*rows, strict=True)
        for width in [max(map(len, column))]
        for is_number in [all(map(_NUMBER.fullmatch, column[1:]))]
    ]
    return "\n".join(gap.join(row).rstrip() for row in zip(*columns, strict=True))


def count_of(number: int, noun: str) -> str:
    """A number of things for a person: 1 chunk, 2 chunks."""
    return f"{number:,} {noun if number == 1 else f'{noun}s'}"


def money_of(amount: float) -> str:
    """An amount in dollars: $0.84; of less than a cent, its first digits: $0.0020."""
    return f"${amount:,.2f}" if amount >= 0.01 or not amount else f"${amount:.4f}"


def clip(text: str, width: int) -> str:
    """The text on one line, cut to `width` with an ellipsis."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def printable(text: str) -> str:
    """The text with everything in it that a terminal would obey, or could not print, made visible."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
