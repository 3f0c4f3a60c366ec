"""TokenizedBatch: the texts of a batch of chunks as arrays.

A text is split at spaces, and its tokens become ids in the lexicon, which knows the terms of each and how it is
written. Everything else is done for the whole batch at once, in arrays.
"""

from array import array
from collections.abc import Sequence
from functools import cache
from itertools import chain, islice
from threading import Lock

import numpy as np
import numpy.typing as npt

from headgate.forks import call_in_children
from headgate.index.arrays import Bytes, Ints, Keys, join_texts, offsets, ranges
from headgate.index.casing import count_case
from headgate.index.collection_kind import CERTAIN, DECLARED
from headgate.index.lexicon import KeyTable, TokenIds, Tokens, TokenTerms, current_lexicon
from headgate.index.name_spans import find_spans
from headgate.index.posting_list import Counts, PostingList, to_term_ids
from headgate.rank.fields import BODY, IN_BODY, IN_HEAD, IN_TITLE
from headgate.text.languages import LANGUAGES, detect_all
from headgate.text.names import capitalize, names_of
from headgate.text.terms import number, numbers
from headgate.text.turns import TurnParts, part
from headgate.types import Chunk

_AT_ONCE = 1_000  # chunks whose tokens are held in memory together: some 10 MB
_TOKENS = 1 << 18  # tokens whose terms are looked up together, at 40 bytes each
_FEW = 10_000  # tokens that are sorted in the time that counting takes
_NAME_BYTES = 8_000_000  # of names that are remembered from batch to batch ...
_SPANS = 32_000  # ... and capitalized spans, in a table twice as large
_SPAN_BITS = 16
_NAME_FLAGS = np.array([IN_BODY, IN_TITLE, IN_HEAD], np.uint16)
_SAMPLE = 48  # tokens at the beginning of a body that may prove it English
_LANGUAGE = {language: n for n, language in enumerate(LANGUAGES)}


class _NameIds:
    """Capitalized spans and the ids of their names. An id is given out for good, to any number of threads."""

    def __init__(self) -> None:
        self._known = KeyTable(_SPAN_BITS)
        self._ends = array("q", [0])
        self._own = array("i")
        self._ids: dict[str, int] = {}
        self._labels: list[str] = []
        self._keys = array("Q")
        self._size = 0
        self._lock = Lock()

    @property
    def is_full(self) -> bool:
        """Whether a new one should be begun."""
        return self._size >= _NAME_BYTES or len(self._ends) > _SPANS

    def of(self, spans: Tokens) -> tuple[Ints, TokenIds]:
        """How many names each span has, and their ids end to end."""
        keys = spans.keys | np.uint64(1)
        with self._lock:
            found = self._known.find(keys)
        new = np.flatnonzero(found < 0)
        if len(new):
            distinct, first, back = np.unique(keys[new], return_index=True, return_inverse=True)
            found[new] = self._add(spans.strings(new[first]), distinct)[back]
        with self._lock:
            ends = np.array(self._ends)
            counts = ends[found + 1] - ends[found]
            return counts, np.asarray(self._own, np.int32)[ranges(ends[found], counts)]

    def _add(self, spans: list[str], keys: Keys) -> TokenIds:
        names = list(map(names_of, spans))
        with self._lock:
            known, first = self._ids, len(self._ends) - 1
            self._own.extend([known.setdefault(name, len(known)) for own in names for name in own])
            counts = np.fromiter(map(len, names), np.int64, len(names))
            self._ends.frombytes((self._ends[-1] + np.cumsum(counts)).tobytes())
            self._size += 250 * len(spans) + 4 * sum(map(len, spans))
            numbers = np.arange(first, first + len(keys), dtype=np.int32)
            stays = numbers < _SPANS
            self._known.add(keys[stays], numbers[stays])
        return numbers

    def read(self) -> tuple[list[str], Keys]:
        """All names by id, and their numbers."""
        with self._lock:
            self._labels.extend(islice(self._ids, len(self._labels), None))
            self._keys.extend(numbers(self._labels[len(self._keys) :]))
            return self._labels, np.array(self._keys, np.uint64)


_current = _NameIds()


def _begin_anew() -> None:
    global _current  # noqa: PLW0603  (a cache)
    _current = _NameIds()


call_in_children(_begin_anew)


def _forget_many_names() -> None:
    """Start anew if no more names can be remembered."""
    if _current.is_full:
        _begin_anew()


@cache
def _telling_keys() -> Keys:
    """The keys of words that only English has."""
    return Tokens.of(["the of and with that this from was were for The"]).keys


def read_languages(bodies: Sequence[str], tokens: Tokens) -> list[str]:
    """The languages of bodies; one that opens with many words that only English has needs no vote."""
    telling = offsets(np.isin(tokens.keys, _telling_keys()).view(np.uint8))
    begins, sample = offsets(tokens.counts)[BODY:-1:4], np.minimum(tokens.counts[BODY::4], _SAMPLE)
    english = (8 * (telling[begins + sample] - telling[begins]) >= sample).tolist()
    rest = detect_all([body for body, known in zip(bodies, english, strict=True) if not known])
    others = iter(rest)
    return ["english" if known else next(others) for known in english]


def _head(line: TurnParts) -> str:
    return f"{line.date}. {capitalize(line.speaker)}" if line.date or line.speaker else ""


