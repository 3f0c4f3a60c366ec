"""The published gating pipeline as a baseline: ranks are fused, signals travel, and entropy fills the budget.

The sources are BM25 (bm25.py) and, with an embedder, the nearest vectors. The best 20 chunks of both send signals to
the chunks that share a rare proper name with them; a name in n chunks is an edge of weight 1 / n. Beside it is a
random order of the same candidates, so that what the order by entropy does can be told from what the candidates do.
As published, a token is four characters, and framing is free.
"""

import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

import numpy as np

from millgate.evaluate import bm25
from millgate.evaluate.labeled import Query
from millgate.gateway import Millgate
from millgate.protocols import Snapshot
from millgate.published.entropy_gating import Row, gate_by_entropy, prune_to_budget
from millgate.ranking.name_postings import find_name_postings

SEEDS = 20  # the design names none
RARE = 10  # chunks that may hold a name which leads on: in more, its edges are too weak to fire


class PublishedGating:
    """One collection, as the published pipeline reads it."""

    def __init__(self, view: Snapshot) -> None:
        self.view = view
        ids = view.ids(np.arange(view.size))
        chunks = {chunk.id: chunk for chunk in view.read(ids)}
        self.rows: list[Row] = [
            {"id": id, "content": chunks[id].text, "chunk": chunks[id]} if id in chunks else {"id": id}
            for id in ids
        ]  # fmt: skip
        self.edges = cache(self._find_edges)

    def fill(
        self, query: Query, gate: Millgate, budget: int
    ) -> tuple[Sequence[Row], Sequence[Row]]:
        """What the pipeline shows in a budget, and what a random order of the same candidates does."""
        words = bm25.rank(query["text"], self.view)
        rankings = [self.view.find([candidate.chunk.id for candidate in words])]
        if (vector := gate.embed(query["text"])) is not None:
            rankings.append(self.view.nearest(vector, bm25.DEPTH)[0])
        shown, report = gate_by_entropy(
            self.rows, rankings, self.edges, seeds=SEEDS, max_tokens=budget
        )
        dice = random.Random(query["_id"])  # noqa: S311  no secret
        gone = set(report["evicted_ids"])
        pool = [*shown, *(row for row in self.rows if row["id"] in gone)]
        drawn = [{**row, "entropy": dice.random()} for row in pool]
        return shown, prune_to_budget(drawn, budget, 0)

    def _find_edges(self, node: int) -> list[tuple[int, float]]:
        weights: Counter[int] = Counter()
        names = find_name_postings(self.view, np.array([node]), limit=RARE, share=0.5)
        spread = np.bincount(names.which)
        for other, which in zip(names.ords.tolist(), names.which.tolist(), strict=True):
            weights[other] += 1 / spread[which]
        return [(other, min(1.0, weight)) for other, weight in weights.items() if other != node]
