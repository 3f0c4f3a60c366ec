"""Candidates: which chunks of a large collection are worth ranking for a query, and what was read to find them.

The database hands over lists of postings, one run a term or name. A chunk's doc id is its block's number and its own in
it. The values of one doc id are added up; runs come sorted, so one stable sort merges them.

The candidates of the last questions are kept, with their records and chunks, for all collections of a process together,
while the postings of a collection stay as they are.
"""

from collections.abc import Callable, Collection, Sequence
from functools import cache
from itertools import chain
from sys import getsizeof
from typing import NamedTuple

import numpy as np

from millgate.index.arrays import Ints, Keys
from millgate.index.large.blocks import to_signed
from millgate.protocols import BLOCK_BITS, KeyLists, PostingStore, RecordRows, Totals
from millgate.rank.fields import table
from millgate.rank.lexical import Floats, firsts, idf, saturate
from millgate.text.cache import Cache
from millgate.types import Chunk

_PAIR = 4  # bytes of a posting: its number in the block and its value, 16 bits each
_MOST_COUNTS = 200_000
_BYTES = 32_000_000  # of chunks; twice as many of candidates: those of a hundred questions or more
_OVERHEAD = 200  # bytes of each beside its data


class CandidateRecords(NamedTuple):
    """The chunks that are ranked for a query: the doc id and the id of each, their records, and the bytes of each."""

    doc_ids: list[int]
    ids: list[str]
    records: bytes
    sizes: Ints


def join_rows(found: Sequence[RecordRows]) -> CandidateRecords:
    """The candidates that were read in several steps."""
    doc_ids = np.frombuffer(b"".join([rows.doc_ids for rows in found]), ">i8").tolist()
    ids = [*chain.from_iterable(rows.ids for rows in found)]
    records = b"".join([rows.records for rows in found])
    sizes = np.frombuffer(b"".join([rows.sizes for rows in found]), ">i4")
    return CandidateRecords(doc_ids, ids, records, sizes.astype(np.int64))


def select(found: CandidateRecords, doc_ids: Collection[int]) -> CandidateRecords:
    """The candidates with one of these doc ids."""
    at = [n for n, doc_id in enumerate(found.doc_ids) if doc_id in doc_ids]
    sizes, ends = found.sizes[at], np.cumsum(found.sizes)[at].tolist()
    spans = zip(ends, sizes.tolist(), strict=True)
    records = b"".join([found.records[end - size : end] for end, size in spans])
    return CandidateRecords(
        [found.doc_ids[n] for n in at], [found.ids[n] for n in at], records, sizes
    )


def best_by_words(
    lists: Sequence[KeyLists], chunks: int, most: int, *, near: Sequence[float] = ()
) -> list[int]:
    """The doc ids with the highest sums of idf · n / (n + 1), where a term stands n times; best first.

    `near` are the shares of a sum for doc ids one, two, ... away: turns are added in the order of their conversation.
    """
    worth = idf(chunks, [found.chunks for found in lists])
    doc_ids, scores = _add_up(lists, worth, _saturation())
    if near:
        doc_ids, scores = _spread(*_best(doc_ids, scores, 2 * most), near)
    best: list[int] = _best(doc_ids, scores, most)[0].tolist()
    return best


@cache
def _saturation() -> Floats:
    """The share n / (n + 1) of each packed posting, where n is the count of the term over all fields."""
    times = table(title=1.0, speaker=1.0, date=1.0).astype(np.float64)
    return saturate(times, 1.0, 1.0)


def best_by_names(lists: Sequence[KeyLists], chunks: int, most: int, *, spread: float) -> list[int]:
    """The doc ids with the highest sums of idf / df ** spread over the names that the chunk has; best first."""
    held = np.array([found.chunks for found in lists], np.int64)
    worth = idf(chunks, held) / np.maximum(held, 1) ** spread
    best: list[int] = _best(*_add_up(lists, worth, np.ones(1 << 16)), most)[0].tolist()
    return best