def _distinct(ids: TokenIds) -> tuple[Ints, TokenIds]:
    """The ids that occur, and for each its place among them. A few are sorted: counting takes an array of all."""
    if len(ids) < _FEW:
        used, places = np.unique(ids, return_inverse=True)
        return used.astype(np.int64), places.astype(np.int32)
    met = np.flatnonzero(np.bincount(ids))
    rank = np.zeros(met[-1] + 1, np.int32)
    rank[met] = np.arange(len(met))
    return met, rank[ids]


class TokenizedBatch:
    """What the texts of some chunks say, chunk by chunk."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chars = array("q")
        self.speaker = array("Q")
        self.evidence = array("B")
        self.language = array("B")
        self._lexicon = current_lexicon()
        self._transient: list[TokenTerms] = []
        self._counts = array("q")
        self._known_names = _current
        self._name_ids = array("i")
        self._flags = array("H")
        self._name_counts = array("q")
        read = [self._read(chunks[at : at + _AT_ONCE]) for at in range(0, len(chunks), _AT_ONCE)]
        _forget_many_names()
        tokens = np.concatenate(read) if read else np.zeros(0, np.int32)
        used, self._token_ids = _distinct(tokens)
        known = self._lexicon.read(used, self._transient)
        self._term_counts, self._terms, self._cases = known

    def _read(self, chunks: Sequence[Chunk]) -> TokenIds:
        """Read some chunks into the columns; the ids of their tokens are returned."""
        lines = [part(chunk.text, chunk.metadata) for chunk in chunks]
        self.chars.extend([len(chunk.text) for chunk in chunks])
        self.speaker.extend([number(line.speaker) if line.speaker else 0 for line in lines])
        self.evidence.extend([DECLARED * line.declared | CERTAIN * line.certain for line in lines])
        texts = [
            (chunk.title, line.date, line.speaker, line.body)
            for chunk, line in zip(chunks, lines, strict=True)
        ]
        tokens = Tokens.of(list(chain.from_iterable(texts)))
        languages = read_languages([line.body for line in lines], tokens)
        self.language.extend(map(_LANGUAGE.__getitem__, languages))
        self._counts.frombytes(tokens.counts.tobytes())
        self._read_names(chunks, lines)
        counts = tokens.counts.reshape(-1, 4).sum(1)
        return self._lexicon.ids(tokens, languages, counts, self._transient)

    def _read_names(self, chunks: Sequence[Chunk], lines: Sequence[TurnParts]) -> None:
        texts = [
            text
            for chunk, line in zip(chunks, lines, strict=True)
            for text in (line.body, chunk.title, _head(line))
        ]
        plain = np.fromiter(map(str.isascii, texts), bool, len(texts))
        which, ids = [], []
        for some in (np.flatnonzero(plain), np.flatnonzero(~plain)):
            spans = find_spans([texts[at] for at in some.tolist()])
            counts, own = self._known_names.of(spans)
            which.append(np.repeat(np.repeat(some, spans.counts), counts))
            ids.append(own)
        text = np.concatenate(which)
        order = np.argsort(text, kind="stable")
        text, id = text[order], np.concatenate(ids)[order]
        pairs = (text // 3 << 32) | id
        order = np.argsort(pairs, kind="stable")
        pairs = pairs[order]
        begins = np.flatnonzero(np.diff(pairs, prepend=-1))
        flags = np.bitwise_or.reduceat(_NAME_FLAGS[text % 3][order], begins)
        # by where they stand first
        order = order[begins]
        again = np.argsort(order)
        order = order[again]
        self._name_ids.frombytes(id[order].tobytes())
        self._flags.frombytes(flags[again].tobytes())
        self._name_counts.frombytes(np.bincount(text[order] // 3, minlength=len(chunks)).tobytes())

    def terms(self) -> tuple[Keys, npt.NDArray[np.uint32], Ints]:
        """The vocabulary, the terms of all chunks as ids into it, and how many stand in each field of each chunk."""
        keys, places = to_term_ids(self._terms)
        begins = offsets(self._term_counts)
        parts = [
            places[ranges(begins[some], self._term_counts[some])]
            for at in range(0, len(self._token_ids), _TOKENS)
            for some in (self._token_ids[at : at + _TOKENS],)
        ]
        own = np.concatenate(parts) if parts else places
        ends = offsets(self._term_counts[self._token_ids])[offsets(np.asarray(self._counts))]
        return keys, own, np.diff(ends).reshape(-1, 4)

    def case(self) -> Counts:
        """How the words of the bodies are written."""
        counts = np.asarray(self._counts)
        begins, lengths = offsets(counts)[BODY:-1:4], counts[BODY::4]
        return count_case(self._cases, self._token_ids[ranges(begins, lengths)], lengths)

    def names(self) -> tuple[PostingList, Bytes, Ints]:
        """The posting list of names, and how each reads: one run of bytes and the offsets into it."""
        labels, known = self._known_names.read()
        met = np.asarray(self._name_ids, np.int32)
        used = np.flatnonzero(np.bincount(met, minlength=len(known)))
        keys, first, places = np.unique(known[used], return_index=True, return_inverse=True)
        rank = np.zeros(len(known), np.uint32)
        rank[used] = places
        own = rank[met]
        lengths = np.asarray(self._name_counts)
        chunk = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)
        order = np.argsort(own, kind="stable")
        data, starts = join_texts([labels[id] for id in used[first].tolist()])
        listed = PostingList(
            keys,
            offsets(np.bincount(own, minlength=len(keys))),
            chunk[order],
            np.asarray(self._flags)[order],
            offsets(lengths),
            own,
        )
        return listed, data, starts
