"""Blocks: the natural parts of a text, as spans of it.

Markdown: a fence, a table, a paragraph; a heading belongs to the block that follows it.
Plain text: paragraphs. Code: top-level definitions, that is, what begins at the left margin after a blank line.
Each block knows the path of headings above it. Blocks cover every character that is not white space, in order.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(r"[^\n]*\n?")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_GAP = re.compile(r"\n[ \t\r]*(?:\n[ \t\r]*)*\n")
_TOP = re.compile(r"\n[ \t\r]*\n(?=[^\s)\]}])")


@dataclass(frozen=True, slots=True)
class Block:
    """A span of the text, and the headings above it."""

    start: int
    end: int
    path: tuple[str, ...] = ()


def blocks(text: str, kind: str) -> list[Block]:
    """The blocks of a text of that kind: markdown, text or code."""
    if kind == "markdown":
        return list(_markdown(text))
    return list(_split(text, _TOP if kind == "code" else _GAP))


def _split(text: str, gap: re.Pattern[str]) -> Iterator[Block]:
    start = 0
    for match in gap.finditer(text):
        if text[start : match.start()].strip():
            yield Block(start, match.start())
            start = match.end()
    if text[start:].strip():
        yield Block(start, len(text))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of Markdown: what it is, and the fence or heading it opens."""

    kind: str
    start: int
    end: int
    mark: str = ""
    words: str = ""


def _markdown(text: str) -> Iterator[Block]:
    """Join lines to blocks; headings wait for the block they stand above."""
    path: list[tuple[int, str]] = []
    opened: int | None = None  # where the block, or its waiting headings, begin
    former = "blank"
    end = 0
    for line in _lines(text):
        ends_block = former in ("text", "table", "fence") and line.kind != former
        if opened is not None and ends_block:
            yield Block(opened, end, tuple(words for _, words in path))
            opened = None
        if line.kind == "heading":
            path = [(level, words) for level, words in path if level < len(line.mark)]
            path.append((len(line.mark), line.words))
        if line.kind != "blank":
            opened = line.start if opened is None else opened
            end = line.end
        former = line.kind if line.kind != "blank" or former != "heading" else "heading"
    if opened is not None:
        yield Block(opened, end, tuple(words for _, words in path))


def _lines(text: str) -> Iterator[_Line]:
    """Every line with its kind; lines inside a fence, its closing line too, are `fence`."""
    fence = ""
    for match in _LINE.finditer(text):
        start, end = match.span()
        if start == end:
            return
        line = match.group()
        if fence:
            yield _Line("fence", start, end)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
                yield _Line("blank", end, end)  # so that two fences in a row stay two blocks
        elif opening := _FENCE.match(line):
            fence = opening.group(1)
            yield _Line("blank", start, start)
            yield _Line("fence", start, end)
        else:
            yield _plain(line, start, end)


def _plain(line: str, start: int, end: int) -> _Line:
    bare = line.strip()
    if not bare:
        return _Line("blank", start, end)
    if bare[0] == "#" and (heading := _HEADING.match(line.rstrip("\r\n"))):
        return _Line("heading", start, end, heading.group(1), heading.group(2))
    return _Line("table" if bare[0] == "|" else "text", start, end)