def _add_up(lists: Sequence[KeyLists], worth: Floats, values: Floats) -> tuple[Ints, Floats]:
    """All doc ids and their sums: a posting counts its key's worth times the value of its packed counts."""
    pairs = np.frombuffer(b"".join(found.lists or b"" for found in lists), "<u2").reshape(-1, 2)
    blocks = np.frombuffer(b"".join(found.blocks or b"" for found in lists), ">i4")
    sizes = np.frombuffer(b"".join(found.sizes or b"" for found in lists), ">i4") // _PAIR
    lengths = [len(found.lists or b"") // _PAIR for found in lists]
    doc_ids = np.repeat(blocks.astype(np.int64) << BLOCK_BITS, sizes) + pairs[:, 0]
    return _sum_by_doc_id(doc_ids, values.take(pairs[:, 1]) * np.repeat(worth, lengths))


def _spread(doc_ids: Ints, scores: Floats, near: Sequence[float]) -> tuple[Ints, Floats]:
    """The sums, to which the doc ids around each one add their shares."""
    shares = [*reversed(near), 1.0, *near]
    every = [doc_ids + step for step in range(-len(near), len(near) + 1)]
    return _sum_by_doc_id(np.concatenate(every), np.outer(shares, scores).ravel())


def _sum_by_doc_id(doc_ids: Ints, scores: Floats) -> tuple[Ints, Floats]:
    order = np.argsort(doc_ids, kind="stable")
    doc_ids = doc_ids[order]
    if not len(doc_ids):
        return doc_ids, scores
    begins = np.flatnonzero(firsts(doc_ids))
    return doc_ids[begins], np.add.reduceat(scores[order], begins)


def _best(doc_ids: Ints, scores: Floats, most: int) -> tuple[Ints, Floats]:
    """The doc ids with the highest sums, best first, and their sums."""
    least = np.partition(scores, -most)[-most] if len(scores) > most else 0.0
    # the newest of equals first: chunks that are gone have older doc ids
    stays = np.flatnonzero(scores >= least)[::-1]
    order = stays[np.argsort(-scores[stays], kind="stable")][:most]
    return doc_ids[order], scores[order]


class RecentReads:
    """What was found and read last, each by the version of its collection's postings."""

    def __init__(self) -> None:
        self.candidates: Cache[tuple[object, int], CandidateRecords] = Cache(
            2 * _BYTES, lambda _, found: len(found.records) + _OVERHEAD * len(found.ids)
        )
        self.chunks: Cache[tuple[object, str], Chunk] = Cache(_BYTES, _measure_chunk)


def _measure_chunk(_: object, chunk: Chunk) -> int:
    """The bytes of a chunk, about: a small value of its metadata takes eight times as many as its letters."""
    return getsizeof(chunk.text) + 8 * len(str(chunk.metadata)) + _OVERHEAD


class KnownPostings:
    """The postings of one collection under these totals."""

    def __init__(
        self, store: PostingStore, tenant: str, name: str, totals: Totals, recent: RecentReads
    ) -> None:
        self._store, self._here, self.totals = store, (tenant, name), totals
        self._recent, self._version = recent, object()
        self._counts: dict[int, int] = {}

    def holds_for(self, totals: Totals) -> bool:
        """Whether what is remembered is true under these totals."""
        return self.totals == totals and not self._store.may_lag

    def candidates(self, key: int, pick: Callable[[], CandidateRecords]) -> CandidateRecords:
        """What was picked under this key lately, or is picked now."""
        recent, at = self._recent.candidates, (self._version, key)
        found = recent.get(at)
        if found is None:
            found = pick()
            recent.put(at, found)
        return found

    def lists(
        self, keys: Keys, *, budget: int, least: int = 1, most: int | None = None
    ) -> Sequence[KeyLists]:
        """The lists of the rarest of some keys; how common each of them is is known afterwards."""
        asked = to_signed(keys)
        found = self._store.key_lists(*self._here, asked, budget=budget, least=least, most=most)
        self._counts |= dict.fromkeys(asked, 0) | {one.key: one.chunks for one in found}
        return found

    def records(self, doc_ids: Collection[int]) -> RecordRows:
        """The records of the chunks at these doc ids; those that were removed since are left out."""
        return self._store.records_at(*self._here, sorted(doc_ids))

    def chunks(self, ids: Sequence[str]) -> list[Chunk]:
        """The chunks of these ids, while the store has not gone on since the postings."""
        recent, version = self._recent.chunks, self._version
        known = dict(zip(ids, recent.get_many([(version, id) for id in ids]), strict=True))
        if lacking := [id for id, chunk in known.items() if chunk is None]:
            fresh = {chunk.id: chunk for chunk in self._store.chunks(*self._here, lacking)}
            recent.put_many({(version, id): chunk for id, chunk in fresh.items()})
            known |= fresh
        return [chunk for chunk in known.values() if chunk is not None]

    def count(self, keys: Keys) -> Ints:
        """In how many chunks of the collection each of some keys of the database stands."""
        asked = to_signed(keys)
        if len(self._counts) > _MOST_COUNTS:
            self._counts = {}
        known = self._counts
        if new := [key for key in asked if key not in known]:
            known |= {**dict.fromkeys(new, 0), **self._store.count_keys(*self._here, new)}
        return np.array([known[key] for key in asked], np.int64)
