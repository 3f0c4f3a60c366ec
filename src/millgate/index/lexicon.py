"""Lexicon: the tokens of text that were met before, each under an id, and what is known of them.

A token is what stands between two spaces. It is read when it is first met in a language: which terms it has, and how
its word is written. From then on it is known by a hash, and everything is found and counted in arrays: with a dict of
strings in place of `Tokens` and `KeyTable`, reading a chunk of English text took 214 µs of CPU instead of 185.
A full lexicon gives way to an empty one, so memory stays bounded.
"""

import os
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import randbits
from threading import Lock

import numpy as np
import numpy.typing as npt

from millgate.index.arrays import Ints, Keys, cut_texts, ranges
from millgate.index.casing import cases_of
from millgate.text.hashes import hash_slices
from millgate.text.terms import LONGEST, numbers, read_pieces

TokenIds = npt.NDArray[np.int32]

_TOKENS = 220_000  # met before an empty lexicon is begun: 10 MB with a term each ...
_TERMS = 800_000  # ... or terms, 6 MB: a token of a text without spaces has hundreds
_BITS = 15  # of a table at first: a lexicon of some thousand tokens takes 400 KB
_LONG = 4 * LONGEST  # bytes; longer tokens are hashed one by one
_RARE_SPACES = [chr(code) for code in range(0x80, 0x3001) if chr(code).isspace()]
_INSIDE = bytes(byte >= 0x80 or not chr(byte).isspace() for byte in range(256))  # a token
# random in each process, so that no text can be written to collide on purpose
_SEED, _TIMES = np.uint64(randbits(64)), np.uint64(randbits(64) | 1)


@dataclass(frozen=True, slots=True, eq=False)
class Tokens:
    """The tokens of some texts, without a string for each: where it lies in the bytes and its key, and how many each
    text has.
    """

    raw: bytes
    begins: Ints
    ends: Ints
    keys: Keys
    counts: Ints

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Tokens":
        """Cut texts as `str.split` does."""
        parts = [_encode(text) if text else b"" for text in texts]
        raw = b"\n".join(parts)
        inside = np.zeros(len(raw) + 2, bool)
        inside[1:-1] = np.frombuffer(raw.translate(_INSIDE), bool)
        edges = np.flatnonzero(inside[1:] != inside[:-1])
        stops = np.cumsum([len(part) + 1 for part in parts], dtype=np.int64)
        begins, ends = edges[::2], edges[1::2]
        counts = np.diff(begins.searchsorted(stops), prepend=0)
        return cls(raw, begins, ends, _hash(raw, begins, ends), counts)

    def strings(self, which: Ints) -> list[str]:
        """Some of the tokens as they stand."""
        return cut_texts(np.frombuffer(self.raw, np.uint8), self.begins[which], self.ends[which])


def _encode(text: str) -> bytes:
    for space in () if text.isascii() else _RARE_SPACES:
        text = text.replace(space, " ")
    return text.encode("utf-8", "surrogatepass")


def _hash(raw: bytes, begins: Ints, ends: Ints) -> Keys:
    lengths = ends - begins
    long = np.flatnonzero(lengths > _LONG)
    keys = hash_slices(raw, begins, np.minimum(lengths, _LONG), seed=_SEED, times=_TIMES)
    if len(long):
        spans = zip(begins[long].tolist(), ends[long].tolist(), strict=True)
        keys[long] = np.fromiter((hash(raw[a:b]) for a, b in spans), np.int64).view(np.uint64)
    return keys


