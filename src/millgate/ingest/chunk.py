"""Chunk: split a text into passages that can be read alone.

A chat log is cut at its turns; a text that the caller declares to be one, at its lines if no turns are found. Any other
text that fits `maximum` stays whole. A longer one is packed block by block up to `target`; a block up to `maximum` is
never cut, and a larger one is cut at blank lines, else at lines, sentences, words, or anywhere. Passages are spans of
the text, so nothing is added, and only white space between them is lost. Size is the token estimate (text/tokens.py).

Blocks are the natural parts of a text. Markdown: a fence, a table, a paragraph; a heading belongs to the block that
follows it. Plain text: paragraphs. Code: top-level definitions, that is, what begins at the left margin after a blank
line. Each block has the path of headings above it. Blocks cover every character that is not white space, in order.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import NamedTuple

from millgate.ingest.policy import ChunkPolicy
from millgate.text.tokens import RunningTokens, estimate_all, estimate_tokens
from millgate.text.turns import CONVERSATION, split_turns

Seams = tuple[re.Pattern[str], ...]
"""Where a text may be cut, the coarsest first."""

_SEAMS: Seams = tuple(
    re.compile(seam)
    for seam in (
        r"\n[ \t\r]*\n+",
        r"\n",
        r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])",
        r"\s+",
    )
)
# Of code: before a line is cut that belongs to the one above it, cut between those that begin at the left margin.
_SEAMS_OF_CODE = (_SEAMS[0], re.compile(r"\n(?=[^\s)\]}])"), *_SEAMS[1:])

# Turns of one text that are chunks of their own; of more, neighbors are joined. Each takes 600 bytes until stored.
MOST_TURNS = 40_000

_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]", re.MULTILINE)
_LINE = re.compile(r"^.*\S.*$", re.MULTILINE)  # one that says something
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


class Passage(NamedTuple):
    """A part of a text, and the headings above it; of packed rows, which rows it holds."""

    text: str
    path: tuple[str, ...] = ()
    rows: str = ""


def split_text(
    text: str,
    policy: ChunkPolicy,
    *,
    kind: str = "markdown",
    tokens: int | None = None,
    may_be_log: bool = True,
) -> list[Passage]:
    """The passages of a text in reading order; none for white space. `tokens` is its size, if that is known.

    One that `may_be_log` is cut at its turns if it is a chat log.
    """
    if not text or text.isspace():
        return []
    turns: Sequence[int] = split_turns(text) if may_be_log and kind != "code" else []
    if kind == CONVERSATION and not turns:
        turns = [line.start() for line in _LINE.finditer(text)]
    if turns:
        turns = turns[:: -(-len(turns) // MOST_TURNS)]
        # what stands before the first turn belongs to it
        parts = [text[start:end] for start, end in pairwise([0, *turns[1:], len(text)])]
        sized = zip(parts, estimate_all(parts), strict=True)
        return [p for part, count in sized for p in _split(part, count, policy, kind="text")]
    return _split(text, estimate_tokens(text) if tokens is None else tokens, policy, kind=kind)


def _split(text: str, tokens: int, policy: ChunkPolicy, *, kind: str) -> list[Passage]:
    if tokens <= policy.maximum:
        path = _first_heading(text) if kind == "markdown" else ()
        return [Passage(_trim(text), path)]
    sizes = RunningTokens(text)
    seams = _SEAMS_OF_CODE if kind == "code" else _SEAMS
    parts = (
        p for block in blocks(text, kind) for p in _split_block(text, block, sizes, policy, seams)
    )
    packed = _join_tail(_pack(parts, sizes, policy.target), sizes, policy)
    return [Passage(_trim(text[b.start : b.end]), b.path) for b in packed]


def _first_heading(text: str) -> tuple[str, ...]:
    """The first heading of a text that stays whole."""
    # a search for lines takes a hundred times as long as one for signs
    if "#" not in text or not ("# " in text or "#\t" in text) or not _HEADING.search(text):
        return ()
    first = next((block.path for block in blocks(text, "markdown") if block.path), ())
    return first[:1]


def _pack(parts: Iterable[TextBlock], sizes: RunningTokens, target: int) -> list[TextBlock]:
    """Join neighboring blocks while they fit the target; a new section begins anew when half is full."""
    packed: list[TextBlock] = []
    for block in parts:
        last = packed[-1] if packed else None
        if last and _may_join(last, block, sizes, target):
            packed[-1] = TextBlock(last.start, block.end, last.path)
        else:
            packed.append(block)
    return packed


def _may_join(last: TextBlock, block: TextBlock, sizes: RunningTokens, target: int) -> bool:
    if last.path != block.path and 2 * (sizes[last.end] - sizes[last.start]) >= target:
        return False
    return sizes[block.end] - sizes[last.start] <= target


def _join_tail(
    packed: list[TextBlock], sizes: RunningTokens, policy: ChunkPolicy
) -> list[TextBlock]:
    """Join a scrap at the end to the passage before it, if both fit in one."""
    if len(packed) > 1:
        last, former = packed[-1], packed[-2]
        scrap = 8 * (sizes[last.end] - sizes[last.start]) < policy.target
        if scrap and sizes[last.end] - sizes[former.start] <= policy.maximum:
            packed[-2:] = [TextBlock(former.start, last.end, former.path)]
    return packed


def _split_block(
    text: str, block: TextBlock, sizes: RunningTokens, policy: ChunkPolicy, seams: Seams
) -> Iterator[TextBlock]:
    """The block, or, if it is above the maximum, parts of it no larger than the target."""
    if sizes[block.end] - sizes[block.start] <= policy.maximum:
        yield block
        return
    for start, end in _split_span(text, block.start, block.end, sizes, policy.target, seams=seams):
        if text[start:end].strip():
            yield TextBlock(start, end, block.path)


def _split_span(
    text: str, start: int, end: int, sizes: RunningTokens, limit: int, *, seams: Seams
) -> Iterator[tuple[int, int]]:
    """Spans no larger than the limit, cut at the coarsest seam that serves."""
    if sizes[end] - sizes[start] <= limit:
        yield start, end
    elif not seams:
        yield from _slices(start, end, sizes, limit)
    else:
        cuts = chain((m.end() for m in seams[0].finditer(text, start, end)), (end,))
        for left, right in _runs(start, cuts, sizes, limit):
            yield from _split_span(text, left, right, sizes, limit, seams=seams[1:])


def _slices(start: int, end: int, sizes: RunningTokens, limit: int) -> Iterator[tuple[int, int]]:
    """Cut anywhere; a single character above the limit stays whole."""
    while start < end:
        stop = min(end, max(sizes.reach(start, limit), start + 1))
        yield start, stop
        start = stop


def _runs(
    start: int, cuts: Iterable[int], sizes: RunningTokens, limit: int
) -> Iterator[tuple[int, int]]:
    """Neighboring parts joined while they fit the limit, so that a long line does not become words."""
    last, fits = start, sizes.reach(start, limit)
    for cut in cuts:
        if last > start and cut > fits:
            yield start, last
            start, fits = last, sizes.reach(last, limit)
        last = cut
    if last > start:
        yield start, last


def _trim(text: str) -> str:
    """Strip blank lines around it; the first line keeps its indent."""
    return text.rstrip().lstrip("\r\n")


def blocks(text: str, kind: str) -> Iterator[TextBlock]:
    """The blocks of a text of that kind: markdown, text or code."""
    if kind == "markdown":
        return _markdown(text)
    return _split_at(text, _TOP if kind == "code" else _GAP)


def _split_at(text: str, gap: re.Pattern[str]) -> Iterator[TextBlock]:
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
    for kind, start, stop, words in _like_lines(text):
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


def _like_lines(text: str) -> Iterator[tuple[str, int, int, str]]:
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
