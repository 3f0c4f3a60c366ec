"""Narrowed: a collection too large for a process, searched in the database first.

The store keeps its postings in blocks of a few thousand chunks, one list a term and block, and a draft of each chunk
(index/drafts.py). A query reads the lists of its rarest terms, takes the CANDIDATES best chunks by

    sum over terms of  idf · n / (n + 1)

and the usual ranking runs over a segment of those. Sizes, lengths and how common a term is are those of the whole
collection, so a score means what it means elsewhere. Blocks follow the change feed; many processes share the work, and each
block is written by whichever holds the lease.
"""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from headgate.errors import NotReady
from headgate.index.arrays import Ints, Keys, find
from headgate.index.drafts import CHARS, LANGUAGE, TOLD, Drafts, assemble, draft_chunks
from headgate.index.live_segment import LiveSegment
from headgate.index.segment import Segment, build
from headgate.index.snapshot import SHORT, Fetch, Snapshot, is_conversation, name_languages
from headgate.protocols import BLOCK_BITS, Block, PostingStore, Totals
from headgate.rank.fields import table
from headgate.rank.lexical import rarity
from headgate.text.languages import LANGUAGES
from headgate.text.terms import word_terms
from headgate.types import Change, Chunk

# chunks that are ranked. With 500 a request costs a third less, and questions over two documents lose .03 of their evidence
CANDIDATES = 1_500
_POSTINGS = 200_000  # postings read for a query, those of its rarest terms first
_BATCH = 5_000  # changes that make a block
_SPEAKERS = 1_000  # speakers that are told apart

Count = Callable[[Keys], Ints]


class NarrowedCollection:
    """One collection of a store that keeps postings itself."""

    def __init__(self, store: PostingStore, tenant: str, name: str) -> None:
        self._store, self._tenant, self._name = store, tenant, name

    def follow_batch(self) -> bool:
        """Write the next block of postings; whether the end of the feed is reached, or another process is at it."""
        here = (self._tenant, self._name)
        totals = self._store.posting_totals(*here)
        if totals.seen >= self._store.head(*here):
            return True
        if not self._store.lease_postings(*here):
            return False
        changes = self._store.changes(*here, totals.seen, _BATCH)
        gone = Drafts(self._store.drafts_of(*here, [change.id for change in changes]))
        self._store.save_block(*here, make_block(changes, gone, totals), after=totals.seen)
        return len(changes) < _BATCH

    def snapshot(self, query: str, *, wait: bool) -> Snapshot:
        """What ranking reads for this query. Without `wait` the last complete blocks; NotReady where there are none."""
        here = (self._tenant, self._name)
        while wait and not self.follow_batch():
            pass
        totals = self._store.posting_totals(*here)
        if not totals.chunks:
            raise NotReady(
                f"the postings of collection {self._name!r} are still being made",
                retry_after=5.0,
                hint="ask again later; everything else can be asked meanwhile",
            )
        behind = totals.seen < self._store.head(*here)
        picked = self._pick(query, totals)
        found = self._store.drafts_at(*here, picked)
        segment = assemble([id for id, _ in found], Drafts([draft for _, draft in found]))
        made = NarrowedSnapshot(segment, self._fetch, totals, self._count_terms)
        return made.stale if behind else made

    def clear(self) -> None:
        """Throw the postings away; they are made again from the chunks."""
        self._store.clear_postings(self._tenant, self._name)

    def _fetch(self, ids: Sequence[str]) -> Sequence[Chunk]:
        return self._store.chunks(self._tenant, self._name, ids)

    def _count_terms(self, terms: Keys) -> Ints:
        counted = self._store.term_totals(self._tenant, self._name, _signed(terms))
        return np.array([counted.get(term, 0) for term in _signed(terms)], np.int64)

    def _pick(self, query: str, totals: Totals) -> list[int]:
        """The places of the best chunks by the words of the query."""
        asked = word_terms(query, _language(totals))
        terms = np.unique(np.array([*chain(*asked)], np.uint64))
        counts = self._count_terms(terms)
        order = np.argsort(counts, kind="stable")
        order = order[counts[order] > 0]
        enough = np.searchsorted(np.cumsum(counts[order]), _POSTINGS, side="right")
        order = order[: max(int(enough), 1)]
        worth = dict(zip(_signed(terms[order]), rarity(totals.chunks, counts[order]), strict=True))
        weigh = table(title=1.0, speaker=1.0, date=1.0)
        places, values = [np.zeros(0, np.int64)], [np.zeros(0)]
        for term, block, data in self._store.term_lists(self._tenant, self._name, list(worth)):
            pairs = np.frombuffer(data, "<u2").reshape(2, -1)
            times = weigh[pairs[1]]
            places.append((block << BLOCK_BITS) + pairs[0].astype(np.int64))
            values.append(worth[term] * times / (times + 1))
        every, slots = np.unique(np.concatenate(places), return_inverse=True)
        scores = np.bincount(slots, np.concatenate(values), minlength=len(every))
        best = np.argsort(-scores, kind="stable")[:CANDIDATES]
        picked: list[int] = np.sort(every[best]).tolist()
        return picked


