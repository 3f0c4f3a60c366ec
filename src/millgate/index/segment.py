"""Segment: the postings of a run of chunks, immutable.

Chunks are numbered by ordinals in the order they came. Everything a ranking asks for is an array: terms
by field, names, capitals, lengths, reading order, and the raw chunk ids. A segment in memory and one
mapped from a file are the same thing. Removing a chunk never changes a segment: LiveSegment
carries the ordinals that are dead, and merging leaves them out. What is counted leaves them out too, and is counted
once, when it is first asked.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from millgate.calls.lazy import lazy_property
from millgate.index.arrays import Bytes, Ints, Keys, ranges
from millgate.index.collection_kind import CERTAIN, DECLARED, SHORT
from millgate.index.posting_list import Frequencies, PostingList
from millgate.index.vectors import SEARCH_WIDTH, Halves, NearestNeighbors, nearest
from millgate.ranking.arrays import distinct
from millgate.ranking.fields import BODY, DATE, SPEAKER, TITLE
from millgate.text.languages import LANGUAGES

# The fields of `case`: how a word stands.
INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER = BODY, TITLE, SPEAKER


@dataclass(frozen=True, slots=True)
class Totals:
    """What some chunks add up to: terms by field, chunks by language, by what they show of being turns, by speaker."""

    fields: Ints
    languages: Ints
    declared: int
    certain: int
    short: int
    speakers: Keys
    lines: Ints

    def join(self, other: "Totals", sign: int = 1) -> "Totals":
        """The totals of both; with -1, without those of the other."""
        speakers, at = np.unique(
            np.concatenate([self.speakers, other.speakers]), return_inverse=True
        )
        lines = np.zeros(len(speakers), np.int64)
        np.add.at(lines, at, np.concatenate([self.lines, sign * other.lines]))
        return Totals(
            self.fields + sign * other.fields,
            self.languages + sign * other.languages,
            self.declared + sign * other.declared,
            self.certain + sign * other.certain,
            self.short + sign * other.short,
            speakers[lines > 0],
            lines[lines > 0],
        )


@dataclass(frozen=True)
class Segment:
    """The postings of a run of chunks. What they add up to is computed once, and kept as long as the segment is."""

    ids: Bytes
    id_starts: Ints
    id_keys: Keys
    id_ords: Ints
    place: Ints
    position: Ints
    fields: Ints
    chars: Ints
    speaker: Keys
    evidence: Bytes
    language: Bytes
    terms: PostingList
    names: PostingList
    labels: Bytes
    label_starts: Ints
    case: PostingList

    def __len__(self) -> int:
        return len(self.place)

    def add_up(self, some: Ints | slice) -> Totals:
        """What some of the chunks add up to."""
        speaker, evidence = self.speaker[some], self.evidence[some]
        speakers, lines = np.unique(speaker[speaker > 0], return_counts=True)
        return Totals(
            self.fields[some].sum(0),
            np.bincount(self.language[some], minlength=len(LANGUAGES)),
            int((evidence & DECLARED > 0).sum()),
            int((evidence & CERTAIN > 0).sum()),
            int((self.chars[some] < SHORT).sum()),
            speakers,
            lines,
        )

    @lazy_property
    def totals(self) -> Totals:
        """What all chunks add up to."""
        return self.add_up(slice(None))

    @lazy_property
    def _lengths(self) -> dict[tuple[float, bool], npt.NDArray[np.float64]]:
        return {}

    def lengths(self, title: float, *, head: bool) -> npt.NDArray[np.float64]:
        """The length of each chunk in terms, its title weighed."""
        if (title, head) not in self._lengths:
            self._lengths[title, head] = weigh_fields(self.fields, title, head=head)
        return self._lengths[title, head]


def weigh_fields(fields: Ints, title: float, *, head: bool) -> npt.NDArray[np.float64]:
    """The length of texts of so many terms in each field; a title's count `title` times."""
    length: npt.NDArray[np.float64] = fields[..., BODY] + title * fields[..., TITLE]
    return np.asarray(length + fields[..., DATE] + fields[..., SPEAKER] if head else length)


@dataclass(frozen=True)
class LiveSegment:
    """A segment, which of its chunks are dead, its file ("" when only in memory), and embeddings.

    `neighbors` is the graph of its embeddings, if it was saved with one; `graph_file` holds a graph of its first
    rows.
    """

    segment: Segment
    dead: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    file: str = ""
    vectors: Halves | None = None
    neighbors: NearestNeighbors | None = None
    graph_file: Path | None = None

    def __len__(self) -> int:
        return len(self.segment)

    @lazy_property
    def alive(self) -> npt.NDArray[np.bool_]:
        """One flag per chunk."""
        flags = np.ones(len(self.segment), bool)
        flags[self.dead] = False
        return flags

    @lazy_property
    def totals(self) -> Totals:
        """What the living chunks add up to."""
        whole = self.segment.totals
        return whole.join(self.segment.add_up(self.dead), -1) if len(self.dead) else whole

    @lazy_property
    def speakers(self) -> Keys:
        """The terms of the speakers' names, sorted."""
        fields, terms = self.segment.fields[self.alive], self.segment.terms
        starts = terms.own_starts[:-1][self.alive]
        where = ranges(starts + fields[:, TITLE] + fields[:, DATE], fields[:, SPEAKER])
        return terms.keys[distinct(terms.own[where])]

    @lazy_property
    def term_counts(self) -> Frequencies:
        """In how many living chunks each term occurs."""
        return Frequencies(self.segment.terms, self.dead)

    @lazy_property
    def name_counts(self) -> Frequencies:
        """In how many living chunks each name occurs."""
        return Frequencies(self.segment.names, self.dead)

    def with_dead(self, more: Ints) -> "LiveSegment":
        """The same segment with more dead chunks."""
        return replace(self, dead=np.union1d(self.dead, more))

    def nearest(
        self, query: npt.NDArray[np.float32], k: int
    ) -> tuple[Ints, npt.NDArray[np.float64]]:
        """The k living chunks nearest to a vector, in no order, and their cosines."""
        if self.neighbors is None or self.vectors is None:
            assert self.matrix is not None
            return nearest(self.matrix, self.dead, query, k)
        # To ask for as many as the graph looks at anyway costs nothing more. A segment is rewritten when a quarter is
        # dead, so that 300 of 450 live if the dead lie evenly; if they lie around the query, all vectors are
        # multiplied. With 9 000 of 36 000 dead these take 2.5 and 22 ms, and asking for k + 9 000 took 142.
        rows = self.neighbors.search(query, max(k, min(k + len(self.dead), SEARCH_WIDTH)))
        rows = rows[self.alive[rows]][:k]
        if len(rows) < min(k, len(self) - len(self.dead)):
            return nearest(self.vectors, self.dead, query, k)
        cosines = np.vecdot(self.vectors[rows].astype(np.float32), query)
        return rows, cosines.astype(np.float64)

    @lazy_property
    def matrix(self) -> npt.NDArray[np.float32] | None:
        """The embeddings as floats, which multiply fast."""
        return None if self.vectors is None else self.vectors.astype(np.float32)
