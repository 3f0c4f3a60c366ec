"""Reading: a query in the words of a collection; a word that it has never seen, read as what it has of it.

German joins words, and Turkish adds endings that no stemmer takes off, so a fitting question often has words that stand
in no chunk as they are. Of its beginnings and endings that are known, the one or two that hold most of it and do not
overlap stand for such a word, if they hold at least SHARE of it; what is between them may be unknown.
A word that the query's language has no use for may be one of another language that some chunks are written in, where it
has another stem: then it is read in that one.
An identifier is a term as a whole and in parts: those that are known stand for it. A slip of the fingers (two letters
swapped, one doubled, one of a double left out) is read as the known word.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, islice

import numpy as np

from millgate.protocols import Snapshot
from millgate.text.languages import choose
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.letters import UNSPACED
from millgate.text.terms import Cut, correct_words, cut_words, read_words, word_terms, words_of

# letters of a part, and how much of the word known parts must hold: nDCG@10 of German .936 -> .944, of Turkish .940 ->
# .947. With parts of 4 letters Turkish has .944; between .5 and .7 of the word nothing changes.
LEAST = 5
SHARE = 0.6
_MOST = 32  # unseen words of a query that are read otherwise, which bounds the work
_UNSPACED = lazy_compile(f"[{UNSPACED}]")


def read_query(query: str, words: Snapshot) -> list[tuple[int, ...]]:
    """The terms of a query, those of each piece between spaces together; an unseen word as what is known of it."""
    pieces = word_terms(query, words.language)
    counts = _frequencies(chain.from_iterable(pieces), words)
    unseen = frozenset(islice((key for key, count in counts.items() if not count), _MOST))
    if not unseen:
        return pieces
    # where words have no spaces, the terms of a piece are pairs of signs, of which each counts
    if _UNSPACED.search(query) is None:
        pieces = [tuple(key for key in piece if key not in unseen) or piece for piece in pieces]
        unseen = unseen.intersection(chain.from_iterable(pieces))
    read = _in_another_language(query, unseen, words)
    read |= _correct(query, unseen - read.keys(), words)
    read |= _parts(query, unseen - read.keys(), words)
    found = (tuple(chain.from_iterable(read.get(key, (key,)) for key in one)) for one in pieces)
    return [one for one in found if one]


def _frequencies(keys: Iterable[int], words: Snapshot) -> dict[int, int]:
    """How many chunks hold each term; terms in none are left out."""
    asked = [key for key in dict.fromkeys(keys) if key]
    counts = words.frequencies(np.array(asked, np.uint64)).tolist() if asked else ()
    return dict(zip(asked, counts, strict=True))


def _in_another_language(
    query: str, unseen: Collection[int], words: Snapshot
) -> dict[int, tuple[int, ...]]:
    """The unseen terms as the collection knows them in another of its languages: that in which it knows most of them.

    A stopword of that language is read as nothing.
    """
    own, *others = choose(query, words.language), *words.all_languages.split("+")
    written = words_of(query, words.language, unseen) if {*others} - {own} else {}
    best: dict[int, tuple[int, ...]] = {}
    for other in others if written else ():
        read = read_words(written.values(), other)
        counts = _frequencies(read.values(), words)
        known = {key: (read[word],) for key, word in written.items() if counts.get(read[word])}
        if len(known) > sum(map(bool, best.values())):
            best = known | {key: () for key, word in written.items() if not read[word]}
    return best


def _correct(query: str, unseen: Collection[int], words: Snapshot) -> dict[int, tuple[int, ...]]:
    """The unseen terms that are a slip, as the commonest known word; as nothing where that is a stopword."""
    slips = correct_words(query, words.language, unseen, least=LEAST) if unseen else {}
    counts = _frequencies(chain.from_iterable(slips.values()), words)
    meant = {key: max(found, key=lambda one: counts.get(one, 0)) for key, found in slips.items()}
    return {
        key: (one,) if counts.get(one) else ()
        for key, one in meant.items()
        if counts.get(one) or 0 in slips[key]
    }


def _parts(query: str, unseen: Collection[int], words: Snapshot) -> dict[int, tuple[int, ...]]:
    """The parts of those unseen terms that consist of known ones."""
    cuts = cut_words(query, words.language, unseen, least=LEAST) if unseen else {}
    every = chain.from_iterable(
        chain.from_iterable(cut[:2] for cut in found) for found in cuts.values()
    )
    known = _frequencies(every, words)
    best = {key: _join_parts(found, known) for key, found in cuts.items()}
    return {key: parts for key, (share, parts) in best.items() if share >= SHARE}


def _join_parts(cuts: Sequence[Cut], known: Mapping[int, int]) -> tuple[float, tuple[int, ...]]:
    """How much of a word its known beginning and ending hold at most, and which they are; of two pairs that hold alike,
    the more even one.
    """
    begins = [(0.0, 0), *((cut.share, cut.first) for cut in cuts if known.get(cut.first))]
    ends = [(1.0, 0), *((cut.share, cut.second) for cut in cuts if known.get(cut.second))]
    pairs = (
        (1 - end + begin, begin, end, a, b)
        for begin, a in begins
        for end, b in ends
        if begin <= end
    )
    share, _, _, first, second = max(pairs, key=lambda pair: (pair[0], min(pair[1], 1 - pair[2])))
    return share, tuple(filter(None, (first, second)))
