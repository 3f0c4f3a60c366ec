"""Terms: what a text is about, as numbers.

A text becomes words, words become Snowball stems of its language, or their first 5 letters if Snowball has none,
and a stem becomes the first 8 bytes of its BLAKE2b digest, so that postings never hold strings. Stopwords have no term.
An identifier (getUserName, get_user_name, os.path, utf-8) is a term as a whole, written in one word, and its parts are
terms too. Scripts without spaces become pairs of signs (see letters.py).
"""

import re
from collections.abc import Collection, Container, Iterable, Sequence
from functools import cache
from hashlib import blake2b
from itertools import chain
from sys import getsizeof
from threading import local
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import Stemmer

from millgate.text.cache import Cache
from millgate.text.languages import choose, choose_all
from millgate.text.lazy_pattern import lazy_compile
from millgate.text.letters import UNSPACED, fold, marks, signs
from millgate.text.stopwords import stopwords

# Characters of a word that is taken for a word: longer ones are keys, digests and encoded data.
LONGEST = 40
_EDGES = '.,;:!?()[]{}"\u201c\u201d*_'  # what around a word changes nothing in it
_STEMMED = frozenset(Stemmer.algorithms())
# Letters that stand for a word in a language without a stemmer: endings come behind them. With five, nDCG@10 on
# descriptions of packages rises by .11 in Ukrainian and .09 in Slovak.
_STEM = 5
_POINT = "."
_FEW_PARTS = 4

_EMPTY = blake2b(digest_size=8)
_POSSESSIVE = re.compile(r"['\u2019][sS](?!\w)")
_ASCII = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*+")
_ANY = lazy_compile(lambda: rf"[\w{marks()}]+(?:[.-][\w{marks()}]+)*+")
_SCRIPT = lazy_compile(rf"[{UNSPACED}]+|[^{UNSPACED}]+")
_UNSPACED = lazy_compile(f"[{UNSPACED}]")
_DIGIT = re.compile(r"\d")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def number(text: str) -> int:
    """A stable 64-bit number for a string: the same on every machine, Python and release. Never 0."""
    return numbers((text,))[0]


def numbers(texts: Iterable[str]) -> list[int]:
    """The numbers of many strings; faster than one by one."""
    copy, read = _EMPTY.copy, int.from_bytes  # a copy is faster than a new one
    found = []
    for text in texts:
        hash = copy()
        hash.update(text.encode("utf-8", "replace"))
        found.append(read(hash.digest()) or 1)
    return found


def words(text: str) -> list[str]:
    """Lower-case words in reading order; identifiers whole and in parts, unspaced scripts as pairs of signs."""
    if text.isalnum():
        return _parts(text)
    pattern = _ASCII if text.isascii() else _ANY
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub(" ", text)
    plain = text.isascii() and text.islower()
    found: list[str] = []
    for compound in pattern.findall(text):
        if plain and compound.isalpha():  # as most are
            found.append(compound)
        else:
            found += _open(compound)
    return found


def _open(compound: str) -> list[str]:
    """The words of a compound, after the compound as one word if it has several."""
    if compound.isalnum():
        return _parts(compound)
    simple = list(filter(None, compound.replace("_", "-").replace(".", "-").split("-")))
    joined = "".join(simple)
    plain = joined.isalpha() and joined.isascii() and joined.islower()
    parts = simple if plain else list(chain.from_iterable(map(_parts, simple)))
    if len(simple) < 2 or len(compound) > LONGEST:
        return parts
    # numbers keep a point between them, since 3.11 is not 311
    return [fold(_POINT.join(simple) if joined.isdigit() else joined), *parts]


