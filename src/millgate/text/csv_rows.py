"""CSV rows: lines of text as rows of cells.

A cell in quotes may hold delimiters, line ends and, doubled, quotes. A quote that is closed nowhere is read as it
stands, and the lines after it are rows of their own.

Python's csv module refuses a cell of more than 131 072 characters, by a limit that all of a process shares. Here no
cell is too long.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

# characters within which a quote must be closed: they wait in memory until then
MAX_QUOTED = 64 << 20


def split_csv(lines: Iterable[str], *, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its last line. Lines keep their ends, as those of a file with `newline=""` do."""
    source = _Lines(lines)
    while line := source.next_line():
        cells = _split_row(line, delimiter, source)
        yield source.number, cells


class _Lines:
    """Lines that are read one by one, and can be pushed back."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._returned: deque[str] = deque()
        self.number = 0

    def next_line(self) -> str:
        """The next line; empty after the last."""
        line = self._returned.popleft() if self._returned else next(self._lines, "")
        self.number += bool(line)
        return line

    def push_back(self, lines: Sequence[str]) -> None:
        self._returned.extendleft(reversed(lines))
        self.number -= len(lines)


def _split_row(line: str, delimiter: str, source: _Lines) -> list[str]:
    if '"' not in line:
        return line.rstrip("\r\n").split(delimiter)
    cells, at = list[str](), 0
    while True:
        cell = ""
        if line.startswith('"', at) and (quoted := _read_quoted(line, at + 1, source)):
            cell, line, at = quoted
        end = line.find(delimiter, at)
        if end < 0:
            return [*cells, cell + line[at:].rstrip("\r\n")]
        cells.append(cell + line[at:end])
        at = end + 1


def _read_quoted(line: str, at: int, source: _Lines) -> tuple[str, str, int] | None:
    """What stands in quotes from a place on, with the line and the place behind them; None if nothing closes them."""
    parts, taken, length = list[str](), list[str](), 0
    while True:
        end = line.find('"', at)
        if end < 0:
            parts.append(line[at:])
            length += len(line)
            line, at = source.next_line() if length <= MAX_QUOTED else "", 0
            if not line:
                source.push_back(taken)
                return None
            taken.append(line)
        elif line.startswith('""', end):
            parts.append(line[at : end + 1])
            at = end + 2
        else:
            parts.append(line[at:end])
            return "".join(parts), line, end + 1
