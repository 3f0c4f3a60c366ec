"""CandidateSnapshot: the chunks that a database picked for one query, as ranking reads them.

A ranking asks for some dozen terms and names. So nothing is inverted: the keys of all records are one array, which is
looked through. Sizes, lengths and how common a term or a name is are those of the whole collection.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from millgate.classes import lazy_property
from millgate.index.arrays import Ints, Keys, find, offsets, ranges
from millgate.index.collection_kind import Heads, is_conversation, name_languages
from millgate.index.large.records import (
    CHARS,
    LANGUAGE,
    NAME_KEYS,
    PLACE,
    POSITION,
    ChunkIndexRecords,
)
from millgate.index.snapshot import Fetch, SegmentSnapshot
from millgate.protocols import Postings, TermPositions, TokenStreams, Totals
from millgate.rank.fields import BODY, DATE, SPEAKER, TITLE, pack
from millgate.rank.lexical import distinct, firsts, number_keys

Count = Callable[[Keys], Ints]
"""In how many chunks of the collection each key of the database stands."""

_PARTS = 4
_SAMPLED_TERMS = np.uint64((1 << 64) // _PARTS)  # terms are digests: a quarter of them lies below
_SAMPLED_CHUNKS = 64
# the bits of a term beside which its chunk's number fits
_ABOVE_OWNER = ~np.uint64(_SAMPLED_CHUNKS - 1)
_COLUMNS = {"place": PLACE, "position": POSITION, "chars": CHARS, "language": LANGUAGE}


class NearestCandidates(NamedTuple):
    """The chunks nearest to the query by their embeddings, best first, and their cosines."""

    ords: Ints
    cosines: npt.NDArray[np.float64]


class CandidateSnapshot(SegmentSnapshot):
    """The candidates of one query, with the numbers of the whole collection. `narrowed_to` goes into the trace."""

    def __init__(
        self,
        ids: Sequence[str],
        records: ChunkIndexRecords,
        fetch: Fetch,
        totals: Totals,
        count_keys: Count,
        *,
        near: NearestCandidates | None = None,
        how: str = "",
    ) -> None:
        super().__init__((), fetch)
        self._ids, self._records = ids, records
        self._size = len(ids)
        self._count = max(totals.chunks, self._size)
        self._totals = totals
        self._count_keys = count_keys
        self._near = near
        self._how = how

    @property
    def narrowed_to(self) -> str:
        return f"{self.size:,} of {self.count:,} chunks, by {self._how}"

    def _column(self, name: str) -> npt.NDArray[np.int64]:
        column: npt.NDArray[np.int64] = self._records.header[:, _COLUMNS[name]]
        return column

    def _columns_of(self, ords: Ints, *names: str) -> list[list[int]]:
        return [self._column(name)[ords].tolist() for name in names]

    @lazy_property
    def alive(self) -> npt.NDArray[np.bool_]:
        return np.ones(self.size, bool)

    @lazy_property
    def conversational(self) -> bool:
        """As in a snapshot, but the order of all chunks is unknown: what may be labels is taken for labels."""
        t = self._totals
        heads = Heads(
            t.chunks, t.declared_turns, t.with_speaker, t.certain_heads, np.array(t.lines), t.short_texts
        )  # fmt: skip
        return is_conversation(heads, lambda: False)

    @lazy_property
    def language(self) -> str:
        return self._name_languages(all_of_them=False)

    @lazy_property
    def all_languages(self) -> str:
        return self._name_languages(all_of_them=True)

    def _name_languages(self, *, all_of_them: bool) -> str:
        votes = np.array(self._totals.languages or (0,))
        return name_languages(votes, self._totals.chunks, all_of_them=all_of_them)

    # -- terms -----------------------------------------------------------------------------------

    @lazy_property
    def _term_starts(self) -> Ints:
        return offsets(self._records.lengths)

    @lazy_property
    def _low_terms(self) -> npt.NDArray[np.uint16]:
        return self._records.terms.astype(np.uint16)

    @lazy_property
    def _field_ends(self) -> Ints:
        """Where title, date and speaker of each chunk end, counted in terms."""
        return np.cumsum(self._records.header[:, :BODY].T, 0)

    def postings(self, terms: Keys) -> Postings:
        at, which = _locate(self._records.terms, self._low_terms, terms)
        owner = np.searchsorted(self._term_starts, at, side="right") - 1
        field = self._fields(at - self._term_starts[owner], owner)
        numbered = np.sort(((which * max(self.size, 1) + owner) << 2) | field)
        pairs, field = numbered >> 2, numbered & 3
        begins = np.flatnonzero(firsts(pairs))
        pair = np.repeat(np.arange(len(begins)), np.diff(begins, append=len(pairs)))
        counts = np.bincount(pair << 2 | field, minlength=4 * len(begins)).reshape(-1, 4)
        which, ords = np.divmod(pairs[begins], max(self.size, 1))
        return Postings(ords, pack(*counts.T), np.bincount(which, minlength=len(terms)))

    def _fields(self, position: Ints, owner: Ints) -> Ints:
        title, date, speaker = self._field_ends
        found: Ints = (position >= title[owner]).astype(np.int64)
        found += position >= date[owner]
        found += position >= speaker[owner]
        return found

    def frequencies(self, terms: Keys) -> Ints:
        """In how many chunks of the whole collection each term occurs."""
        return self._count_keys(terms)

    @lazy_property
    def _sample(self) -> tuple[int, int, int]:
        """How many of the candidates are sampled, their terms, and those of each chunk counted once."""
        some = min(self.size, _SAMPLED_CHUNKS)
        few = self.token_streams(np.arange(some))
        held = distinct(few.terms & _ABOVE_OWNER | few.owner.astype(np.uint64))
        return some, len(few.terms), len(held)

    @property
    def repetition(self) -> float:
        """As in a snapshot, by some of the candidates."""
        _, length, held = self._sample
        return 1 - held / length if length else 0.0

    @lazy_property
    def unseen_rate(self) -> float:
        """As in a snapshot, for the whole collection, by a part of the candidates' terms.

        By Heaps' law a vocabulary grows as text ** share, where share is the part of it that was met once; so the
        chance of a new term falls as text ** (share - 1).
        """
        at = np.flatnonzero(self._records.terms < _SAMPLED_TERMS)
        owner = np.searchsorted(self._term_starts, at, side="right") - 1
        vocabulary, term_ids = number_keys(self._records.terms[at])
        chunks = np.bincount(distinct(term_ids * max(self.size, 1) + owner) // max(self.size, 1))
        once = int((chunks == 1).sum())
        if not once:
            return 0.0
        # how many postings there are is told by some chunks: among some terms the commonest would decide it
        some, _, held = self._sample
        growth = self.count / self.size
        rate = _PARTS * once / max(held / some * self.size, 1.0)
        return float(min(1.0, rate * growth ** (once / len(vocabulary) - 1)))

    def token_streams(self, ords: Ints) -> TokenStreams:
        counts = self._records.lengths[ords]
        found = self._records.terms[ranges(self._term_starts[ords], counts)]
        fields = self._records.header[ords, : BODY + 1]
        where = np.repeat(np.tile(np.arange(BODY + 1), len(ords)), fields.ravel())
        return TokenStreams(found, np.repeat(np.arange(len(ords)), counts), where)

    def term_positions(self, ords: Ints, terms: Keys) -> TermPositions:
        counts = self._records.lengths[ords]
        where = ranges(self._term_starts[ords], counts)
        at, which = _locate(self._records.terms[where], self._low_terms[where], terms)
        begins = offsets(counts)
        mine = np.searchsorted(begins, at, side="right") - 1
        position = at - begins[mine]
        titled = self._records.header[ords[mine], TITLE] > 0
        return TermPositions(
            terms[which], mine, self._fields(position, ords[mine]), position, titled
        )

    def _weigh_lengths(self, title: float, *, head: bool) -> tuple[npt.NDArray[np.float64], float]:
        """As in `SegmentSnapshot`, but with the mean of the whole collection."""
        weights = np.array([title, 1.0 * head, 1.0 * head, 1.0])
        length = self._records.header[:, : BODY + 1] @ weights
        return length, float(weights @ np.array(self._totals.fields)) / self.count

    # -- names -----------------------------------------------------------------------------------

    @lazy_property
    def _name_starts(self) -> Ints:
        return offsets(self._records.name_counts)

    @lazy_property
    def _low_names(self) -> npt.NDArray[np.uint16]:
        return self._records.names.astype(np.uint16)

    def names(self, ords: Ints) -> list[Keys]:
        starts, flat = self._name_starts, self._records.names
        return [flat[starts[ord] : starts[ord + 1]] for ord in ords.tolist()]

    def count_names(self, keys: Keys, *, limit: int) -> Ints:
        """How many candidates have each name; 0 for a name in more than `limit` chunks."""
        _, which = _locate(self._records.names, self._low_names, keys)
        rare = self.name_frequencies(keys) <= limit
        return np.bincount(which, minlength=len(keys)) * rare

    def find_names(self, keys: Keys) -> Postings:
        at, which = _locate(self._records.names, self._low_names, keys)
        order = np.argsort(which, kind="stable")
        at = at[order]
        ords = np.searchsorted(self._name_starts, at, side="right") - 1
        return Postings(ords, self._records.flags[at], np.bincount(which, minlength=len(keys)))

    def name_frequencies(self, keys: Keys) -> Ints:
        """In how many chunks of the whole collection each name occurs."""
        return self._count_keys(keys ^ NAME_KEYS)

    def labels(self, keys: Keys) -> list[str]:
        at, which = _locate(self._records.names, self._low_names, keys)
        known, first = np.unique(which, return_index=True)
        found = dict(zip(known.tolist(), self._records.labels(at[first]), strict=True))
        return [found.get(index, "") for index in range(len(keys))]

    def _count_cases(self, asked: Keys) -> Ints:
        case = self._records.case
        halves = asked.astype(np.uint32).astype(np.uint64)
        _, which = _locate(case.astype(np.uint64), case.astype(np.uint16), halves)
        return np.bincount(which, minlength=len(asked))

    # -- reading order, vectors and records ------------------------------------------------------

    @lazy_property
    def _speakers(self) -> Keys:
        header, starts = self._records.header, self._term_starts[:-1]
        where = ranges(starts + header[:, TITLE] + header[:, DATE], header[:, SPEAKER])
        return distinct(self._records.terms[where])

    def nearest(self, vector: npt.ArrayLike, k: int) -> tuple[Ints, npt.NDArray[np.float64]]:
        """The candidates nearest to the query, best first; their cosines came with the candidates."""
        if self._near is None:
            return np.zeros(0, np.int64), np.zeros(0)
        return self._near.ords[:k], self._near.cosines[:k]

    def ids(self, ords: Ints) -> list[str]:
        return [self._ids[ord] for ord in ords.tolist()]

    @lazy_property
    def _by_id(self) -> dict[str, int]:
        return {id: ord for ord, id in enumerate(self._ids)}

    def find(self, ids: Sequence[str]) -> Ints:
        """The ordinals of candidates by id; -1 for an id that is not a candidate."""
        return np.array([self._by_id.get(id, -1) for id in ids], np.int64)


def _locate(flat: Keys, low: npt.NDArray[np.uint16], wanted: Keys) -> tuple[Ints, Ints]:
    """Where any of the wanted keys stands in an unsorted run of keys, and which of them it is.

    `low` are the lowest 16 bits of the run: a table of 65 536 flags leaves few keys that need a closer look. For the
    15 700 terms of 300 chunks it takes 0.06 ms; np.isin takes 0.14, and a request over a large collection asks often.
    """
    flags = np.zeros(1 << 16, bool)
    flags[wanted.astype(np.uint16)] = True
    at = np.flatnonzero(flags.take(low))  # three times as fast as an index of 16 bits
    order = np.argsort(wanted, kind="stable")
    which, there = find(wanted[order], flat[at])
    return at[there], order[which[there]]