def _parts(word: str) -> list[str]:
    """A word, followed by the parts of an identifier."""
    if word.islower() and word.isalpha() and word.isascii():
        return [word]
    if not word.isascii():
        low = fold(word)
        if not _UNSPACED.search(low):
            return [low]
        runs = _SCRIPT.findall(low)
        if len(runs) == 1:
            return signs(low)
        return [w for run in runs for w in (signs(run) if _UNSPACED.match(run) else [run])]
    low = word.lower()
    if word.isdigit() or len(word) > LONGEST:
        return [low]
    if word.isalpha() and (word[1:] == low[1:] or word.isupper()):
        return [low]
    parts = _PART.findall(word)
    if len(parts) < 2 or _is_random(word, parts):
        return [low]
    return [low, *(part.lower() for part in parts if len(part) > 1)]


def _is_random(word: str, parts: list[str]) -> bool:
    """Whether a word is a digest or a key rather than an identifier: many parts, of two characters mostly."""
    return len(parts) > _FEW_PARTS and 5 * len(parts) > 2 * len(word)


class _Stemmer(local):
    """Stems words of one language; a Snowball stemmer holds state, so each thread has its own."""

    def __init__(self, language: str) -> None:
        # without a cache of its own (the 0), which costs more than stemming
        self.stem = (
            Stemmer.Stemmer(language, 0).stemWords if language in _STEMMED else _first_letters
        )


def _first_letters(words: Iterable[str]) -> list[str]:
    return [word if _DIGIT.search(word) else word[:_STEM] for word in words]


class Cut(NamedTuple):
    """A word cut in two: the terms of both parts, 0 for one that is too short, and how much of the word the first
    holds.
    """

    first: int
    second: int
    share: float


