"""Propagate: what shared names and given edges lead to. The kernels below it have tests of their own."""

import pytest

from headgate.index.indexes import Indexes
from headgate.stages.propagate import PropagatePolicy, find_seeds, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.types import Candidate, Chunk, Document, Edge, Sifted

TEXTS = (
    "A clerk of the harbor wrote it down.",
    "Sorrel keeps bees.",
    "Thyme keeps goats.",
    *(f"Filler number {n} about rivers." for n in range(20)),
)


def view_of(*texts):
    store = MemoryStore()
    chunks = [Chunk(f"c{n}", text, document=f"c{n}") for n, text in enumerate(texts)]
    store.put("default", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])
    return Indexes(store).snapshot("default", "main")


def test_a_stronger_edge_lifts_its_chunk_higher():
    view, query, policy = view_of(*TEXTS), "harbor clerk", PropagatePolicy()
    found = retrieve(query, view, RetrievePolicy(feedback=0))
    edges = [Edge("harbor", "near", "c1", 1.0), Edge("harbor", "near", "c2", 0.4)]
    seeds = find_seeds(found, query, view, policy)
    wired = propagate(found, query, view, policy, seeds=seeds, edges=edges)
    scores = {c.chunk.id: c.score for c in wired.kept}
    assert scores["c0"] > scores["c1"] > scores["c2"] > 0


@pytest.mark.parametrize("mode", ["entities", "fire"])
def test_an_edge_leads_to_the_chunk_whose_id_it_spells(mode):
    store = MemoryStore()
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
    query, policy = "harbor", PropagatePolicy(mode=mode)
    found = retrieve(query, view, RetrievePolicy(feedback=0))
    seeds = find_seeds(found, query, view, policy)
    edges = [Edge("harbor", "near", "readme", 1.0), Edge("harbor", "near", "ReadMe", 0.6)]
    wired = propagate(found, query, view, policy, seeds=seeds, edges=edges)
    assert [c.chunk.id for c in wired.added] == ["readme"]
    assert "README" not in {c.chunk.id for c in wired.kept}


def test_signals_go_to_the_lines_beside_a_line():
    lines = ["about it", "yes it is", "of course", "a good one", "it is late", "indeed", "well then"]  # fmt: skip
    view = view_of(*(f"[1 May] {'AB'[n % 2]}nn: {line}" for n, line in enumerate(lines)))
    assert view.conversational
    found = Sifted(kept=(Candidate(Chunk("c3", lines[3], document="c3"), 0.9),))
    policy = PropagatePolicy(mode="fire", hops=1, neighbor_weight=0.9)
    reached = {c.chunk.id for c in propagate(found, "zither", view, policy).added}
    assert {"c2", "c4"} <= reached
    assert "c0" not in reached


def test_a_name_that_two_chunks_share_wires_them_fully_and_one_of_three_does_not():
    texts = (
        "They met Marlow by the lock.",
        "Nobody asked Marlow again.",
        "They met Quayle by the lock.",
        "Nobody asked Quayle again.",
        "Then they heard Quayle laugh.",
    )
    view = view_of(*texts, *TEXTS[3:])
    policy = PropagatePolicy(mode="fire", hops=1)
    for first, others in (("c0", {"c1"}), ("c2", set())):
        found = Sifted(kept=(Candidate(Chunk(first, "", document=first), 0.9),))
        assert {c.chunk.id for c in propagate(found, "zither", view, policy).added} == others