class KeyTable:
    """Keys, none of them 0, and a number for each, in a table that grows. For one thread at a time."""

    def __init__(self, bits: int) -> None:
        self._count = 0
        self._allot(bits)

    def _allot(self, bits: int) -> None:
        self._keys = np.zeros(1 << bits, np.uint64)
        self._numbers = np.zeros(1 << bits, np.int32)
        self._shift, self._last = np.uint64(64 - bits), (1 << bits) - 1

    def find(self, keys: Keys) -> TokenIds:
        """The number of each key, -1 if it has none."""
        found = np.full(len(keys), -1, np.int32)
        at, left = (keys >> self._shift).astype(np.int64), np.arange(len(keys))
        while len(keys):
            held = self._keys[at]
            hit = np.flatnonzero(held == keys)
            found[left[hit]] = self._numbers[at[hit]]
            other = np.flatnonzero((held != keys) & (held != 0))
            keys, left, at = keys[other], left[other], (at[other] + 1) & self._last
        return found

    def add(self, keys: Keys, numbers: TokenIds) -> None:
        """Add keys; one that is there keeps its number."""
        self._count += len(keys)
        if 2 * self._count > len(self._keys):  # a fuller table is slow to search
            held = np.flatnonzero(self._keys)
            former = self._keys[held], self._numbers[held]
            self._allot((2 * self._count).bit_length())
            self._put(*former)
        self._put(keys, numbers)

    def _put(self, keys: Keys, numbers: TokenIds) -> None:
        at = (keys >> self._shift).astype(np.int64)
        while len(keys):
            free = np.flatnonzero(self._keys[at] == 0)
            # a key comes last: one that is there has its number
            self._numbers[at[free]] = numbers[free]
            self._keys[at[free]] = keys[free]
            other = np.flatnonzero(self._keys[at] != keys)
            keys, numbers, at = keys[other], numbers[other], (at[other] + 1) & self._last


TokenTerms = tuple[Ints, Keys, Keys]
"""How many terms some tokens have, these terms end to end, and how the tokens are written."""


class Lexicon:
    """Tokens by id. An id is given out for good, so any number of threads may read and add."""

    def __init__(self) -> None:
        self._known = KeyTable(_BITS)
        self._terms = array("Q")
        self._ends = array("q", [0])
        self._cases = array("Q")
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._cases)

    @property
    def is_full(self) -> bool:
        """Whether a new one should be begun."""
        return len(self) >= _TOKENS or len(self._terms) >= _TERMS

    def ids(self, tokens: Tokens, languages: Sequence[str], counts: Ints) -> TokenIds:
        """The ids of all tokens of texts, given their languages and how many tokens each has.

        Tokens that were not met before are read, those of one language together.
        """
        met = {name: n for n, name in enumerate(dict.fromkeys(languages))}
        which = np.repeat(np.array([met[name] for name in languages], np.int8), counts)
        keys = tokens.keys ^ np.array(numbers(met), np.uint64)[which]
        keys |= np.uint64(1)  # the table has 0 for nothing
        with self._lock:
            ids = self._known.find(keys)
        new = np.flatnonzero(ids < 0)
        if len(new):
            distinct, first, back = np.unique(keys[new], return_index=True, return_inverse=True)
            found, at = np.empty(len(distinct), np.int32), new[first]
            for language, n in met.items():
                own = np.flatnonzero(which[at] == n)
                found[own] = self._add(language, tokens.strings(at[own]), distinct[own])
            ids[new] = found[back]
        return ids

    def read(self, ids: npt.NDArray[np.integer]) -> TokenTerms:
        """What is known of the tokens with some ids."""
        with self._lock:
            return self._copy(ids)

    def _copy(self, ids: npt.NDArray[np.integer]) -> TokenTerms:
        # a function of its own: as long as one of its arrays lives, the columns cannot grow
        ends = np.asarray(self._ends)
        begins, counts = ends[ids], ends[ids + 1] - ends[ids]
        terms = np.asarray(self._terms)[ranges(begins, counts)]
        return counts, terms, np.asarray(self._cases)[ids]

    def _add(self, language: str, tokens: list[str], keys: Keys) -> TokenIds:
        """Read new tokens and give them ids."""
        terms, sizes = read_pieces(tokens, language)
        has_term = terms > 0  # stopwords have none
        owner = np.repeat(np.arange(len(tokens)), sizes)[has_term]
        counts, cases = np.bincount(owner, minlength=len(tokens)), cases_of(tokens)
        with self._lock:
            first = len(self._cases)
            self._ends.frombytes((len(self._terms) + np.cumsum(counts)).tobytes())
            self._terms.frombytes(terms[has_term].tobytes())
            self._cases.frombytes(cases.tobytes())
            ids = np.arange(first, first + len(tokens), dtype=np.int32)
            self._known.add(keys, ids)
        return ids


_current = Lexicon()


def _begin_anew() -> None:
    global _current  # noqa: PLW0603  (a cache)
    _current = Lexicon()


if hasattr(
    os, "register_at_fork"
):  # a child must not wait for a lock of its parent; Windows has no fork
    os.register_at_fork(after_in_child=_begin_anew)


def current_lexicon() -> Lexicon:
    """The lexicon to read a batch with: an empty one if the last one is full."""
    if _current.is_full:
        _begin_anew()  # what two threads make at once is equal
    return _current
