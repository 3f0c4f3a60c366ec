"""Chunk: a text cut into pieces that read well alone.

A text that fits `maximum` stays whole. A longer one is packed block by block up to `target`; a block up to
`maximum` is never cut, and a larger one gives way at blank lines, then lines, sentences, words, and last anywhere.
Pieces are spans of the text, so nothing is added, and nothing but white space between pieces is lost.
Size is the token estimate (text/tokens.py), read once for the whole text.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from headgate.errors import ConfigError
from headgate.ingest.blocks import Block, blocks
from headgate.policy import Policy, PositiveCount
from headgate.text.tokens import running_tokens

Sizes = npt.NDArray[np.float64]

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
    sizes = running_tokens(text)
    if sizes[-1] <= policy.maximum:
        path = _top(text) if kind == "markdown" else ()
        return [Piece(_trim(text), path)]
    parts = (f for block in blocks(text, kind) for f in _fragments(text, block, sizes, policy))
    packed = _join_tail(_pack(parts, sizes, policy.target), sizes, policy)
    return [Piece(_trim(text[b.start : b.end]), b.path) for b in packed]


def _top(text: str) -> tuple[str, ...]:
    """The first heading of a text that stays whole."""
    if "#" not in text:
        return ()
    first = next((block.path for block in blocks(text, "markdown") if block.path), ())
    return first[:1]


def _pack(parts: Iterable[Block], sizes: Sizes, target: int) -> list[Block]:
    """Join neighboring blocks while they fit the target; a new section begins anew when half is full."""
    packed: list[Block] = []
    for block in parts:
        last = packed[-1] if packed else None
        if last and _joins(last, block, sizes, target):
            packed[-1] = Block(last.start, block.end, last.path)
        else:
            packed.append(block)
    return packed


def _joins(last: Block, block: Block, sizes: Sizes, target: int) -> bool:
    if last.path != block.path and 2 * (sizes[last.end] - sizes[last.start]) >= target:
        return False
    return bool(sizes[block.end] - sizes[last.start] <= target)


def _join_tail(packed: list[Block], sizes: Sizes, policy: ChunkPolicy) -> list[Block]:
    """A scrap at the end goes to the piece before it."""
    if len(packed) > 1:
        last, former = packed[-1], packed[-2]
        scrap = 8 * (sizes[last.end] - sizes[last.start]) < policy.target
        if scrap and sizes[last.end] - sizes[former.start] <= policy.maximum:
            packed[-2:] = [Block(former.start, last.end, former.path)]
    return packed


def _fragments(text: str, block: Block, sizes: Sizes, policy: ChunkPolicy) -> Iterator[Block]:
    """The block, or where it is too large its fragments, none larger than the target."""
    if sizes[block.end] - sizes[block.start] <= policy.maximum:
        yield block
        return
    for start, end in _shatter(text, block.start, block.end, sizes, policy.target):
        if text[start:end].strip():
            yield Block(start, end, block.path)


def _shatter(
    text: str, start: int, end: int, sizes: Sizes, limit: int, *, seam: int = 0
) -> Iterator[tuple[int, int]]:
    """Spans no larger than the limit, cut at the coarsest seam that serves."""
    if sizes[end] - sizes[start] <= limit:
        yield start, end
    elif seam == len(_SEAMS):
        yield from _slices(start, end, sizes, limit)
    else:
        spots = [start, *(m.end() for m in _SEAMS[seam].finditer(text, start, end)), end]
        for left, right in _runs(spots, sizes, limit):
            yield from _shatter(text, left, right, sizes, limit, seam=seam + 1)


def _slices(start: int, end: int, sizes: Sizes, limit: int) -> Iterator[tuple[int, int]]:
    """Cut anywhere; a single character larger than the limit stays whole."""
    while start < end:
        stop = int(np.searchsorted(sizes, sizes[start] + limit, side="right")) - 1
        stop = min(end, max(stop, start + 1))
        yield start, stop
        start = stop


def _runs(spots: Sequence[int], sizes: Sizes, limit: int) -> Iterator[tuple[int, int]]:
    """Neighboring parts joined while they fit the limit, so that a long line does not become words."""
    start = last = spots[0]
    for spot in spots[1:]:
        if last > start and sizes[spot] - sizes[start] > limit:
            yield start, last
            start = last
        last = spot
    if last > start:
        yield start, last


def _trim(text: str) -> str:
    """Without blank lines around it; the first line keeps its indent."""
    return text.rstrip().lstrip("\r\n")
