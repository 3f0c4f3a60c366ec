"""Passages: the very words that a chunk repeats of the window, and where they stand in both.

A passage is a run of at least as many equal words as the measure of overlap asks for (`text.coverage`), made as long as
it goes. Offsets are in the texts as they are, so that both can be shown with the passage marked.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from millgate.text.coverage import shingle_size
from millgate.text.words import find_tokens

PLACES = 20  # places in the window that are compared for the longest passage


class Passage(NamedTuple):
    """Equal words: where they begin and end in the chunk, in which block of the window, and where there."""

    start: int
    end: int
    block: int
    block_start: int
    block_end: int


class _Word(NamedTuple):
    word: str
    start: int
    end: int


def find_passages(text: str, blocks: Sequence[str]) -> list[Passage]:
    """The passages of a text that stand in the window, in reading order, none inside another."""
    words = _words(text)
    size = shingle_size(len(words))
    read = [_words(block) for block in blocks]
    places = _places(words, read, size)
    found, at = [], 0
    while at + size <= len(words):
        length, block, place = max(
            ((_length(words, at, read[b], p), b, p) for b, p in places.get(_run(words, at, size), ())),
            default=(0, 0, 0),
        )  # fmt: skip
        if length:
            last, there = words[at + length - 1], read[block]
            found.append(
                Passage(words[at].start, last.end, block, there[place].start, there[place + length - 1].end)
            )  # fmt: skip
        at += length or 1
    return found


def mark(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it lies in a span."""
    pieces, at = [], 0
    for start, end in sorted(spans):
        if end > at:
            pieces += [(text[at:start], False), (text[max(at, start) : end], True)]
            at = end
    return [piece for piece in (*pieces, (text[at:], False)) if piece[0]]


def _words(text: str) -> list[_Word]:
    starts, stops = find_tokens(text)
    places = zip(starts.tolist(), stops.tolist(), strict=True)
    return [_Word(text[start:stop].casefold(), start, stop) for start, stop in places]


def _run(words: Sequence[_Word], at: int, size: int) -> tuple[str, ...]:
    return tuple(word.word for word in words[at : at + size])


def _places(
    words: Sequence[_Word], blocks: Sequence[Sequence[_Word]], size: int
) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """For each run of `size` words, the blocks and positions where the window has it."""
    wanted = {_run(words, at, size) for at in range(len(words) - size + 1)}
    found: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for number, block in enumerate(blocks):
        plain = [word.word for word in block]
        for at, run in enumerate(zip(*(plain[n:] for n in range(size)), strict=False)):
            if run in wanted and len(known := found.setdefault(run, [])) < PLACES:
                known.append((number, at))
    return found


def _length(words: Sequence[_Word], at: int, block: Sequence[_Word], place: int) -> int:
    """How many words are equal from these two positions on."""
    length = 0
    while (
        at + length < len(words)
        and place + length < len(block)
        and words[at + length].word == block[place + length].word
    ):
        length += 1
    return length
