"""Lexicon: the pieces of text that were met before, each under a slot, and what is known of them.

A piece is what stands between two spaces. It is read when it is first met in a language: which terms it has, and how
its word is written. From then on a text costs one look-up a piece, and everything that is counted is counted in arrays.
A full lexicon gives way to a new one, which takes over from it what is met again: so memory stays bounded, and the
words in use stay known.
"""

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, compress, count, repeat

import numpy as np
import numpy.typing as npt

from headgate.forks import ForkSafeLock, renew_in_children
from headgate.index.arrays import Ints, Keys, ranges
from headgate.index.casing import cases_of
from headgate.text.memo import may_return
from headgate.text.terms import read_pieces

Slots = npt.NDArray[np.int32]

_PIECES = 75_000  # met before a new lexicon is begun; with the former one 30 MB ...
_TERMS = 400_000  # ... or terms: a piece of a text without spaces has hundreds


class Lexicon:
    """Pieces by slot. Slots are given out for good, so any number of threads may read and add."""

    def __init__(self, former: "Lexicon | None" = None) -> None:
        self.former = former
        self._by_language: dict[str, dict[str, int]] = {}
        self._terms = array("Q")
        self._ends = array("q", [0])
        self._cases = array("Q")
        self._lock = ForkSafeLock()
        renew_in_children(self)

    def renew(self) -> None:
        """In a forked child let go of pieces that another thread was adding: the last thing it adds is how they are
        written.
        """
        del self._ends[len(self._cases) + 1 :]
        del self._terms[self._ends[-1] :]

    def __len__(self) -> int:
        return len(self._cases)

    @property
    def is_full(self) -> bool:
        """Whether a new one should be begun."""
        return len(self) >= _PIECES or len(self._terms) >= _TERMS

    def remembered(self, language: str) -> Mapping[str, int]:
        """The pieces that are known in a language, and their slots."""
        return self._by_language.get(language, {})

    def slots(self, language: str, texts: Sequence[Sequence[str]]) -> Slots:
        """The slots of all pieces of texts in a language; those that were not met before are read together."""
        known = self._by_language.setdefault(language, {})
        pieces = chain.from_iterable(texts)  # which may be millions
        slots = np.fromiter(map(known.get, pieces, repeat(-1)), np.int32, sum(map(len, texts)))
        new = slots < 0
        if new.any():
            found = self._add(language, set(compress(chain.from_iterable(texts), new.tobytes())))
            unknown = compress(chain.from_iterable(texts), new.tobytes())
            slots[new] = np.fromiter(map(found.__getitem__, unknown), np.int32)
        return slots

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

    def _add(self, language: str, pieces: set[str]) -> dict[str, int]:
        former = self.former
        old = former.remembered(language) if former else {}
        again = list(pieces & old.keys())
        pieces.difference_update(again)
        fresh = list(pieces)
        pieces.clear()  # there may be very many
        parts = [_read(fresh, language)]
        if former and again:
            held = np.fromiter(map(old.__getitem__, again), np.int64, len(again))
            parts.append(former.read(held))
        counts, terms, cases = (np.concatenate(part) for part in zip(*parts, strict=True))
        with self._lock:
            first = len(self._cases)
            self._ends.frombytes((len(self._terms) + np.cumsum(counts)).tobytes())
            self._terms.frombytes(terms.tobytes())
            self._cases.frombytes(cases.tobytes())
        slots = dict(zip(chain(fresh, again), count(first)))
        last = 4 * _PIECES // 3  # one batch may bring very many
        known = {p: slot for p, slot in slots.items() if slot < last and may_return(p)}
        self._by_language[language].update(known)
        return slots


def _read(pieces: list[str], language: str) -> tuple[Ints, Keys, Keys]:
    """What `Lexicon.read` says of pieces, from the pieces themselves."""
    terms, sizes = read_pieces(pieces, language)
    said = terms > 0  # stopwords have no term
    counts = np.bincount(np.repeat(np.arange(len(pieces)), sizes)[said], minlength=len(pieces))
    return counts, terms[said], cases_of(pieces)


_current = Lexicon()


def current_lexicon() -> Lexicon:
    """The lexicon to read a batch with. A full one lives on in the batches that hold it, and in the one after it."""
    global _current  # noqa: PLW0603  (a cache: what two threads make at once is equal)
    full = _current
    if full.is_full:
        _current = Lexicon(former=full)
        full.former = None
    return _current
