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
    block: int


def find_passages(text: str, blocks: Sequence[str]) -> list[Passage]:
    """The passages of a text that stand in the window, in reading order, none inside another."""
    own = _words(text, 0)
    size = shingle_size(len(own))
    seen = [word for number, block in enumerate(blocks) for word in (*_words(block, number), _END)]
    wanted = {_run(own, at, size) for at in range(len(own) - size + 1)}
    places: dict[tuple[str, ...], list[int]] = {}
    for at in range(len(seen) - size + 1):
        if (run := _run(seen, at, size)) in wanted and len(places.get(run, ())) < PLACES:
            places.setdefault(run, []).append(at)
    found, at = [], 0
    while at + size <= len(own):
        known = places.get(_run(own, at, size), ())
        length, there = max(
            ((_equal(own, at, seen, place), place) for place in known), default=(0, 0)
        )
        if length:
            first, last = seen[there], seen[there + length - 1]
            begin, end = own[at].start, own[at + length - 1].end
            found.append(Passage(begin, end, first.block, first.start, last.end))
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


_END = _Word("", 0, 0, 0)  # parts two blocks


def _words(text: str, block: int) -> list[_Word]:
    starts, stops = find_tokens(text)
    places = zip(starts.tolist(), stops.tolist(), strict=True)
    return [_Word(text[start:stop].casefold(), start, stop, block) for start, stop in places]


def _run(words: Sequence[_Word], at: int, size: int) -> tuple[str, ...]:
    return tuple(word.word for word in words[at : at + size])


def _equal(own: Sequence[_Word], at: int, seen: Sequence[_Word], place: int) -> int:
    """How many words are equal from these two positions on."""
    length = 0
    while (
        at + length < len(own)
        and place + length < len(seen)
        and own[at + length].word == seen[place + length].word
    ):
        length += 1
    return length
