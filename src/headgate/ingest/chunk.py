"""Chunk: a text cut into pieces that read well alone.

A text that fits `maximum` stays whole. A longer one is packed block by block up to `target`; a block up to
`maximum` is never cut, and a larger one gives way at blank lines, then lines, sentences, words, and last anywhere.
Pieces are spans of the text, so nothing is added, and nothing but white space between pieces is lost.
Size is UTF-8 bytes / 4: close to tokens for English, and cautious for scripts with more bytes a letter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headgate.errors import ConfigError
from headgate.ingest.blocks import Block, blocks
from headgate.policy import Policy, PositiveCount

_BYTES = 4  # per token, English prose
_SEAMS = tuple(
    re.compile(seam)
    for seam in (
        r"\n[ \t\r]*\n+",
        r"\n",
        r"(?<=[.!?…])[\"')\]]*\s+|(?<=[。！？])",
        r"\s+",
    )
)


class ChunkPolicy(Policy):
    """How large pieces should be, in tokens."""

    target: PositiveCount = 350
    """Size to pack blocks up to."""
    maximum: PositiveCount = 1200
    """What fits this stays whole: the longest of 1 400 paper abstracts has about 1 040."""

    def model_post_init(self, context: object) -> None:
        """Refuse a target above the maximum."""
        if self.target > self.maximum:
            raise ConfigError(
                f"chunk target is {self.target}, above the maximum of {self.maximum}",
                hint="lower the target or raise the maximum",
            )


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text, and the headings above it."""

    text: str
    path: tuple[str, ...] = ()


def cut(text: str, policy: ChunkPolicy, *, kind: str = "markdown") -> list[Piece]:
    """The pieces of a text in reading order; none for white space."""
    if not text.strip():
        return []
    if _size(text) <= policy.maximum * _BYTES:
        path = _top(text) if kind == "markdown" else ()
        return [Piece(_trim(text), path)]
    packed = _join_tail(_pack(text, blocks(text, kind), policy), text, policy)
    return [Piece(_trim(text[b.start : b.end]), b.path) for b in packed]


def _top(text: str) -> tuple[str, ...]:
    """The first heading of a text that stays whole."""
    if "#" not in text:
        return ()
    first = next((block.path for block in blocks(text, "markdown") if block.path), ())
    return first[:1]


def _pack(text: str, parts: Sequence[Block], policy: ChunkPolicy) -> list[Block]:
    """Join neighboring blocks while they fit the target; a new section begins anew when half is full."""
    target, maximum = policy.target * _BYTES, policy.maximum * _BYTES
    packed: list[Block] = []
    for part in parts:
        for block in _fragments(text, part, target, maximum):
            last = packed[-1] if packed else None
            if last and _joins(text, last, block, target):
                packed[-1] = Block(last.start, block.end, last.path)
            else:
                packed.append(block)
    return packed


def _joins(text: str, last: Block, block: Block, target: int) -> bool:
    if last.path != block.path and _span(text, last) * 2 >= target:
        return False
    return _size(text[last.start : block.end]) <= target


def _join_tail(packed: list[Block], text: str, policy: ChunkPolicy) -> list[Block]:
    """A scrap at the end goes to the piece before it."""
    if len(packed) > 1:
        last, former = packed[-1], packed[-2]
        scrap = _span(text, last) * 8 < policy.target * _BYTES
        if scrap and _size(text[former.start : last.end]) <= policy.maximum * _BYTES:
            packed[-2:] = [Block(former.start, last.end, former.path)]
    return packed


def _fragments(text: str, block: Block, target: int, maximum: int) -> Iterator[Block]:
    """The block, or where it is too large its fragments, none larger than the target."""
    if _span(text, block) <= maximum:
        yield block
        return
    for start, end in _shatter(text, block.start, block.end, target):
        if text[start:end].strip():
            yield Block(start, end, block.path)


def _shatter(
    text: str, start: int, end: int, limit: int, seams: tuple[re.Pattern[str], ...] = _SEAMS
) -> Iterator[tuple[int, int]]:
    """Spans no larger than the limit, cut at the coarsest seam that serves."""
    if _size(text[start:end]) <= limit:
        yield start, end
    elif not seams:
        step = max(1, limit // 4)  # no character has more than 4 bytes
        yield from pairwise([*range(start, end, step), end])
    else:
        spots = [start, *(m.end() for m in seams[0].finditer(text, start, end)), end]
        for left, right in _runs(text, spots, limit):
            yield from _shatter(text, left, right, limit, seams[1:])


def _runs(text: str, spots: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Neighboring parts joined while they fit the limit, so that a long line does not become words."""
    start, last, size = spots[0], spots[0], 0
    for spot in spots[1:]:
        more = _size(text[last:spot])
        if last > start and size + more > limit:
            yield start, last
            start, size = last, 0
        last, size = spot, size + more
    if last > start:
        yield start, last


def _span(text: str, block: Block) -> int:
    return _size(text[block.start : block.end])


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _trim(text: str) -> str:
    """Without blank lines around it; the first line keeps its indent."""
    return text.rstrip().lstrip("\r\n")
