"""NarrowedCollection: a collection too large for a process, searched in the database first.

The store keeps its postings in blocks of a few thousand chunks (blocks.py). The candidates of a query are

    by words     the best by  sum over its rarest terms of  idf · n / (n + 1)
    by vectors   those nearest to its embedding, if there is one and the store searches vectors
    by names     those that share a rare name with the best of them

and the usual ranking runs over all of these. Blocks follow the change feed; the process that holds the
lease writes the next one. When half of a block has gone, the rest moves to the newest block.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from millgate.errors import ConfigError, NotReady, StoreError
from millgate.index.arrays import Keys
from millgate.index.large.blocks import make_block
from millgate.index.large.candidate_snapshot import CandidateSnapshot, NearestCandidates
from millgate.index.large.candidates import (
    CandidateRecords,
    KnownPostings,
    RecentReads,
    best_by_names,
    best_by_words,
    join_rows,
    select,
)
from millgate.index.large.records import NAME_KEYS, PLACE, ChunkIndexRecords
from millgate.index.snapshot import Fetch, SegmentSnapshot
from millgate.index.vectors import EmbeddingCache
from millgate.protocols import Embedder, PostingStore, Totals
from millgate.rank.lexical import Weighing, distinct, idf, lexical
from millgate.rank.top import top
from millgate.relevance.query_rewrite import read_query
from millgate.text.terms import word_terms
from millgate.types import Change

WORDS = 100  # candidates by words: twice as many cost 2 ms of CPU and find no more evidence ...
TURNS = 300  # ... but in conversations, where two thirds of them lose .013 of it
NAMES = 100  # candidates by names
NEAREST = 300  # candidates by vectors: as many as a ranking looks at
_POSTINGS = 15_000  # postings read for the words of a query, those of its rarest first: half of them lose .003
_NAME_POSTINGS = 5_000  # ... and for names
_NAME_CHUNKS = 500  # chunks beyond which a name leads nowhere, as in the ranking
_LEADING = 40  # best candidates by words, and by vectors, among which ...
_SEEDS = 12  # ... the best candidates whose names are followed: a few more than the ranking's
_SPREAD = 0.7  # a name in df chunks gives each of them 1 / df to this power, as in the ranking
# conversations: the shares of a turn's score for those beside it, as in the ranking
_NEAR = (0.5, 0.3)
_BATCH = 20_000  # changes that make a block: fewer blocks are read faster, larger ones take longer to make
_PAUSE_S = 0.02  # until a process that waits for another's block looks again
_SWEPT = 500  # chunks moved out of a sparse block after a batch, or as many as went with it
_NO_VECTORS = "vectors rank these alone until `millgate store embed` has made their index"
_LEXICAL = Weighing(title=2.0)

Vector = Callable[[str], "npt.NDArray[np.float32] | None"]


class NarrowedCollection:
    """One collection of a store that keeps postings itself. `vector` gives the embedding of a query, or None.

    `recent` is what was read last, which several collections may share.
    """

    def __init__(
        self,
        store: PostingStore,
        tenant: str,
        name: str,
        *,
        embedder: Embedder | None = None,
        vector: Vector = lambda query: None,
        recent: RecentReads | None = None,
    ) -> None:
        self._store, self._tenant, self._name = store, tenant, name
        self._embeddings = EmbeddingCache(store, tenant, name, embedder) if embedder else None
        self._vector = vector
        self._recent = recent or RecentReads()
        self._start(Totals())

    def _start(self, totals: Totals) -> tuple[KnownPostings, CandidateSnapshot]:
        """Forget what was read under former totals; a snapshot without candidates is what queries are parsed with."""
        known = KnownPostings(self._store, self._tenant, self._name, totals, self._recent)
        self._known = known, self._snapshot_of(join_rows(()), known)
        return self._known

    def follow_batch(self) -> bool:
        """Write the next block of postings, or wait a moment if another process writes it; whether the end of the feed
        is reached.
        """
        here = (self._tenant, self._name)
        totals, head = self._store.posting_state(*here)
        if totals.seen >= head:
            return True
        if not totals.seen and self._embeddings and self._store.can_search_vectors():
            totals = totals._replace(vectors=self._embeddings.kind)
        self._check_kind(totals)
        if not self._store.lease_postings(*here, totals):
            time.sleep(_PAUSE_S)
            return False
        with self._released_on_error():
            changes = self._store.changes(*here, totals.seen, _BATCH)
            gone = ChunkIndexRecords(
                self._store.records_of(*here, [change.id for change in changes])
            )
            self._save(changes, gone, totals)
        if len(gone):
            self._sweep(max(_SWEPT, len(gone)))
        return len(changes) < _BATCH

    def _save(self, changes: Sequence[Change], gone: ChunkIndexRecords, totals: Totals) -> None:
        """Write the block of some changes; `gone` are the records that they replace or remove."""
        chunks = [change.chunk for change in changes if change.chunk is not None]
        seen = changes[-1].seq if changes else totals.seen
        rows = self._embeddings.rows_of(chunks, seen) if self._embeddings else None
        block = make_block(changes, gone, totals, rows if totals.vectors else None)
        self._store.save_block(self._tenant, self._name, block, after=totals)

    def _sweep(self, most: int) -> None:
        """Write chunks of a sparse block again, as if they had changed; with the last of them the block goes."""
        here = (self._tenant, self._name)
        totals, _ = self._store.posting_state(*here)
        if not self._store.sparse_records(*here, below=totals.blocks, most=1):
            return
        if not self._store.lease_postings(*here, totals):
            return
        with self._released_on_error():
            found = self._store.sparse_records(*here, below=totals.blocks, most=most)
            ids, old = [id for id, _ in found], ChunkIndexRecords([record for _, record in found])
            chunks = {chunk.id: chunk for chunk in self._store.chunks(*here, ids)}
            # a chunk that was removed since goes now, and once more when the feed says so
            changes = [
                Change(totals.seen, id, chunks.get(id), place)
                for id, place in zip(ids, old.header[:, PLACE].tolist(), strict=True)
            ]
            self._save(changes, old, totals)

    @contextmanager
    def _released_on_error(self) -> Iterator[None]:
        """Work that needs the lease; if it fails, others need not wait until the lease has run out."""
        try:
            yield
        except BaseException:
            with suppress(StoreError):  # if the server is away, the first error says more
                self._store.release_postings(self._tenant, self._name)
            raise

    def snapshot(self, query: str, *, wait: bool) -> SegmentSnapshot:
        """What ranking reads for this query. Without `wait` the last complete blocks; NotReady if there are none."""
        here = (self._tenant, self._name)
        totals, head = self._store.posting_state(*here)
        if wait and totals.seen < head:
            while not self.follow_batch():
                pass
            totals, head = self._store.posting_state(*here)
        if not totals.chunks:
            raise NotReady(
                f"the postings of collection {self._name!r} are still being made",
                retry_after=5.0,
                hint="ask again later; other collections can be asked now",
            )
        if self._embeddings:
            self._check_kind(totals)
        behind = totals.seen < head
        made = self._narrow(query, totals, behind=behind)
        return made.stale if behind else made

    def clear(self) -> None:
        """Throw the postings away; they are made again from the chunks."""
        self._store.clear_postings(self._tenant, self._name)

    def _check_kind(self, totals: Totals) -> None:
        """Refuse to mix embeddings of two models."""
        kind = self._embeddings.kind if self._embeddings else "no embeddings"
        if totals.vectors and totals.vectors != kind:
            raise ConfigError(
                f"collection {self._name!r} was indexed with {totals.vectors},"
                f" and the settings ask for {kind}",
                hint=f"run: millgate store reindex --collection {self._name}, or set embed.model back",
            )

    def _narrow(self, query: str, totals: Totals, *, behind: bool) -> CandidateSnapshot:
        known, empty = self._known
        if not known.holds_for(totals):
            known, empty = self._start(totals)
        vector = self._vector(query) if self._embeddings else None
        near = self._nearest(vector, totals) if vector is not None else None
        doc_ids = [doc_id for doc_id, _ in near or ()]
        pick = partial(self._pick, query, known, empty, doc_ids)
        found = known.candidates(hash((query, *doc_ids)), pick)
        fetch = partial(self._store.chunks, self._tenant, self._name) if behind else known.chunks
        if vector is None:
            return self._snapshot_of(found, known, fetch, how="words and names")
        if near is not None:
            how, nearest = "words, vectors and names", _nearest_among(near, found.doc_ids)
        else:
            how, nearest = f"words and names; {_NO_VECTORS}", self._compare(vector, found.ids)
        return self._snapshot_of(found, known, fetch, near=nearest, how=how)

    def _pick(
        self, query: str, known: KnownPostings, empty: CandidateSnapshot, near: Sequence[int]
    ) -> CandidateRecords:
        terms, doc_ids = _find_doc_ids(query, known, empty)
        most = TURNS if empty.conversational else WORDS
        asked = {*doc_ids[:most], *near}
        rows = [known.records(asked)]
        if dead := len(asked) - len(rows[0].ids):  # the next best instead
            rows.append(known.records({*doc_ids[most:][: 2 * dead]} - asked))
        found = join_rows(rows)
        leading = select(found, {*doc_ids[:_LEADING], *near[:_LEADING]})
        more = _follow_names(self._snapshot_of(leading, known), terms, known)
        return join_rows([*rows, known.records({*more}.difference(found.doc_ids))])

    def _snapshot_of(
        self,
        found: CandidateRecords,
        known: KnownPostings,
        fetch: Fetch | None = None,
        *,
        near: NearestCandidates | None = None,
        how: str = "words",
    ) -> CandidateSnapshot:
        records, read = ChunkIndexRecords([found.records], found.sizes), fetch or known.chunks
        return CandidateSnapshot(
            found.ids, records, read, known.totals, known.count, near=near, how=how
        )

    def _nearest(
        self, vector: npt.NDArray[np.float32], totals: Totals
    ) -> Sequence[tuple[int, float]] | None:
        """Doc ids and cosines of the nearest chunks; None if the store does not search vectors, or not quickly."""
        if not totals.vectors:
            return None
        here = (self._tenant, self._name, totals.vectors)
        halves = vector.astype(np.float16)
        return self._store.nearest_doc_ids(*here, halves, NEAREST, chunks=totals.chunks)

    def _compare(self, vector: npt.NDArray[np.float32], ids: Sequence[str]) -> NearestCandidates:
        """The candidates that have an embedding, nearest first."""
        assert self._embeddings is not None
        found = self._embeddings.known_rows(ids)
        ords = np.flatnonzero([id in found for id in ids])
        if not len(ords):
            return NearestCandidates(ords, np.zeros(0))
        rows = np.array([found[ids[ord]] for ord in ords.tolist()], np.float32)
        cosines = np.vecdot(rows, vector).astype(np.float64)
        order = np.argsort(-cosines, kind="stable")[:NEAREST]
        return NearestCandidates(ords[order], cosines[order])


def _find_doc_ids(
    query: str, known: KnownPostings, empty: CandidateSnapshot
) -> tuple[Keys, list[int]]:
    """The terms of a query, and the best doc ids by them: twice as many as are ranked, since some may be gone. A word
    never seen is read as its known parts.
    """
    terms = _join_terms(word_terms(query, empty.language))
    lists = [*known.lists(terms, budget=_POSTINGS)]
    read = _join_terms(read_query(query, empty))
    if parts := {*read.tolist()}.difference(terms.tolist()):
        lists += known.lists(np.array([*parts], np.uint64), budget=_POSTINGS)
    most, near = (TURNS, _NEAR) if empty.conversational else (WORDS, ())
    return read, best_by_words(lists, known.totals.chunks, 2 * most, near=near)


def _join_terms(pieces: Sequence[Sequence[int]]) -> Keys:
    return distinct(np.array([*chain(*pieces)], np.uint64))


def _follow_names(snapshot: CandidateSnapshot, terms: Keys, known: KnownPostings) -> list[int]:
    """The doc ids of chunks that share a rare name with the best candidates by words."""
    worth = idf(snapshot.count, snapshot.frequencies(terms))
    scores = lexical(snapshot, terms, snapshot.postings(terms), worth, _LEXICAL)
    held = snapshot.names(top(scores, _SEEDS, snapshot))
    names = distinct(np.concatenate([np.zeros(0, np.uint64), *held]))
    bounds = {"least": 2, "most": _NAME_CHUNKS}  # a name in one chunk leads nowhere
    lists = known.lists(names ^ NAME_KEYS, budget=_NAME_POSTINGS, **bounds)
    return best_by_names(lists, known.totals.chunks, NAMES, spread=_SPREAD)


def _nearest_among(near: Sequence[tuple[int, float]], doc_ids: Sequence[int]) -> NearestCandidates:
    """The nearest chunks among the candidates; one that changed since is left out."""
    ords = {doc_id: ord for ord, doc_id in enumerate(doc_ids)}
    found = [(ords[doc_id], cosine) for doc_id, cosine in near if doc_id in ords]
    return NearestCandidates(
        np.array([ord for ord, _ in found], np.int64), np.array([cosine for _, cosine in found])
    )
