"""A labeled set in a store: filled once, asked through gates of different settings, and by BM25 beside them."""

from collections.abc import Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Self

from millgate.evaluate import bm25
from millgate.evaluate.labeled import Labeled, Query, copies
from millgate.evaluate.shown import Piece, Truth, whole_pieces
from millgate.gateway import Millgate
from millgate.stores.temporary import TemporaryStore
from millgate.text.fence import fence_cost, frame
from millgate.types import Candidate, Trace

SETTINGS = "settings"  # as an embedder: the one that the settings name
Settings = Mapping[str, Any]
"""Settings by section, as `Millgate.open` takes them."""


def collections_of(labeled: Labeled) -> list[str]:
    """The collections of a set."""
    return sorted({str(row["collection"]) for row in labeled.rows})


def collection_of(query: Query) -> str:
    """The collection that a query is asked in."""
    return query.get("collection", "main")


class MeasuredStore(TemporaryStore):
    """A store for several gates, which keeps no traces. Everyone knows its secret, so that two runs count the same
    tokens for their fences.
    """

    def secret(self, tenant: str) -> bytes:  # noqa: D102  (see the class)
        return bytes(32)

    def save_traces(
        self, traces: Sequence[Trace], *, keep: int = 10_000, text: bool = True
    ) -> None:
        """Keep nothing: every context has its trace."""

    def close(self) -> None:
        """Stay open for the gates that are still open."""


class StoredSet:
    """A labeled set in a store, for gates of different settings one after the other; as a `with` block.

    `embedder` is a model as `embed.model` names it, or SETTINGS for the one that the settings name.
    """

    def __init__(self, labeled: Labeled, embedder: str = "none") -> None:
        self.labeled = labeled
        self._embed = {} if embedder == SETTINGS else {"embed": {"model": embedder, "url": ""}}
        self._copies = copies(labeled)
        self._costs: dict[str, int] = {}
        self._store = MeasuredStore()
        self._folder = TemporaryDirectory(prefix="millgate-eval-")  # the index, built once

    def __enter__(self) -> Self:
        with self.open() as gate:
            gate.add(self.labeled.rows)
            for collection in collections_of(self.labeled):
                gate.index(collection)
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def open(self, settings: Settings | None = None) -> Millgate:
        """A gate over the set."""
        return Millgate.open(
            self._folder.name, store=self._store, **{**self._embed, **(settings or {})}
        )

    def truth(self, query: Query) -> Truth:
        """What the labels say about a query."""
        id = query["_id"]
        return Truth(self.labeled.labels[id], self.labeled.answers.get(id, ()), self._copies)

    def fill_by_bm25(
        self, ranking: Sequence[Candidate], budget: int, gate: Millgate
    ) -> tuple[list[Piece], int]:
        """What BM25 shows in a budget, and the tokens it sends, counted and framed as `context()` does it."""
        framing = fence_cost(gate.count_tokens)
        inside = bm25.fill(ranking, budget - framing, lambda c: self._cost(c, gate))
        sent = sum(self._cost(c, gate) for c in inside) + (framing if inside else 0)
        return whole_pieces(inside), sent

    def _cost(self, candidate: Candidate, gate: Millgate) -> int:
        chunk = candidate.chunk
        if chunk.id not in self._costs:
            framed = frame(1, chunk.title, chunk.text) + "\n"
            self._costs[chunk.id] = gate.count_tokens(framed)
        return self._costs[chunk.id]
