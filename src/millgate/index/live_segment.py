"""LiveSegment: a segment and which of its chunks are dead, since the segment itself never changes.

Every count leaves dead chunks out, and is computed once, on first use.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from millgate.calls.lazy import lazy_property
from millgate.index.arrays import Ints, Keys, ranges
from millgate.index.posting_list import Frequencies, living_counts
from millgate.index.segment import Segment, Totals
from millgate.index.vectors import SEARCH_WIDTH, Halves, NearestNeighbors, nearest
from millgate.ranking.arrays import distinct
from millgate.ranking.fields import DATE, SPEAKER, TITLE


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

    @lazy_property
    def case_counts(self) -> Ints:
        """How often each word stands inside a sentence, capitalized inside one, or small at a start."""
        return living_counts(self.segment.case, self.dead)

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
