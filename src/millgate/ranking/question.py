"""Question: a query in the light of a collection, and what a chunk holds of it.

A term's weight is its idf in the collection (score.py), so a term that the collection has never seen has the most.

Words that ask for something and name nothing, such as "explain", "list" and "please", say nothing of what a text must
hold. In a script with spaces, question words are stopwords already. A script without spaces has no stopwords, since its
terms are pairs of signs: there every pair that touches an asking word asks too, the seam to the next word included. Of
纤毛是用来做什么的, "what are cilia for", only 纤毛, cilia, is left.

A word that the collection has never seen is read as what it has of it (`read_query`).
German joins words, and Turkish adds endings that no stemmer takes off, so a fitting question often has words that stand
in no chunk as they are. Of its beginnings and endings that are known, the one or two that hold most of it and do not
overlap stand for such a word, if they hold at least KNOWN_PART of it; what is between them may be unknown.
A word that the query's language has no use for may be one of another language that some chunks are written in, where it
has another stem: then it is read in that one.
An identifier is a term as a whole and in parts: those that are known stand for it. A slip of the fingers (two letters
swapped, one doubled, one of a double left out) is read as the known word.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, pairwise
from string import ascii_lowercase

import numpy as np

from millgate.protocols import Snapshot
from millgate.ranking.score import idf
from millgate.text.languages import choose
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.letters import UNSPACED, fold
from millgate.text.stopwords import SPACED, UNSPACED_REQUESTS
from millgate.text.terms import LONGEST, read_words, terms_of, word_terms, words_of
from millgate.text.terms import terms as terms_in
from millgate.types import MEMORY, Chunk

REQUESTS: dict[str, str] = {
    language: known["request_words"]
    for language, known in SPACED.items()
    if "request_words" in known
}
"""Language -> words that ask; of those written with spaces, the ones most people write."""

_UNSPACED = lazy_compile(f"[{UNSPACED}]")


@dataclass(frozen=True, slots=True)
class Question:
    """A query in the light of a collection: its terms, the weight of each, which are neighbors."""

    term_weight: dict[int, float]  # term -> idf in the collection, the highest for one never seen
    asked: frozenset[int]  # the terms alone
    unseen: frozenset[int]
    pairs: dict[tuple[int, int], float]
    full: float  # the idf of a term never seen
    language: str  # that of the query, as far as the collection's allows

    def sum(self, held: Iterable[int]) -> float:
        """The weight of some of its terms together."""
        return sum(map(self.term_weight.__getitem__, held))

    @property
    def total(self) -> float:
        """The weight of all terms together."""
        return sum(self.term_weight.values()) or 1.0


@dataclass(frozen=True, slots=True)
class Match:
    """What one chunk holds of a question."""

    held: frozenset[int]
    term_weight: float  # of all it holds
    phrase: float  # the weight of the query's neighboring terms that are neighbors in it too


def ask(query: str, words: Snapshot, terms: Sequence[tuple[int, ...]] | None = None) -> Question:
    """The query's terms with their weights here; of words that only ask, those it knows, unless no other is left.

    `terms` are what `read_query` gives for the same query and collection, if the caller has read it already.
    """
    said = list(chain.from_iterable(read_query(query, words) if terms is None else terms))
    found = list(dict.fromkeys(said))
    held = words.frequencies(np.array(found, np.uint64))
    counts = dict(zip(found, held.tolist(), strict=True))
    asking = asking_terms(query, words.language)
    seen = {key: df for key, df in counts.items() if df or key not in asking} or counts
    keys, asked = list(seen), [key for key in said if key in seen]
    *weights, full = idf(words.count, [*seen.values(), 0]).tolist()
    term_weight = dict(zip(keys, weights, strict=True))
    return Question(
        term_weight=term_weight,
        asked=frozenset(keys),
        unseen=frozenset(key for key in keys if not seen[key]),
        pairs={(a, b): term_weight[a] + term_weight[b] for a, b in pairwise(asked) if a != b},
        full=full,
        language=_language_of(query, words, {key for key in keys if seen[key]}),
    )


def _language_of(query: str, words: Snapshot, known: set[int]) -> str:
    """The language that the known terms of a query are read in: another than the query's if it has none of them."""
    own = choose(query, words.language)
    if not known or not known.isdisjoint(terms_in(query, own)):
        return own
    others = words.all_languages.split("+")
    return max((own, *others), key=lambda one: len(known.intersection(terms_in(query, one))))


