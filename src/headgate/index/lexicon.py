"""Lexicon: the tokens of text that were met before, each under an id, and what is known of them.

A token is what stands between two spaces. It is read when it is first met in a language: which terms it has, and how
its word is written. From then on it is known by a hash, and everything is found and counted in arrays.
A token that will hardly come back, such as a long number, is held by the batch that has it alone. A full lexicon gives
way to a new one, which takes over from it what is met again: so memory stays bounded, and the words in use stay known.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import randbits
from threading import Lock

import numpy as np
import numpy.typing as npt

from headgate.forks import call_in_children
from headgate.index.arrays import Ints, Keys, cut_texts, ranges
from headgate.index.casing import cases_of
from headgate.text.hashes import hash_slices
from headgate.text.terms import LONGEST, numbers, read_pieces

TokenIds = npt.NDArray[np.int32]

_TOKENS = 110_000  # met before a new lexicon is begun; with the former one 14 MB ...
_TERMS = 400_000  # ... or terms: a token of a text without spaces has hundreds
_MOST = 4 * _TOKENS // 3  # tokens that it holds: one batch may bring very many ...
_BITS = 18  # ... in a table more than twice as large
_BYTES = 100_000  # of new tokens that are read together: some 10 MB
_DIGITS = 6  # of a number that is remembered; longer ones are ids and times
_LONG = 4 * LONGEST  # bytes; a longer token is seldom met twice
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
        return cls.between(raw, begins, ends, np.diff(begins.searchsorted(stops), prepend=0))

    @classmethod
    def between(cls, raw: bytes, begins: Ints, ends: Ints, counts: Ints) -> "Tokens":
        """What stands between some places, and how many of them are in each text."""
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
    """Keys, none of them 0, and a number for each. For one thread at a time."""

    def __init__(self, bits: int) -> None:
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


def _join(parts: Sequence[TokenTerms]) -> TokenTerms:
    counts, terms, cases = zip(*parts, strict=True)
    return np.concatenate(counts), np.concatenate(terms), np.concatenate(cases)


class Lexicon:
    """Tokens by id. An id is given out for good, so any number of threads may read and add."""

    def __init__(self, former: "Lexicon | None" = None) -> None:
        self.former = former
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

    def find(self, keys: Keys) -> TokenIds:
        """The ids of tokens that are known by their keys, -1 for others."""
        with self._lock:
            return self._known.find(keys)

    def ids(
        self, tokens: Tokens, languages: Sequence[str], counts: Ints, transient: list[TokenTerms]
    ) -> TokenIds:
        """The ids of all tokens of texts, given their languages and how many tokens each has.

        Tokens that were not met before are read together. Those that will hardly come back go to `transient`, under the
        ids from _MOST on.
        """
        met = {name: n for n, name in enumerate(dict.fromkeys(languages))}
        which = np.repeat(np.array([met[name] for name in languages], np.int8), counts)
        keys = tokens.keys ^ np.array(numbers(met), np.uint64)[which]
        keys |= np.uint64(1)  # the table has 0 for nothing
        ids = self.find(keys)
        new = np.flatnonzero(ids < 0)
        if len(new):
            distinct, first, back = np.unique(keys[new], return_index=True, return_inverse=True)
            found, at = np.empty(len(distinct), np.int32), new[first]
            sizes = tokens.ends[at] - tokens.begins[at]
            for language, n in met.items():
                own = np.flatnonzero(which[at] == n)
                cuts = np.flatnonzero(np.diff(np.cumsum(sizes[own]) // _BYTES)) + 1
                for some in np.split(own, cuts):
                    new_ones = language, tokens.strings(at[some]), distinct[some]
                    found[some] = self._add(*new_ones, transient)
            ids[new] = found[back]
        return ids

    def read(self, ids: Ints, transient: Sequence[TokenTerms] = ()) -> TokenTerms:
        """What is known of the tokens at some ids, and after them of all transient ones."""
        own = ids[ids < _MOST]
        with self._lock:
            ends = np.asarray(self._ends)
            begins, counts = ends[own], ends[own + 1] - ends[own]
            terms = np.asarray(self._terms)[ranges(begins, counts)]
            held = counts, terms, np.asarray(self._cases)[own]
        return _join([held, *transient])

    def _add(
        self, language: str, tokens: list[str], keys: Keys, transient: list[TokenTerms]
    ) -> TokenIds:
        """Give ids to new tokens; those that may occur again are remembered until the lexicon is full."""
        former = self.former
        held = (former.find(keys) if former else np.full(len(keys), -1)).astype(np.int64)
        again, fresh = np.flatnonzero(held >= 0), np.flatnonzero(held < 0)
        if len(again):
            tokens = [tokens[at] for at in fresh.tolist()]
        parts = [_read(tokens, language)]
        if former and len(again):
            parts.append(former.read(held[again]))
        counts, terms, cases = _join(parts)
        stays = np.ones(len(keys), bool)
        stays[: len(tokens)] = np.fromiter(map(_may_return, tokens), bool, len(tokens))
        order = np.concatenate([fresh, again])
        found = np.empty(len(keys), np.int32)
        with self._lock:
            first = len(self._cases)
            stays &= np.cumsum(stays) <= _MOST - first
            of_terms, own = np.repeat(stays, counts), order[stays]
            self._ends.frombytes((len(self._terms) + np.cumsum(counts[stays])).tobytes())
            self._terms.frombytes(terms[of_terms].tobytes())
            self._cases.frombytes(cases[stays].tobytes())
            found[own] = np.arange(first, first + len(own), dtype=np.int32)
            self._known.add(keys[own], found[own])
        others, begin = order[~stays], _MOST + sum(len(some) for some, _, _ in transient)
        transient.append((counts[~stays], terms[~of_terms], cases[~stays]))
        found[others] = np.arange(begin, begin + len(others))
        return found


def _may_return(token: str) -> bool:
    """Whether a token may well be met again: it is neither long nor a long number."""
    return len(token) <= LONGEST and not (len(token) > _DIGITS and token.isdigit())


def _read(tokens: list[str], language: str) -> TokenTerms:
    """What `Lexicon.read` returns for tokens, made from the tokens themselves."""
    terms, sizes = read_pieces(tokens, language)
    has_term = terms > 0  # stopwords have none
    counts = np.bincount(np.repeat(np.arange(len(tokens)), sizes)[has_term], minlength=len(tokens))
    return counts, terms[has_term], cases_of(tokens)


_current = Lexicon()


def _begin_anew() -> None:
    global _current  # noqa: PLW0603  (a cache)
    _current = Lexicon()


call_in_children(_begin_anew)


def current_lexicon() -> Lexicon:
    """The lexicon to read a batch with. A full one lives on in the batches that hold it, and in the one after it."""
    global _current  # noqa: PLW0603  (a cache: what two threads make at once is equal)
    full = _current
    if full.is_full:
        _current = Lexicon(former=full)
        full.former = None
    return _current
