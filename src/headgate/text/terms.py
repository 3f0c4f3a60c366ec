"""Terms: what a text is about, as numbers.

A text becomes words (lower case, letters and digits, a possessive 's dropped), words become Snowball
stems, and a stem becomes the first 8 bytes of its BLAKE2b digest, so that postings never hold strings.
Stopwords have no term. Text without spaces between words (CJK) becomes bigrams of its characters.
The language of a text is voted by its stopwords; English unless another clearly wins.
"""

import re
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from itertools import chain

import Stemmer

from headgate.forks import ForkSafeLock
from headgate.text.languages import ENGLISH, STOPWORDS

LANGUAGES = tuple(STOPWORDS)
_VOTERS = frozenset(chain.from_iterable(STOPWORDS.values()))

_WORD = re.compile(r"[a-z0-9]+")
# Scripts without spaces between words: Thai, Lao, Khmer, kana, CJK ideographs, hangul is spaced and is not here.
_DENSE = "\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ANY_WORD = re.compile(rf"[{_DENSE}]+|[^\W_{_DENSE}]+")
_IS_DENSE = re.compile(rf"[{_DENSE}]")
_CACHE = 1_000_000  # pieces remembered per language; beyond it the table starts afresh
_EDGES = '.,;:!?()[]{}"\u201c\u201d*_'  # what around a word changes nothing in it
_LONGEST = 40  # characters; longer pieces (links, text without spaces) are seldom met twice
_ENOUGH = 4  # stopwords of another language that a text must show before it counts as that language


def number(text: str) -> int:
    """A stable 64-bit number for a string: the same on every machine, Python and release. Never 0."""
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) or 1


class Numbers(dict[str, int]):
    """string -> number, remembered while there is room."""

    def __missing__(self, text: str) -> int:
        if len(self) >= _CACHE:
            self.clear()
        self[text] = found = number(text)
        return found


NUMBERS = Numbers()


def words(text: str) -> list[str]:
    """Lower-case words in reading order; runs of CJK characters as overlapping bigrams."""
    low = text.lower().replace("\u2019", "'").replace("'s", " ")
    if low.isascii():
        return _WORD.findall(low)
    found: list[str] = _ANY_WORD.findall(low)
    if not _IS_DENSE.search(low):
        return found
    return [piece for word in found for piece in _pieces(word)]


def _pieces(word: str) -> Iterable[str]:
    if len(word) < 3 or not _IS_DENSE.match(word):
        return (word,)
    return (word[i : i + 2] for i in range(len(word) - 1))


class _Table(dict[str, tuple[int, ...]]):
    """What stands between two spaces -> its terms, in one language, filled as it is met.

    Most pieces of a text have been met before, so a text costs one look-up a piece.
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stops = STOPWORDS[language]
        self._stemmer = Stemmer.Stemmer(language)
        self._lock = ForkSafeLock()  # a Snowball stemmer holds state

    def __missing__(self, piece: str) -> tuple[int, ...]:
        bare = piece.lower().strip(_EDGES)
        found = self[bare] if bare != piece else self._read(piece)
        if len(piece) <= _LONGEST:
            if len(self) >= _CACHE:
                self.clear()
            self[piece] = found
        return found

    def _read(self, piece: str) -> tuple[int, ...]:
        kept = [word for word in words(piece) if word not in self._stops]
        with self._lock:
            return tuple(map(NUMBERS.__getitem__, self._stemmer.stemWords(kept)))


@cache
def _table(language: str) -> _Table:
    return _Table(language)


def terms(text: str, language: str = "english") -> list[int]:
    """The terms of a text in reading order, stopwords left out."""
    return _terms(text.split(), language)


def _terms(pieces: list[str], language: str) -> list[int]:
    return list(chain.from_iterable(map(_table(language).__getitem__, pieces)))


def read(text: str, pieces: list[str]) -> tuple[list[int], str]:
    """The terms of a text, given as a whole and split at spaces, in its own language; and that language."""
    found = _terms(pieces, "english")
    # English prose has 35-50 % stopwords, headings and code 5-20 %: what has many needs no vote
    if 5 * (len(pieces) - len(found)) >= len(pieces):
        return found, "english"
    language = guess(words(text))
    return (found if language == "english" else _terms(pieces, language)), language


def guess(found: list[str]) -> str:
    """The language of these words: English unless another list of stopwords fits clearly better."""
    voters = [word for word in found if word in _VOTERS]
    english = sum(word in ENGLISH for word in voters)
    if len(voters) < max(_ENOUGH, 2 * english):  # nobody can win, which is most of English text
        return "english"
    votes = {name: sum(word in stops for word in voters) for name, stops in STOPWORDS.items()}
    best = max(votes, key=lambda name: votes[name])
    return best if votes[best] >= max(_ENOUGH, 2 * english) else "english"