def match(question: Question, chunks: Sequence[Chunk], language: str) -> list[Match]:
    """What each chunk's title and text hold of the question, and the tags that a remembered fact is found by."""
    texts = [_texts(chunk) for chunk in chunks]
    read = iter(terms_of([text for own in texts for text in own], language))
    found = []
    for own in texts:
        spots, begin = dict[int, int](), 0
        for order in islice(read, len(own)):
            spots |= {at: key for at, key in enumerate(order, begin) if key in question.asked}
            begin += len(order) + 1
        found.append(_match_spots(question, spots))
    return found


def match_known(question: Question, chunks: Sequence[Chunk], words: Snapshot) -> list[Match]:
    """The same, by what the collection knows of its chunks; only others are read."""
    known = words.locate_terms(chunks, np.array([*question.asked], np.uint64))
    others = [chunk for chunk, spots in zip(chunks, known, strict=True) if spots is None]
    read = iter(match_own(question, others, words))
    return [next(read) if spots is None else _match_spots(question, spots) for spots in known]


def match_own(question: Question, chunks: Sequence[Chunk], words: Snapshot) -> list[Match]:
    """What chunks hold of the question, each read in the collection's languages or in its own, where it holds more.

    The language of a short text is easily mistaken, so its own does not count alone.
    """
    found = match(question, chunks, words.language)
    if not chunks or words.language == words.all_languages:
        return found
    own = match(question, chunks, words.all_languages)
    return [max(two, key=lambda one: one.term_weight) for two in zip(found, own, strict=True)]


def _match_spots(question: Question, spots: Mapping[int, int]) -> Match:
    """What a chunk holds, given where its terms stand."""
    held = question.asked.intersection(spots.values())
    near = {(term, spots.get(at + 1)) for at, term in spots.items()}
    phrase = sum(weight for pair, weight in question.pairs.items() if pair in near)
    return Match(held, question.sum(held), phrase)


def _texts(chunk: Chunk) -> list[str]:
    shown = [chunk.text, chunk.title] if chunk.title else [chunk.text]
    tags = chunk.metadata.get("tags") if chunk.source == MEMORY else None
    return [*shown, " ".join(tags)] if tags else shown


def asking_terms(query: str, language: str) -> frozenset[int]:
    """The terms that only ask, in the language of a query; if it has no spaces, those of the query itself."""
    found = _requests(choose(query, language))
    if not _UNSPACED.search(query):
        return found
    named = terms_in(_unspaced_words().sub(" ", fold(query)), language)
    return found | frozenset(terms_in(query, language)).difference(named)


@cache
def _requests(language: str) -> frozenset[int]:
    # a single letter, as in %d or (c), names nothing either
    return frozenset(
        terms_in(f"{REQUESTS.get(language, '')} {' '.join(ascii_lowercase)}", language)
    )


@cache
def _unspaced_words() -> re.Pattern[str]:
    words = chain.from_iterable(map(str.split, UNSPACED_REQUESTS.values()))
    # the longest first, since an alternative that begins another would hide it
    return re.compile("|".join(sorted(map(fold, words), key=len, reverse=True)))