class NarrowedSnapshot(Snapshot):
    """The candidates of one query, with the numbers of the whole collection."""

    def __init__(self, segment: Segment, fetch: Fetch, totals: Totals, count: Count) -> None:
        super().__init__([LiveSegment(segment)], fetch)
        self._totals = totals
        self._count_terms = count
        self._known: dict[int, int] = {}

    @property
    def narrowed(self) -> str:
        """What of the collection is looked at, for the trace."""
        return f"{self.size:,} of {self.count:,} chunks"

    @property
    def count(self) -> int:
        """How many chunks the collection has."""
        return max(self._totals.chunks, self.size)

    @property
    def conversational(self) -> bool:
        """Whether the collection's chunks are turns of conversations."""
        t = self._totals
        return is_conversation(
            t.chunks, told=t.told, speaking=t.speaking, speakers=len(t.speakers), short=t.short
        )

    @property
    def language(self) -> str:
        """The languages of the collection."""
        return _language(self._totals)

    @property
    def _dirty(self) -> bool:
        return False

    def frequencies(self, terms: Keys) -> Ints:
        """In how many chunks of the collection each term stands."""
        new = np.array([term for term in terms.tolist() if term not in self._known], np.uint64)
        if len(new):
            self._known.update(zip(new.tolist(), self._count_terms(new).tolist(), strict=True))
        slots, there = find(self.lives[0].segment.terms.keys, terms)
        here = np.where(there, self.lives[0].term_counts[slots], 0) if len(slots) else slots
        known = np.array([self._known[term] for term in terms.tolist()], np.int64)
        return np.maximum(known, here)

    @property
    def unseen_rate(self) -> float:
        """As in a snapshot, for the whole collection.

        By Heaps' law a vocabulary grows as text ** share, where share is the part of it that was met once; so the chance of a
        new term falls as text ** (share - 1).
        """
        counts = self.lives[0].term_counts
        once = int((counts == 1).sum())
        if not once:
            return 0.0
        growth = self.count / max(self.size, 1)
        return once / int(counts.sum()) * float(growth ** (once / len(counts) - 1))

    def norms(self, *, b: float, title: float, head: bool) -> npt.NDArray[np.float32]:
        """As in a snapshot, by the mean length of the whole collection."""
        weights = np.array([title, 1.0 * head, 1.0 * head, 1.0])
        mean = max(float(weights @ np.array(self._totals.fields)) / self.count, 1e-6)
        length = self.lives[0].segment.fields @ weights
        return np.asarray((1 - b) + (b / mean) * length, np.float32)


def make_block(changes: Sequence[Change], gone: Drafts, totals: Totals) -> Block:
    """The postings of a batch of changes, and the totals after it; `gone` are the drafts that it replaces or removes."""
    fresh = [change for change in changes if change.chunk is not None]
    segment = build([c.chunk for c in fresh if c.chunk], [c.place for c in fresh])
    drafts = draft_chunks(segment)
    added = Drafts(drafts)
    terms = segment.terms
    pairs = np.stack([terms.ords, terms.values]).astype("<u2")
    begins = terms.starts.tolist()
    lists = [
        (term, pairs[:, begin:end].tobytes())
        for term, begin, end in zip(_signed(terms.keys), begins, begins[1:], strict=False)
    ]
    plus, minus = added.distinct_terms(), gone.distinct_terms()
    keys, slots = np.unique(np.concatenate([plus[0], minus[0]]), return_inverse=True)
    difference = np.bincount(slots, np.concatenate([plus[1], -minus[1]]), minlength=len(keys))
    return Block(
        drafts=[(change.id, draft) for change, draft in zip(fresh, drafts, strict=True)],
        gone=[change.id for change in changes],
        lists=lists,
        terms=dict(zip(_signed(keys), difference.astype(np.int64).tolist(), strict=True)),
        totals=_add(_add(totals, gone, -1), added, 1)._replace(seen=changes[-1].seq)
        if changes
        else totals,
    )


def _add(totals: Totals, drafts: Drafts, sign: int) -> Totals:
    header = drafts.header
    languages = np.bincount(header[:, LANGUAGE], minlength=len(LANGUAGES))
    before = np.zeros(len(LANGUAGES), np.int64)
    before[: len(totals.languages)] = totals.languages
    speakers = {*totals.speakers, *drafts.speakers[drafts.speakers > 0].astype(np.int64).tolist()}
    return totals._replace(
        chunks=totals.chunks + sign * len(header),
        told=totals.told + sign * int(header[:, TOLD].sum()),
        speaking=totals.speaking + sign * int((drafts.speakers > 0).sum()),
        short=totals.short + sign * int((header[:, CHARS] < SHORT).sum()),
        fields=tuple(np.add(totals.fields, sign * header[:, :4].sum(0)).tolist()),
        languages=tuple(np.add(before, sign * languages).tolist()),
        speakers=tuple(sorted(speakers)[:_SPEAKERS]),
    )


def _language(totals: Totals) -> str:
    return name_languages(np.array(totals.languages or (0,)), totals.chunks)


def _signed(terms: Keys) -> list[int]:
    """Terms as the database writes them: its numbers have a sign."""
    found: list[int] = terms.view(np.int64).tolist()
    return found