class _Language:
    """What words and pieces of text mean in one language; a piece is what stands between two spaces."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stops = stopwords(name)
        self._stemmer = _Stemmer(name)

    def read_words(self, words: set[str]) -> dict[str, int]:
        """Words -> their terms, 0 for stopwords."""
        found = dict.fromkeys(words & self._stops, 0)
        rest = [word for word in words if word not in found]
        # signs of East Asia have no stems
        signs = [word for word in rest if "\u3000" < word < "\ue000"]
        found.update(zip(signs, numbers(signs), strict=True))
        rest = [word for word in rest if word not in found] if signs else rest
        stems = self._stemmer.stem(rest)
        distinct = set(stems)
        terms = dict(zip(distinct, numbers(distinct), strict=True))
        found.update(zip(rest, map(terms.__getitem__, stems), strict=True))
        return found

    def read_pieces(self, pieces: Collection[str]) -> dict[str, tuple[int, ...]]:
        """Pieces -> their terms. New ones are read together, which is faster than one by one."""
        distinct = list(set(pieces))
        keys = [(self._name, piece) for piece in distinct]
        return dict(zip(distinct, _PIECES.read(keys, distinct, self._read_new), strict=True))

    def _read_new(self, pieces: list[str]) -> list[tuple[int, ...]]:
        split = [_piece_words(piece) for piece in pieces]
        terms = self.read_words(set(chain.from_iterable(split)))
        return [tuple(filter(None, map(terms.__getitem__, words))) for words in split]


def _measure_piece(key: tuple[str, str], terms: tuple[int, ...]) -> int:
    return getsizeof(key) + getsizeof(key[1]) + getsizeof(terms) + 36 * len(terms)


# (language, piece) -> its terms, some 25 000 of them. Most pieces of a text were met before: without it a request takes
# 5 % more CPU.
_PIECES = Cache[tuple[str, str], tuple[int, ...]](12_000_000, _measure_piece)


def _piece_words(piece: str) -> list[str]:
    """The words of what stands between two spaces."""
    bare = piece.strip(_EDGES)
    low = bare.lower()
    if bare[1:] == low[1:] or bare.isupper():  # no parts are hidden in its capitals
        # most pieces are one plain word, and need none of the rules for identifiers
        return [low] if low.isalpha() and low.isascii() else words(low)
    return words(bare)


@cache
def _language(name: str) -> _Language:
    return _Language(name)


def terms(text: str, language: str = "english") -> list[int]:
    """The terms of a text in reading order, stopwords left out.

    Of several languages, joined by "+", the text's own is taken, and the first if it has none of them.
    """
    return list(chain.from_iterable(_piece_terms(text, language)))


def terms_of(texts: Sequence[str], language: str = "english") -> list[tuple[int, ...]]:
    """The terms of many texts, as `terms` gives them; faster than one by one."""
    chosen = choose_all(texts, language)
    split = [text.split() for text in texts]
    met: dict[str, set[str]] = {}
    for name, pieces in zip(chosen, split, strict=True):
        met.setdefault(name, set()).update(pieces)
    known = {name: _language(name).read_pieces(pieces) for name, pieces in met.items()}
    return [
        tuple(chain.from_iterable(map(known[name].__getitem__, pieces)))
        for name, pieces in zip(chosen, split, strict=True)
    ]


def word_terms(text: str, language: str = "english") -> list[tuple[int, ...]]:
    """The terms of a text, those of each piece between spaces together; pieces without any are left out."""
    return [found for found in _piece_terms(text, language) if found]


def _piece_terms(text: str, language: str) -> list[tuple[int, ...]]:
    pieces = text.split()
    known = _language(choose(text, language)).read_pieces(pieces)
    return [known[piece] for piece in pieces]


def cut_words(
    text: str, language: str, wanted: Container[int], *, least: int
) -> dict[int, list[Cut]]:
    """The words of a text whose terms are wanted, by term, cut wherever a part keeps `least` letters or more."""
    own = _language(choose(text, language))
    return {
        term: _cut(word, own, least)
        for word, term in own.read_words(set(words(text))).items()
        if term in wanted and least < len(word) <= LONGEST and not _DIGIT.search(word)
    }


def _cut(word: str, language: _Language, least: int) -> list[Cut]:
    places = [at for at in range(1, len(word)) if max(at, len(word) - at) >= least]
    parts = {part for at in places for part in (word[:at], word[at:]) if len(part) >= least}
    terms = language.read_words(parts)
    return [Cut(terms.get(word[:at], 0), terms.get(word[at:], 0), at / len(word)) for at in places]


def words_of(text: str, language: str, wanted: Container[int]) -> dict[int, str]:
    """The words of a text whose terms are wanted, by term."""
    found = _language(choose(text, language)).read_words(set(words(text)))
    return {term: word for word, term in found.items() if term in wanted}


def read_words(words: Collection[str], language: str) -> dict[str, int]:
    """Words -> their terms in one language, 0 for a stopword."""
    return _language(language).read_words(set(words))


def correct_words(
    text: str, language: str, wanted: Container[int], *, least: int
) -> dict[int, tuple[int, ...]]:
    """The words of a text whose terms are wanted, by term: the terms of what may have been meant, 0 for a stopword.

    Two letters may be swapped, one doubled, or one of a double left out; the first letter stays.
    """
    own = _language(choose(text, language))
    return {
        term: tuple(own.read_words(_slips(word)).values())
        for word, term in own.read_words(set(words(text))).items()
        if term in wanted and least <= len(word) <= LONGEST and word.isalpha()
    }


def _slips(word: str) -> set[str]:
    """The word with two letters swapped, one doubled, or one of a double left out; never the first letter."""
    places = range(1, len(word))
    swapped = {word[:at] + word[at + 1 :][:1] + word[at] + word[at + 2 :] for at in places}
    doubled = {word[:at] + word[at] + word[at:] for at in places}
    single = {word[:at] + word[at + 1 :] for at in places if word[at] == word[at - 1]}
    return (swapped | doubled | single) - {word}


def read_pieces(pieces: Sequence[str], language: str) -> tuple[npt.NDArray[np.uint64], list[int]]:
    """The terms of many pieces of text, end to end with 0 for each stopword, and how many each piece has.

    For an index, which remembers pieces itself; faster than one by one.
    """
    found: list[str] = []
    sizes = []
    for piece in pieces:
        own = _piece_words(piece)
        found += own  # a list of lists would keep the garbage collector busy
        sizes.append(len(own))
    terms = _language(language).read_words(set(found))
    return np.fromiter(map(terms.__getitem__, found), np.uint64, len(found)), sizes
