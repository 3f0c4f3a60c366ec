"""SegmentSnapshot: one moment of a collection's index, as ranking reads it.

A snapshot is a list of immutable segments with their dead ordinals, read as one array of chunks. It never changes, so a
query may read it while another thread follows the feed. Whatever it derives, it computes once. Every number is exact
for the living chunks, so it ranks the same however they are spread over segments.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import reduce

import numpy as np
import numpy.typing as npt

from millgate.calls.lazy import lazy_property
from millgate.index.arrays import Ints, Keys, find, offsets, split_texts, union
from millgate.index.collection_kind import (
    Heads,
    alternate,
    is_called,
    is_conversation,
    name_languages,
)
from millgate.index.posting_list import (
    PostingList,
    copy_lists,
    find_term_ids,
    locate_term_ids,
    own_term_ids,
    total_counts,
)
from millgate.index.segment import (
    INSIDE_LOWER,
    INSIDE_UPPER,
    STARTING_LOWER,
    LiveSegment,
    Totals,
    weigh_fields,
)
from millgate.protocols import Postings, TermPositions, TokenStreams
from millgate.ranking.arrays import best
from millgate.ranking.fields import BODY, DATE, SPEAKER, TITLE, unpack
from millgate.text.hashes import within
from millgate.text.languages import LANGUAGES
from millgate.text.stopwords import ENGLISH
from millgate.text.terms import number, numbers
from millgate.types import Chunk

_NONE = Totals(
    np.zeros(4, np.int64), np.zeros(len(LANGUAGES), np.int64), 0, 0, 0, np.zeros(0, np.uint64), np.zeros(0, np.int64)
)  # fmt: skip

Fetch = Callable[[Sequence[str]], Sequence[Chunk]]

_MOST_KEY = (1 << 64) - 1
_SAMPLED_CHUNKS = 4_000  # chunks from which on a part of the vocabulary stands for all of it ...
_SAMPLED_POSTINGS = 250_000  # ... or postings, of texts that are denser than most

BEHIND = "the index is behind the store and follows in the background"


class SegmentSnapshot:
    """All living chunks of a collection at one point of its feed."""

    def __init__(
        self,
        lives: Sequence[LiveSegment],
        fetch: Fetch,
        *,
        degraded: str = "",
        complete: bool = True,
    ) -> None:
        self._degraded = degraded
        self.complete = complete
        self.lives = tuple(lives)
        self.bases = offsets(np.array([len(live) for live in self.lives], np.int64))
        self._size = int(self.bases[-1])
        self._count = self._size - sum(len(live.dead) for live in self.lives)
        self._fetch = fetch
        self._norms: dict[tuple[float, float, bool], npt.NDArray[np.float32]] = {}

    @property
    def degraded(self) -> str:
        """What went wrong with the index on the way to this snapshot; empty if nothing did."""
        return self._degraded

    @lazy_property
    def stale(self) -> "SegmentSnapshot":
        """The same snapshot, which says that the store has gone on since."""
        stale = copy(self)
        reasons = filter(None, (self._degraded, BEHIND))
        stale._degraded = "; ".join(reasons)  # noqa: SLF001  one of its own kind
        return stale

    @property
    def size(self) -> int:
        return self._size

    @property
    def count(self) -> int:
        return self._count

    def _column(self, name: str) -> npt.NDArray[np.int64]:
        columns = [getattr(live.segment, name) for live in self.lives]
        return np.concatenate(columns) if columns else np.zeros(0, np.int64)

    @lazy_property
    def alive(self) -> npt.NDArray[np.bool_]:
        """One flag per ordinal."""
        flags = [live.alive for live in self.lives]
        return np.concatenate(flags) if flags else np.zeros(0, bool)

    @lazy_property
    def _dirty(self) -> bool:
        return self.count < self.size

    # -- what kind of collection this is ---------------------------------------------------------

    @lazy_property
    def _totals(self) -> Totals:
        """What all living chunks add up to; of each part it is known."""
        return reduce(Totals.join, (live.totals for live in self.lives), _NONE)

    @lazy_property
    def conversational(self) -> bool:
        t = self._totals
        heads = Heads(
            self.count, t.declared, int(t.lines.sum()), t.certain, lines=t.lines, short=t.short
        )
        return is_conversation(heads, self._take_turns)

    def _take_turns(self) -> bool:
        """Whether the heads follow each other as speakers do; two of them must also be called by their names."""
        speaker = self._column("speaker").astype(np.uint64)
        if not alternate(speaker[self._order[1]]):
            return False
        living = np.where(self.alive, speaker, 0)
        heads, first, lines = np.unique(living, return_index=True, return_counts=True)
        spoken = [(ord, n) for head, ord, n in zip(heads, first, lines, strict=True) if head]
        return len(spoken) > 2 or all(self._is_called(int(ord), int(n)) for ord, n in spoken)

    def _is_called(self, ord: int, lines: int) -> bool:
        """Whether texts of others name the speaker of a chunk, who has this many lines, with a capital."""
        (keys,) = self.names(np.array([ord]))
        hits = self.find_names(keys)
        owner = np.repeat(np.arange(len(keys)), hits.counts)
        counts = unpack(hits.values)
        in_head = counts[SPEAKER] > 0
        own = np.bincount(owner[in_head], minlength=len(keys)) > 0
        mentions = np.bincount(owner[~in_head & (counts[BODY] > 0)], minlength=len(keys))
        proper = self.is_proper(keys, share=0.5)
        return any(is_called(int(n), lines) for n in mentions[own & proper])

    @lazy_property
    def language(self) -> str:
        """The languages the chunks are written in, the commonest first, joined by "+"; mostly one."""
        return name_languages(self._totals.languages, self.count)

    @lazy_property
    def all_languages(self) -> str:
        """The same with those of a few chunks."""
        return name_languages(self._totals.languages, self.count, all_of_them=True)

    # -- terms -----------------------------------------------------------------------------------

    def postings(self, terms: Keys) -> Postings:
        return self._find_postings("terms", terms)

    def _find_postings(self, name: str, keys: Keys) -> Postings:
        """The living chunks of each key, in one of the posting lists of a segment."""
        parts: list[PostingList] = [getattr(live.segment, name) for live in self.lives]
        found = find_term_ids([part.keys for part in parts], keys)
        return self._living(copy_lists(parts, found, self.bases))

    def frequencies(self, terms: Keys) -> Ints:
        counts = [live.term_counts for live in self.lives]
        return total_counts(counts, self._find_terms(terms))

    @lazy_property
    def unseen_rate(self) -> float:
        """The chance that the next term of such a text is new here.

        By Good and Turing it is the share of terms that were met once: postings of terms of one chunk, over all
        postings.
        """
        postings = sum(live.term_counts.total for live in self.lives)
        if not postings:
            return 0.0
        # terms are digests in order, so those below a bound are a fair sample, whatever segments they lie in
        most = min(_SAMPLED_CHUNKS, self.count, self.count * _SAMPLED_POSTINGS // postings)
        sampled = max(1, most)
        bound = np.uint64(_MOST_KEY * sampled // self.count)
        parts = [
            (live.segment.terms.keys[:end], live.term_counts.first(end))
            for live in self.lives
            if (end := int(live.segment.terms.keys.searchsorted(bound, side="right")))
        ]
        if not parts:
            return 0.0
        keys = np.sort(np.concatenate([own[counts > 0] for own, counts in parts]))
        shared = keys[1:][keys[1:] == keys[:-1]]
        once = sum(int(((counts == 1) & ~within(shared, own)).sum()) for own, counts in parts)
        return min(1.0, once * self.count / sampled / postings)

    def _living(self, hits: Postings) -> Postings:
        if not self._dirty:
            return hits
        stays = self.alive[hits.ords]
        owner = np.repeat(np.arange(len(hits.counts)), hits.counts)[stays]
        counts = np.bincount(owner, minlength=len(hits.counts))
        return Postings(hits.ords[stays], hits.values[stays], counts)

    def token_streams(self, ords: Ints) -> TokenStreams:
        """The terms of some chunks in reading order, chunk by chunk as asked, so that sums round the same way."""
        terms, owner, where = [], [], []
        for at, local, index in self._by_segment(ords):
            segment = self.lives[at].segment
            own, counts = own_term_ids(segment.terms, local)
            terms.append(segment.terms.keys[own])
            owner.append(np.repeat(index, counts))
            lengths = segment.fields[local]
            where.append(np.repeat(np.tile(np.arange(4), len(local)), lengths.ravel()))
        if not terms:
            return TokenStreams(ords.astype(np.uint64), ords, ords)
        found = TokenStreams(np.concatenate(terms), np.concatenate(owner), np.concatenate(where))
        if len(terms) == 1:
            return found
        order = np.argsort(found.owner, kind="stable")
        return TokenStreams(found.terms[order], found.owner[order], found.field[order])

    def _by_segment(self, ords: Ints) -> list[tuple[int, Ints, Ints]]:
        """Of each segment that has any of the chunks asked for: its number, which of it they are, and which of those
        asked for.
        """
        if len(self.lives) == 1:
            return [(0, ords, np.arange(len(ords)))] if len(ords) else []
        segment = np.searchsorted(self.bases, ords, side="right") - 1
        found = [(n, np.flatnonzero(segment == n)) for n in sorted(set(segment.tolist()))]
        return [(n, ords[index] - self.bases[n], index) for n, index in found]

    def term_positions(self, ords: Ints, terms: Keys) -> TermPositions:
        """Where these terms occur in some chunks, chunk by chunk in reading order."""
        term_ids = self._find_terms(terms)
        found, words = [], 0
        for at, local, index in self._by_segment(ords):
            segment = self.lives[at].segment
            own, counts = own_term_ids(segment.terms, local)
            here, which = locate_term_ids(own, term_ids[at])
            found.append((terms[which], here + words, index, counts, segment.fields[local, :BODY]))
            words += len(own)
        if not found:
            return TermPositions(terms[:0], ords, ords, ords, ords > 0)
        keys, where, owner, counts, heads = map(np.concatenate, zip(*found, strict=True))
        begins = offsets(counts)
        mine = np.searchsorted(begins, where, side="right") - 1
        position = where - begins[mine]
        after = np.cumsum(heads, 1)[mine]
        field = (position[:, None] >= after).sum(1)
        return TermPositions(keys, owner[mine], field, position, after[:, TITLE] > 0)

    def locate_terms(self, chunks: Sequence[Chunk], terms: Keys) -> list[dict[int, int] | None]:
        """None for a chunk that is not here as it is or of another language, and a turn whose head has such terms."""
        ords = self.find([chunk.id for chunk in chunks])
        there = np.flatnonzero(ords >= 0)
        own = [LANGUAGES.index(name) for name in self.language.split("+")]
        found: list[dict[int, int] | None] = [None] * len(chunks)
        for at, length, language in zip(
            there.tolist(),
            *self._columns_of(ords[there], "chars", "language").tolist(),
            strict=True,
        ):
            if length == len(chunks[at].text) and language in own:
                found[at] = {}
        spots = self.term_positions(ords[there], terms)
        columns = (spots.terms, there[spots.owner], spots.field, spots.position)
        for term, at, field, position in zip(*(column.tolist() for column in columns), strict=True):
            if field in (DATE, SPEAKER):
                found[at] = None
            elif (mine := found[at]) is not None:
                mine[position + field] = term
        return found

    def _columns_of(self, ords: Ints, *names: str) -> Ints:
        found = np.zeros((len(names), len(ords)), np.int64)
        for at, local, index in self._by_segment(ords):
            found[:, index] = [getattr(self.lives[at].segment, name)[local] for name in names]
        return found

    def norms(self, *, b: float, title: float, head: bool) -> npt.NDArray[np.float32]:
        """What counts of each chunk are divided by, 1 - b + b len / mean; a title's terms count `title` times."""
        if (b, title, head) not in self._norms:
            total = float(weigh_fields(self._totals.fields, title, head=head))
            mean = total / self.count if self.count else 1.0
            parts = [
                ((1 - b) + (b / max(mean, 1e-6)) * live.segment.lengths(title, head=head)).astype(
                    np.float32
                )
                for live in self.lives
            ]
            self._norms[b, title, head] = np.concatenate([np.zeros(0, np.float32), *parts])
        return self._norms[b, title, head]

    def _find_terms(self, terms: Keys) -> Ints:
        """The id of each term in each segment, -1 if the segment does not have it."""
        return find_term_ids([live.segment.terms.keys for live in self.lives], terms)

    # -- names -----------------------------------------------------------------------------------

    def names(self, ords: Ints) -> list[Keys]:
        found: list[Keys] = [np.zeros(0, np.uint64)] * len(ords)
        for at, local, index in self._by_segment(ords):
            part = self.lives[at].segment.names
            own, counts = own_term_ids(part, local)
            keys, begins = part.keys[own], offsets(counts).tolist()
            for i, begin, end in zip(index.tolist(), begins, begins[1:], strict=False):
                found[i] = keys[begin:end]
        return found

    def count_names(self, keys: Keys, *, limit: int) -> Ints:
        counts = total_counts([live.name_counts for live in self.lives], self._find_names(keys))
        return np.where(counts > limit, 0, counts)

    def find_names(self, keys: Keys) -> Postings:
        return self._find_postings("names", keys)

    def is_proper(self, keys: Keys, *, share: float) -> npt.NDArray[np.bool_]:
        """Whether each is a proper name: one of its words capitalized in `share` of its uses in sentences."""
        labels = [[w for w in label.split() if w not in ENGLISH] for label in self.labels(keys)]
        words = sorted({word for found in labels for word in found})
        hits = self._find_postings("case", np.array(numbers(words), np.uint64))
        counts, owner = unpack(hits.values), np.repeat(np.arange(len(words)), hits.counts)
        lower, upper, starting = (
            np.bincount(owner, counts[how], len(words))
            for how in (INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER)
        )
        inside = lower + upper
        cased = np.where(inside > 0, upper >= share * inside, starting == 0)
        proper = {word for word, found in zip(words, cased.tolist(), strict=True) if found}
        return np.array([not proper.isdisjoint(found) for found in labels], bool)

    def _find_names(self, keys: Keys) -> Ints:
        """The id of each name in each segment, -1 if the segment does not have it."""
        return find_term_ids([live.segment.names.keys for live in self.lives], keys)

    def labels(self, keys: Keys) -> list[str]:
        found = [""] * len(keys)
        for live, row in zip(reversed(self.lives), self._find_names(keys)[::-1], strict=True):
            index = np.flatnonzero(row >= 0)
            read = split_texts(live.segment.labels, live.segment.label_starts, row[index])
            for i, label in zip(index.tolist(), read, strict=True):
                found[i] = label
        return found

    # -- reading order ---------------------------------------------------------------------------

    def reading_order_key(self, ords: Ints) -> Ints:
        """A number per chunk that grows in reading order; ties in rank are broken by it."""
        place, position = self._columns_of(ords, "place", "position")
        found: Ints = (place << 24) + position
        return found

    @lazy_property
    def _order(self) -> tuple[Ints, Ints]:
        living = np.flatnonzero(self.alive)
        reading = (self._column("place") << 24) + self._column("position")
        standing = living[np.argsort(reading[living], kind="stable")]
        rank = np.full(self.size, -1, np.int64)
        rank[standing] = np.arange(len(standing))
        return rank, standing

    def reading_order(self) -> tuple[Ints, Ints]:
        """The rank of each chunk in reading order (-1 if dead), and the chunk at each rank."""
        return self._order

    @lazy_property
    def _speakers(self) -> Keys:
        return union([live.speakers for live in self.lives])

    def speakers(self) -> Keys:
        """The terms of all speakers' names, sorted."""
        return self._speakers

    # -- vectors and records ---------------------------------------------------------------------

    def nearest(self, vector: npt.ArrayLike, k: int) -> tuple[Ints, npt.NDArray[np.float64]]:
        """The living chunks whose embeddings are nearest, best first, and their cosines."""
        query = np.asarray(vector, np.float32)
        ords, cosines = [np.zeros(0, np.int64)], [np.zeros(0)]
        for live, base in zip(self.lives, self.bases.tolist(), strict=False):
            if live.vectors is not None and len(live):
                found, near = live.nearest(query, k)
                ords.append(found + base)
                cosines.append(near)
        every, cosine = np.concatenate(ords), np.concatenate(cosines)
        order = best(cosine, k, every, self)
        return every[order], cosine[order]

    def ids(self, ords: Ints) -> list[str]:
        found = [""] * len(ords)
        for at, local, index in self._by_segment(ords):
            segment = self.lives[at].segment
            read = split_texts(segment.ids, segment.id_starts, local)
            for i, id in zip(index.tolist(), read, strict=True):
                found[i] = id
        return found

    def read(self, ids: Sequence[str]) -> list[Chunk]:
        """The chunks themselves, read from the store; a chunk that was removed since is left out."""
        return list(self._fetch(ids))

    def find(self, ids: Sequence[str]) -> Ints:
        """The ordinals of living chunks by id; -1 for an id that is not there."""
        keys = np.array([number(id) for id in ids], np.uint64)
        found = np.full(len(ids), -1, np.int64)
        for live, base in zip(self.lives, self.bases, strict=False):
            at, there = find(live.segment.id_keys, keys)
            local = live.segment.id_ords[at[there]]
            index = np.flatnonzero(there)
            living = live.alive[local]
            found[index[living]] = local[living] + base
        return found
