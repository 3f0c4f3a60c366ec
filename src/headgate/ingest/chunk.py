"""Chunk: split a text into passages that can be read alone.

A text that fits `maximum` stays whole. A longer one is packed block by block up to `target`; a block up to
`maximum` is never cut, and a larger one is cut at blank lines, else at lines, sentences, words, or anywhere.
Passages are spans of the text, so nothing is added, and only white space between them is lost.
Size is UTF-8 bytes / 4: close to tokens for English, and cautious for scripts with more bytes a letter.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from headgate.errors import ConfigError
from headgate.ingest.blocks import Block, blocks
from headgate.policy import Policy, PositiveCount

_BYTES_PER_TOKEN = 4  # of English prose
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
    """How large chunks should be, in tokens."""

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
class Passage:
    """A part of a text, and the headings above it."""

    text: str
    path: tuple[str, ...] = ()


def split_text(text: str, policy: ChunkPolicy, *, kind: str = "markdown") -> list[Passage]:
    """The passages of a text in reading order; none for white space."""
    if not text.strip():
        return []
    if _byte_size(text) <= policy.maximum * _BYTES_PER_TOKEN:
        path = _first_heading(text) if kind == "markdown" else ()
        return [Passage(_trim(text), path)]
    packed = _join_tail(_pack(text, blocks(text, kind), policy), text, policy)
    return [Passage(_trim(text[b.start : b.end]), b.path) for b in packed]


def _first_heading(text: str) -> tuple[str, ...]:
    """The first heading of a text that stays whole."""
    if "#" not in text:
        return ()
    first = next((block.path for block in blocks(text, "markdown") if block.path), ())
    return first[:1]


def _pack(text: str, parts: Sequence[Block], policy: ChunkPolicy) -> list[Block]:
    """Join neighboring blocks while they fit the target; a new section begins anew when half is full."""
    target, maximum = policy.target * _BYTES_PER_TOKEN, policy.maximum * _BYTES_PER_TOKEN
    packed: list[Block] = []
    for part in parts:
        for block in _split_block(text, part, target, maximum):
            last = packed[-1] if packed else None
            if last and _may_join(text, last, block, target):
                packed[-1] = Block(last.start, block.end, last.path)
            else:
                packed.append(block)
    return packed


def _may_join(text: str, last: Block, block: Block, target: int) -> bool:
    if last.path != block.path and _block_size(text, last) * 2 >= target:
        return False
    return _byte_size(text[last.start : block.end]) <= target


def _join_tail(packed: list[Block], text: str, policy: ChunkPolicy) -> list[Block]:
    """A scrap at the end joins the passage before it."""
    if len(packed) > 1:
        last, former = packed[-1], packed[-2]
        scrap = _block_size(text, last) * 8 < policy.target * _BYTES_PER_TOKEN
        if scrap and _byte_size(text[former.start : last.end]) <= policy.maximum * _BYTES_PER_TOKEN:
            packed[-2:] = [Block(former.start, last.end, former.path)]
    return packed


def _split_block(text: str, block: Block, target: int, maximum: int) -> Iterator[Block]:
    """The block, or, where it is too large, parts of it no larger than the target."""
    if _block_size(text, block) <= maximum:
        yield block
        return
    for start, end in _split_span(text, block.start, block.end, target):
        if text[start:end].strip():
            yield Block(start, end, block.path)


def _split_span(
    text: str, start: int, end: int, limit: int, seams: tuple[re.Pattern[str], ...] = _SEAMS
) -> Iterator[tuple[int, int]]:
    """Spans no larger than the limit, cut at the coarsest seam that serves."""
    if _byte_size(text[start:end]) <= limit:
        yield start, end
    elif not seams:
        step = max(1, limit // 4)  # no character has more than 4 bytes
        yield from pairwise([*range(start, end, step), end])
    else:
        cuts = [start, *(m.end() for m in seams[0].finditer(text, start, end)), end]
        for left, right in _runs(text, cuts, limit):
            yield from _split_span(text, left, right, limit, seams[1:])


def _runs(text: str, cuts: Sequence[int], limit: int) -> Iterator[tuple[int, int]]:
    """Neighboring parts joined while they fit the limit, so that a long line does not become words."""
    start, last, size = cuts[0], cuts[0], 0
    for cut in cuts[1:]:
        more = _byte_size(text[last:cut])
        if last > start and size + more > limit:
            yield start, last
            start, size = last, 0
        last, size = cut, size + more
    if last > start:
        yield start, last


def _block_size(text: str, block: Block) -> int:
    return _byte_size(text[block.start : block.end])


def _byte_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _trim(text: str) -> str:
    """Without blank lines around it; the first line keeps its indent."""
    return text.rstrip().lstrip("\r\n")
