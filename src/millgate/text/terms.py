"""Terms: what a text is about, as numbers.

A text becomes words, words become Snowball stems of its language, or their first 5 letters if Snowball has none,
and a stem becomes the first 8 bytes of its BLAKE2b digest, so that postings never hold strings. Stopwords have no term.
An identifier (getUserName, get_user_name, os.path, utf-8) is a term as a whole, written in one word, and its parts are
terms too. Scripts without spaces become pairs of signs (see letters.py).
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from itertools import chain, islice
from threading import local

import Stemmer

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
    if text.isalnum():  # as most are
        return _parts(text)
    if "'" in text or "\u2019" in text:
        text = _POSSESSIVE.sub(" ", text)
    pattern = _ASCII if text.isascii() else _ANY
    return list(chain.from_iterable(map(_open, pattern.findall(text))))


def _open(compound: str) -> list[str]:
    """The words of a compound, after the compound as one word if it has several."""
    if compound.isalnum():
        return _parts(compound)
    simple = list(filter(None, compound.replace("_", "-").replace(".", "-").split("-")))
    parts = list(chain.from_iterable(map(_parts, simple)))
    if len(simple) < 2 or len(compound) > LONGEST:
        return parts
    joined = "".join(simple)
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


_stemmer = cache(_Stemmer)


def _first_letters(words: Iterable[str]) -> list[str]:
    return [word if _DIGIT.search(word) else word[:_STEM] for word in words]


def read_words(words: Iterable[str], language: str) -> dict[str, int]:
    """Words -> their terms in one language, 0 for a stopword."""
    distinct = set(words)
    found = dict.fromkeys(distinct & stopwords(language), 0)
    rest = list(distinct.difference(found))
    stems = _stemmer(language).stem(rest)
    known = set(stems)
    terms = dict(zip(known, numbers(known), strict=True))
    found.update(zip(rest, map(terms.__getitem__, stems), strict=True))
    return found


class _Pieces(dict[str, tuple[int, ...]]):
    """What stands between two spaces -> its terms, of pieces that were met before."""

    bytes = 0


# Of each language: most pieces of a text were met before. One that is full gives way to an empty one.
_PIECES: dict[str, _Pieces] = {}
_MOST_BYTES = 12_000_000  # some 40 000 pieces


def read_pieces(pieces: Iterable[str], language: str) -> Mapping[str, tuple[int, ...]]:
    """The terms of pieces, and of others."""
    known = _PIECES.setdefault(language, _Pieces())
    if new := {piece for piece in pieces if piece not in known}:
        flat, sizes = read_new(new, language)
        terms = iter(flat)
        for piece, size in zip(new, sizes, strict=True):
            known[piece] = tuple(filter(None, islice(terms, size)))
            known.bytes += 200 + len(piece) + 44 * size
        if known.bytes > _MOST_BYTES:
            _PIECES[language] = _Pieces()
    return known


def read_new(pieces: Iterable[str], language: str) -> tuple[list[int], list[int]]:
    """The terms of pieces end to end, with 0 for each stopword, and how many each piece has.

    Pieces are read together, which is faster than one by one; lists of lists would keep the garbage collector busy.
    """
    found, sizes = list[str](), list[int]()
    for piece in pieces:
        own = _piece_words(piece)
        found += own
        sizes.append(len(own))
    return list(map(read_words(found, language).__getitem__, found)), sizes


def _piece_words(piece: str) -> list[str]:
    """The words of what stands between two spaces."""
    bare = piece.strip(_EDGES)
    low = bare.lower()
    if bare[1:] == low[1:] or bare.isupper():  # no parts are hidden in its capitals
        # most pieces are one plain word, and need none of the rules for identifiers
        return [low] if low.isalpha() and low.isascii() else words(low)
    return words(bare)


def terms(text: str, language: str = "english") -> list[int]:
    """The terms of a text in reading order, stopwords left out.

    Of several languages, joined by "+", the text's own is taken, and the first if it has none of them.
    """
    return list(chain.from_iterable(word_terms(text, language)))


def word_terms(text: str, language: str = "english") -> list[tuple[int, ...]]:
    """The terms of a text, those of each piece between spaces together; pieces without any are left out."""
    pieces = text.split()
    known = read_pieces(pieces, choose(text, language))
    return [known[piece] for piece in pieces if known[piece]]


def terms_of(texts: Sequence[str], language: str = "english") -> list[tuple[int, ...]]:
    """The terms of many texts, as `terms` gives them; faster than one by one."""
    chosen = choose_all(texts, language)
    split = [text.split() for text in texts]
    met: dict[str, set[str]] = defaultdict(set)
    for name, pieces in zip(chosen, split, strict=True):
        met[name].update(pieces)
    known = {name: read_pieces(pieces, name) for name, pieces in met.items()}
    return [
        tuple(chain.from_iterable(map(known[name].__getitem__, pieces)))
        for name, pieces in zip(chosen, split, strict=True)
    ]


def words_of(text: str, language: str, wanted: Container[int]) -> dict[int, str]:
    """The words of a text whose terms are wanted, by term."""
    found = read_words(words(text), choose(text, language))
    return {term: word for word, term in found.items() if term in wanted}