# letters of a part, and how much of the word known parts must hold: nDCG@10 of German .936 -> .944, of Turkish .940 ->
# .947. With parts of 4 letters Turkish has .944; between .5 and .7 of the word nothing changes.
LEAST = 5
KNOWN_PART = 0.6
_MOST = 32  # unseen words of a query that are read otherwise, which bounds the work


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
    written = words_of(query, words.language, unseen)
    read = _in_another_language(query, written, words)
    for correct in (_find_slips, _find_parts):
        left = {key: word for key, word in written.items() if key not in read}
        read |= correct(left, choose(query, words.language), words) if left else {}
    found = (tuple(chain.from_iterable(read.get(key, (key,)) for key in one)) for one in pieces)
    return [one for one in found if one]


def _frequencies(keys: Iterable[int], words: Snapshot) -> dict[int, int]:
    """How many chunks hold each term; stopwords, which are 0, are left out."""
    asked = [key for key in dict.fromkeys(keys) if key]
    counts = words.frequencies(np.array(asked, np.uint64)).tolist() if asked else ()
    return dict(zip(asked, counts, strict=True))


def _in_another_language(
    query: str, written: Mapping[int, str], words: Snapshot
) -> dict[int, tuple[int, ...]]:
    """The unseen terms as the collection knows them in another of its languages: that in which it knows most of them.

    A stopword of that language is read as nothing.
    """
    best: dict[int, tuple[int, ...]] = {}
    own = choose(query, words.language)
    for other in words.all_languages.split("+"):
        if other == own:
            continue
        read = read_words(written.values(), other)
        counts = _frequencies(read.values(), words)
        known = {key: (read[word],) for key, word in written.items() if counts.get(read[word])}
        if len(known) > sum(map(bool, best.values())):
            best = known | {key: () for key, word in written.items() if not read[word]}
    return best


def _find_slips(
    written: Mapping[int, str], language: str, words: Snapshot
) -> dict[int, tuple[int, ...]]:
    """The unseen terms that are a slip, as the commonest known word; as nothing where that is a stopword."""
    slips = {
        key: [*read_words(_slips(word), language).values()]
        for key, word in written.items()
        if LEAST <= len(word) <= LONGEST and word.isalpha()
    }
    counts = _frequencies(chain.from_iterable(slips.values()), words)
    meant = {key: max(found, key=lambda one: counts.get(one, 0)) for key, found in slips.items()}
    return {
        key: (one,) if counts.get(one) else ()
        for key, one in meant.items()
        if counts.get(one) or 0 in slips[key]
    }


def _slips(word: str) -> set[str]:
    """The word with two letters swapped, one doubled, or one of a double left out; never the first letter."""
    places = range(1, len(word))
    swapped = {word[:at] + word[at + 1 :][:1] + word[at] + word[at + 2 :] for at in places}
    doubled = {word[:at] + word[at] + word[at:] for at in places}
    single = {word[:at] + word[at + 1 :] for at in places if word[at] == word[at - 1]}
    return (swapped | doubled | single) - {word}


def _find_parts(
    written: Mapping[int, str], language: str, words: Snapshot
) -> dict[int, tuple[int, ...]]:
    """The known beginning and ending of those unseen terms of which they hold most."""
    best: dict[int, tuple[int, ...]] = {}
    for key, word in written.items():
        if not LEAST < len(word) <= LONGEST or any(map(str.isdigit, word)):
            continue
        ends = range(LEAST, len(word))
        begins = range(1, len(word) - LEAST + 1)
        terms = read_words({*(word[:at] for at in ends), *(word[at:] for at in begins)}, language)
        known = {key for key, count in _frequencies(terms.values(), words).items() if count}
        firsts = [(0, 0), *((at, terms[word[:at]]) for at in ends)]
        lasts = [(len(word), 0), *((at, terms[word[at:]]) for at in begins)]
        pairs = [
            (len(word) - begin + end, min(end, len(word) - begin), first, last)
            for end, first in firsts
            if first in known or not end
            for begin, last in lasts
            if (last in known or begin == len(word)) and end <= begin
        ]
        # of two pairs that hold alike, the more even one
        held, _, first, last = max(pairs, key=lambda pair: pair[:2])
        if held >= KNOWN_PART * len(word):
            best[key] = tuple(filter(None, (first, last)))
    return best
