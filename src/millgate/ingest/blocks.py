"""Blocks: the natural parts of a text, as spans of it.

Markdown: a fence, a table, a paragraph; a heading belongs to the block that follows it.
Plain text: paragraphs. Code: top-level definitions, that is, what begins at the left margin after a blank line.
Each block has the path of headings above it. Blocks cover every character that is not white space, in order.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Lines that are more than prose; everything between two of them is one run of text. No group is repeated without end:
# each round of one takes 300 bytes.
_SPECIAL = re.compile(
    r"^(?: {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n?"
    r"| {0,3}(?P<heading>#{1,6})[ \t]+(?P<words>[^\n]*)\n?"
    r"|(?P<table>[ \t]*\|)[^\n]*\n?"
    r"|(?P<blank>[ \t\r]*\n(?:[ \t\r\n]*\n)?))",
    re.MULTILINE,
)
_GAP = re.compile(r"\n[ \t\r\n]*\n")
_TOP = re.compile(r"\n[ \t\r]*\n(?=[^\s)\]}])")


class TextBlock(NamedTuple):
    """A span of the text, and the headings above it."""

    start: int
    end: int
    path: tuple[str, ...] = ()


def blocks(text: str, kind: str) -> Iterator[TextBlock]:
    """The blocks of a text of that kind: markdown, text or code."""
    if kind == "markdown":
        return _markdown(text)
    return _split(text, _TOP if kind == "code" else _GAP)


def _split(text: str, gap: re.Pattern[str]) -> Iterator[TextBlock]:
    start = 0
    for match in gap.finditer(text):
        if text[start : match.start()].strip():
            yield TextBlock(start, match.start())
            start = match.end()
    if text[start:].strip():
        yield TextBlock(start, len(text))


def _markdown(text: str) -> Iterator[TextBlock]:
    """Join lines to blocks; a heading goes with the block below it."""
    path: list[tuple[int, str]] = []
    open_at, end, former = -1, 0, "blank"
    for kind, start, stop, words in _runs(text):
        over = former == "fence" or (former in ("text", "table") and kind != former)
        if open_at >= 0 and over and text[open_at:end].strip():
            yield TextBlock(open_at, end, tuple(title for _, title in path))
        if over:
            open_at = -1
        if kind == "heading":
            level = len(words) - len(words.lstrip("#"))
            path = [above for above in path if above[0] < level]
            path.append((level, words.strip("# \t\r")))
        if kind != "blank":
            open_at = start if open_at < 0 else open_at
            end = stop
        former = kind
    if open_at >= 0 and text[open_at:end].strip():
        yield TextBlock(open_at, end, tuple(title for _, title in path))


def _runs(text: str) -> Iterator[tuple[str, int, int, str]]:
    """Kind, start, end and, for headings, the words of each run of like lines."""
    position = 0
    while match := _SPECIAL.search(text, position):
        start, end = match.span()
        if start > position:
            yield "text", position, start, ""
        if match["fence"]:
            end = _fence_end(text, end, match["fence"])
            yield "fence", start, end, ""
        elif match["heading"]:
            yield "heading", start, end, f"{match['heading']} {match['words']}"
        else:
            yield "table" if match["table"] else "blank", start, end, ""
        position = end
    if position < len(text):
        yield "text", position, len(text), ""


def _fence_end(text: str, start: int, fence: str) -> int:
    """The end of the fence that was opened before `start`: after its closing line, or the end of the text."""
    closing = rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t\r]*(?:\n|\Z)"
    found = re.compile(closing, re.MULTILINE).search(text, start)
    return found.end() if found else len(text)
