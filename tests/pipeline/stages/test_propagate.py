"""Propagate: what shared names and given edges lead to. The kernels below it have tests of their own."""

from millgate.index.indexes import Indexes
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.ranking.score import find_seeds
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Document, Edge

TEXTS = (
    "A clerk of the harbor wrote it down.",
    "Sorrel keeps bees.",
    "Thyme keeps goats.",
    *(f"Filler number {n} about rivers." for n in range(20)),
)


def view_of(*texts):
    store = TemporaryStore()
    chunks = [Chunk(f"c{n}", text, document=f"c{n}") for n, text in enumerate(texts)]
    store.put("default", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])
    return Indexes(store).snapshot("default", "main")


def test_a_stronger_edge_lifts_its_chunk_higher():
    view, query, policy = view_of(*TEXTS), "harbor clerk", PropagatePolicy()
    found = retrieve(query, view, RetrievePolicy(feedback=0))
    edges = [Edge("harbor", "near", "c1", 1.0), Edge("harbor", "near", "c2", 0.4)]
    seeds = find_seeds(found, query, view, policy.seeds)
    wired = propagate(found, query, view, policy, seeds=seeds, edges=edges)
    scores = {c.chunk.id: c.score for c in wired.kept}
    assert scores["c0"] > scores["c1"] > scores["c2"] > 0


def test_an_edge_leads_to_the_chunk_whose_id_it_spells():
    store = TemporaryStore()
    texts = {
        "harbor": "The harbor opened late.",
        "README": "Thyme and rye.",
        "readme": "Goats and hay.",
    }
    texts |= {f"f{n}": f"Filler number {n} about rivers." for n in range(20)}
    store.put(
        "default",
        [Document(id, chunks=(Chunk(id, text, document=id),)) for id, text in texts.items()],
    )
    view = Indexes(store).snapshot("default", "main")
    query, policy = "harbor", PropagatePolicy()
    found = retrieve(query, view, RetrievePolicy(feedback=0))
    seeds = find_seeds(found, query, view, policy.seeds)
    edges = [Edge("harbor", "near", "readme", 1.0), Edge("harbor", "near", "ReadMe", 0.6)]
    wired = propagate(found, query, view, policy, seeds=seeds, edges=edges)
    assert [c.chunk.id for c in wired.added] == ["readme"]
    assert "README" not in {c.chunk.id for c in wired.kept}
