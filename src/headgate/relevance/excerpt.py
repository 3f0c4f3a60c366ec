"""Excerpt: as much of a chunk as fits a number of tokens, the parts that say most about the question first.

A text is cut into strips at the ends of lines and sentences, which are read in the language of the question; a strip
that has no such border is cut at spaces, and at nothing where there are none. The strip that holds most of the question
comes first, then those that hold what is still missing, then the strips beside them; they are joined in reading order,
with an ellipsis where something is left out.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from headgate.protocols import TokenCounter
from headgate.relevance.query_terms import Question
from headgate.text.cache import Cache
from headgate.text.fence import frame
from headgate.text.lazy_pattern import lazy_compile
from headgate.text.terms import terms_of
from headgate.types import Chunk

GAP = " … "
_BORDER = lazy_compile(r"(?<=[.!?])\s+|(?<=[。！？।؟])|\n+")
MIN_CHARS = 40  # a shorter excerpt, of a text that is longer, says nothing
_LONGEST = 400  # characters of a strip; longer ones are cut at spaces
_MOST = 400  # strips that are looked at

_Strips = tuple[list[tuple[int, int]], list[tuple[int, ...]]]


def _measure_strips(_: object, found: _Strips) -> int:
    strips, terms = found
    return 300 * len(strips) + 44 * sum(map(len, terms))


# (hash of a text, language) -> its strips and their terms, of some 500 chunks: chunks come back request after request,
# and a request takes 3 % more CPU without it.
_STRIPS = Cache[tuple[int, str], _Strips](6_000_000, _measure_strips)


def excerpt(chunk: Chunk, question: Question, room: int, count: TokenCounter) -> str:
    """The best strips of a chunk that fit `room` tokens with their framing, in reading order; "" if hardly any do."""
    text = chunk.text
    strips, read = _read_strips(text, question.language)
    held = [question.asked.intersection(own) for own in read]
    chosen: list[int] = []
    shown = ""
    for at in _rank_strips(held, question):
        longer = _join_strips(text, strips, [*chosen, at])
        if count(frame(1, chunk.title, longer) + "\n") <= room:
            chosen.append(at)
            shown = longer
        elif chosen:
            break
    return shown if len(shown) >= min(MIN_CHARS, len(text.strip())) else ""


def _read_strips(text: str, language: str) -> _Strips:
    """The strips of a text and their terms."""
    key = hash(text), language
    found = _STRIPS.get(key)
    if found is None:
        strips = cut(text)[:_MOST]
        found = strips, terms_of([text[begin:end] for begin, end in strips], language)
        _STRIPS.put(key, found)
    return found


def cut(text: str) -> list[tuple[int, int]]:
    """Where the strips of a text begin and end, in reading order; white space around them is left out."""
    borders = [0, *(border.end() for border in _BORDER.finditer(text)), len(text)]
    strips = []
    for start, end in pairwise(borders):
        begin = start
        while end - begin > _LONGEST:
            space = text.rfind(" ", begin + 1, begin + _LONGEST)
            middle = space if space > 0 else begin + _LONGEST
            strips.append((begin, middle))
            begin = middle
        strips.append((begin, end))
    return [bare for begin, end in strips if (bare := _bare(text, begin, end))]


def _bare(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """A strip without the white space around it; None if nothing else is in it."""
    strip = text[begin:end]
    first = begin + len(strip) - len(strip.lstrip())
    last = begin + len(strip.rstrip())
    return (first, last) if first < last else None


def _rank_strips(held: Sequence[frozenset[int]], question: Question) -> Iterator[int]:
    """Strips in the order in which they are worth showing: by what is still missing, then by how near they are."""
    missing, order = question.asked, list[int]()
    while True:
        gains = [question.sum(terms & missing) for terms in held]
        most = max(gains, default=0)
        if not most:
            break
        order.append(gains.index(most))
        missing -= held[order[-1]]
        yield order[-1]
    anchors = order or [0]
    beside = sorted(
        range(len(held)),
        key=lambda at: (min((abs(at - a), a > at) for a in anchors), at),
    )
    yield from (at for at in beside if at not in order)


def _join_strips(text: str, strips: Sequence[tuple[int, int]], chosen: Sequence[int]) -> str:
    """The chosen strips in reading order; what lies between neighbors stays, elsewhere an ellipsis stands."""
    shown, last = "", -1
    for at in sorted(chosen):
        begin, end = strips[at]
        if last == at - 1 and last >= 0:
            shown += text[strips[last][1] : begin]
        elif shown or at > 0:
            shown += GAP if shown else GAP.lstrip()
        shown += text[begin:end]
        last = at
    return shown + GAP.rstrip() if chosen and last < len(strips) - 1 else shown
