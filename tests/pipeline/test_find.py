"""Find: what the steps that look for chunks promise, over a real index."""

import pytest

from headgate.index.indexes import Indexes
from headgate.pipeline.find import load_whole
from headgate.stages.retrieve import RetrievePolicy
from headgate.stores.memory.store import MemoryStore
from headgate.types import Chunk, Document

TEXTS = ("A lake without fish.", "The zither has many strings.", "A zither.", "Stones and rivers.")
CHUNKS = tuple(Chunk(f"c{n}", text, document=f"c{n}") for n, text in enumerate(TEXTS))


@pytest.fixture(scope="module")
def view():
    store = MemoryStore()
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in CHUNKS])
    return Indexes(store).snapshot("t", "main")


def load(chunks, view, **knobs):
    loaded = load_whole("zither", chunks, view, RetrievePolicy(**knobs), vector=None)
    return {c.chunk.id: c.score for c in loaded.kept}


def test_what_is_loaded_whole_has_the_score_that_retrieval_gives_it(view):
    scores = load(CHUNKS, view)
    assert list(scores) == ["c0", "c1", "c2", "c3"]
    assert scores["c2"] == 1.0
    assert 0 < scores["c1"] < 1
    assert scores["c0"] == scores["c3"] == 0


def test_all_that_is_loaded_whole_has_its_score_however_few_retrieval_keeps(view):
    assert load(CHUNKS, view, keep=1) == load(CHUNKS, view)


def test_without_an_index_all_that_is_loaded_whole_scores_alike():
    assert load(CHUNKS, None) == {"c0": 1.0, "c1": 1.0, "c2": 1.0, "c3": 1.0}


def test_of_a_collection_that_has_become_empty_nothing_is_loaded(view):
    assert load((), view) == {}
