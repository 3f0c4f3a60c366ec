"""Lexicon: the pieces of text that were met before, each under a slot, and what is known of them.

A piece is what stands between two spaces. It is read when it is first met in a language: which terms it has, and how its
word is written. From then on a text costs one look-up a piece, and everything that is counted is counted in arrays.
"""

from array import array
from collections.abc import Mapping

import numpy as np

from headgate.forks import ForkSafeLock
from headgate.index.arrays import Ints, Keys, ranges
from headgate.index.casing import case_of
from headgate.text.terms import piece_terms

_PIECES = 300_000  # remembered; beyond it a new lexicon is begun
_LONGEST = 40  # characters; longer pieces are seldom met twice


class Lexicon:
    """Pieces by slot. Slots are given out for good, so any number of threads may read and add."""

    def __init__(self) -> None:
        self._by_language: dict[str, _Pieces] = {}
        self._terms = array("Q")
        self._ends = array("q", [0])
        self._cases = array("Q")
        self._lock = ForkSafeLock()

    def __len__(self) -> int:
        return len(self._cases)

    def slots(self, language: str) -> Mapping[str, int]:
        """A piece of text in that language -> its slot, for every piece there is."""
        found = self._by_language.get(language)
        if found is None:
            found = self._by_language.setdefault(language, _Pieces(self, language))
        return found

    def add(self, terms: tuple[int, ...], case: int) -> int:
        """The next slot, for a piece with these terms, written so."""
        with self._lock:
            self._terms.extend(terms)
            self._ends.append(len(self._terms))
            self._cases.append(case)
            return len(self._cases) - 1

    def read(self, slots: Ints) -> tuple[Ints, Keys, Keys]:
        """How many terms the pieces at some slots have, these terms end to end, and how the pieces are written."""
        with self._lock:
            ends = np.asarray(self._ends)
            begins, counts = ends[slots], ends[slots + 1] - ends[slots]
            return (
                counts,
                np.asarray(self._terms)[ranges(begins, counts)],
                np.asarray(self._cases)[slots],
            )


class _Pieces(dict[str, int]):
    """A piece of text in one language -> its slot, filled as pieces are met."""

    def __init__(self, lexicon: Lexicon, language: str) -> None:
        super().__init__()
        self._lexicon = lexicon
        self._terms = piece_terms(language)

    def __missing__(self, piece: str) -> int:
        slot = self._lexicon.add(self._terms[piece], case_of(piece))
        if len(piece) <= _LONGEST:
            self[piece] = slot
        return slot


_current = Lexicon()


def current_lexicon() -> Lexicon:
    """The lexicon to read a batch with. A full one lives on in the batches that hold it."""
    global _current  # noqa: PLW0603  (a cache: what two threads make at once is equal)
    if len(_current) >= _PIECES:
        _current = Lexicon()
    return _current
