"""Excerpt: as much of a chunk as fits a number of tokens, the parts that say most about the question first.

A text is cut into strips at the ends of lines and sentences. A strip that would take more than half of the tokens is
cut again, at commas or spaces, or at nothing where there are none: a long sentence that answers is then shown in part.
The strip that holds most of the question comes first. The next one is that which holds most of what is still missing,
or stands beside a chosen one: an answer often follows the words of its question. Strips are joined in
reading order, with an ellipsis where something is left out.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from millgate.protocols import TokenCounter
from millgate.ranking.question import Question
from millgate.text.cache import Cache
from millgate.text.fence import frame
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.terms import terms_of
from millgate.types import Chunk

GAP = " … "
# no border after an initial, as in "James O. McKinsey"
_BORDER = lazy_compile(r"(?<=[.!?;:…])(?<!\b[^\W\d_]\.)\s+|(?<=[。！？।؟；])|\n+")
_PAUSES = ",،，、"
MIN_CHARS = 40  # a shorter excerpt, of a text that is longer, says nothing
# Characters of a strip at most: the largest of these that takes no more than a part of the tokens.
_LENGTHS = (60, 90, 130, 200, 300, 400)
_PART = 1 / 2
_MOST = 400  # strips that are looked at
_TRIES = 3  # strips that may be too long for the tokens left before the excerpt ends: the next may be shorter
# What a strip is worth, in the weight of the question's terms: of terms that are still missing all, of others REPEATED;
# and for standing behind or before a chosen strip that part of its worth. Eight labeled sets in seven languages, 630
# passages shown in 120 tokens: the words of the answer stand in .83 of the excerpts, without these three in .72.
_REPEATED, _BEHIND, _BEFORE = 0.2, 0.6, 0.5

_Strips = tuple[list[tuple[int, int]], list[tuple[int, ...]]]


def _measure_strips(_: object, found: _Strips) -> int:
    strips, terms = found
    return 300 * len(strips) + 44 * sum(map(len, terms))


# (hash of a text, language, longest strip) -> its strips and their terms, of some 500 chunks: chunks come back request
# after request, and a request takes 3 % more CPU without it.
_STRIPS = Cache[tuple[int, str, int], _Strips](6_000_000, _measure_strips)


def excerpt(chunk: Chunk, question: Question, room: int, count: TokenCounter) -> str:
    """The best strips of a chunk that fit `room` tokens with their framing, in reading order; "" if hardly any do."""
    text = chunk.text
    fitting = _PART * room * len(text) / max(count(text), 1)
    longest = max((length for length in _LENGTHS if length <= fitting), default=_LENGTHS[0])
    strips, read = _read_strips(text, question.language, longest)
    held = [question.asked.intersection(own) for own in read]

    def join_fitting(chosen: Sequence[int]) -> str:
        shown = _join_strips(text, strips, chosen)
        return shown if count(frame(1, chunk.title, shown) + "\n") <= room else ""

    shown = _choose_strips(held, question, join_fitting)
    return shown if len(shown) >= min(MIN_CHARS, len(text.strip())) else ""


def _read_strips(text: str, language: str, longest: int) -> _Strips:
    """The strips of a text and their terms."""
    key = hash(text), language, longest
    found = _STRIPS.get(key)
    if found is None:
        strips = cut(text, longest)[:_MOST]
        found = strips, terms_of([text[begin:end] for begin, end in strips], language)
        _STRIPS.put(key, found)
    return found


def cut(text: str, longest: int = _LENGTHS[-1]) -> list[tuple[int, int]]:
    """Where the strips of a text begin and end, in reading order; white space around them is left out."""
    borders = [0, *(border.end() for border in _BORDER.finditer(text)), len(text)]
    strips = []
    for start, end in pairwise(borders):
        begin = start
        while end - begin > longest:
            parts = -(-(end - begin) // longest)
            middle = _find_pause(text, begin, begin + (end - begin) // parts, longest)
            strips.append((begin, middle))
            begin = middle
        strips.append((begin, end))
    return [bare for begin, end in strips if (bare := _bare(text, begin, end))]


def _find_pause(text: str, begin: int, goal: int, longest: int) -> int:
    """Where to end a strip that should end near `goal`: behind a comma, else at a space, else right there."""
    comma = max(text.rfind(sign, begin + longest // 3, begin + longest) for sign in _PAUSES) + 1
    space = text.rfind(" ", begin + 1, goal + 1)
    return comma or (space if space > begin else goal)


def _bare(text: str, begin: int, end: int) -> tuple[int, int] | None:
    """A strip without the white space around it; None if nothing else is in it."""
    strip = text[begin:end]
    first = begin + len(strip) - len(strip.lstrip())
    last = begin + len(strip.rstrip())
    return (first, last) if first < last else None


def _choose_strips(
    held: Sequence[frozenset[int]],
    question: Question,
    join_fitting: Callable[[Sequence[int]], str],
) -> str:
    """The strips that are most worth showing, joined; `join_fitting` gives "" if strips do not fit together.

    Those that are worth nothing come last, as they stand.
    """
    own = [question.sum(terms) if terms else 0.0 for terms in held]
    gain, near = own.copy(), [0.0] * len(held)  # by terms that are missing, and by strips beside
    missing, left = question.asked, [True] * len(held)
    worthy = {at for at, weight in enumerate(own) if weight}
    chosen, shown, misses = list[int](), "", 0
    while misses < _TRIES and any(left):
        at = max(
            worthy or (left.index(True),),
            key=lambda n: (gain[n] + _REPEATED * own[n] + near[n], -n),
        )
        worthy.discard(at)
        left[at] = False
        longer = join_fitting([*chosen, at])
        if not longer:
            misses += bool(chosen)
            continue
        chosen.append(at)
        shown = longer
        new = held[at] & missing
        missing -= new
        for other in worthy if new else ():
            if not new.isdisjoint(held[other]):
                gain[other] = question.sum(held[other] & missing)
        worth = max(own[at], near[at])
        for beside, part in ((at + 1, _BEHIND), (at - 1, _BEFORE)):
            if worth and 0 <= beside < len(held) and left[beside]:
                near[beside] = max(near[beside], part * worth)
                worthy.add(beside)
    return shown


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
