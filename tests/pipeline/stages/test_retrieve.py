"""Retrieve: how far it looks, and how words, feedback and embeddings are joined. Its kernels have their own tests."""

import numpy as np
import pytest

from millgate.index.indexes import Indexes
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Document
from millgate.types.notes import Stage

HUES = ("red", "green", "blue")
PLAIN = {"phrase": 0, "head_weight": 0, "feedback": 0}


class Hues:
    """An embedder that knows three colors."""

    name, dimension = "hues", 3

    def embed(self, texts):
        vectors = np.array([[1.0 * (hue in text) for hue in HUES] for text in texts], np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def view_of(*texts, embedder=None):
    store = TemporaryStore()
    chunks = [Chunk(f"c{n}", text, document=f"c{n}") for n, text in enumerate(texts)]
    store.put("t", [Document(chunk.id, chunks=(chunk,)) for chunk in chunks])
    return Indexes(store, embedder=embedder).snapshot("t", "main")


@pytest.fixture(scope="module")
def hues():
    texts = ("a red kite", "a green field", "blue and green water", "no color at all", "red")
    return view_of(*texts, embedder=Hues())


def scores(found):
    return {c.chunk.id: c.score for c in found.kept}


def every(query, view, *, vector=None, **knobs):
    return retrieve(query, view, RetrievePolicy(**knobs), vector=vector).scores.every


def test_how_many_embeddings_count_does_not_touch_the_score_by_words():
    view = view_of(*(f"zither pump number {n}" for n in range(9)), "lake")
    assert scores(retrieve("zither pump", view, RetrievePolicy(dense_depth=1))) == scores(
        retrieve("zither pump", view, RetrievePolicy())
    )


def test_similarity_counts_as_much_as_words_leave_open(hues):
    """Each of the nearest gets what it has above .75 of the similarity of the best chunk by words."""
    vector = [0.36, 0.48, 0.8]  # so that the farthest of the four is not at a cosine of 0
    ords, cosines = hues.nearest(vector, 4)
    share = (cosines - cosines.min()) / (cosines.max() - cosines.min())
    words = every("field castle", hues, **PLAIN)
    # nobody has the castle, a term as rare as can be: idf is ln 12 beside ln 4 of the field
    whole = 2.2 * (np.log1p(5.5 / 0.5) + np.log1p(4.5 / 1.5))
    left_open = 1 - words.max() / whole
    least = 0.75 * share[ords == words.argmax()]
    assert (share < least).any()
    want = words.copy()
    want[ords] += 0.5 * left_open * words.max() * np.maximum(share - least, 0)
    got = every("field castle", hues, vector=vector, dense_depth=4, **PLAIN)
    assert got == pytest.approx(want)


def test_all_of_a_similarity_counts_where_the_best_chunk_by_words_is_far(hues):
    words = every("kite castle", hues, **PLAIN)
    got = every("kite castle", hues, vector=[0.0, 0.6, 0.8], dense_depth=4, **PLAIN)
    bare = every("kite castle", hues, vector=[0.0, 0.6, 0.8], dense_depth=4, dense_least=0, **PLAIN)
    assert got.tolist() == bare.tolist() != words.tolist()


def test_a_query_without_a_known_word_is_answered_by_similarity_alone(hues):
    found = retrieve("zither", hues, RetrievePolicy(), vector=[0.0, 0.6, 0.8])
    assert [c.chunk.id for c in found.kept] == ["c2", "c1"]
    assert scores(found)["c2"] == 1.0
    # propagation starts there
    assert hues.ids(found.scores.seeds) == ["c2", "c1"]
    assert found.scores.strength.tolist() == found.scores.every[found.scores.seeds].tolist()


def test_propagation_starts_from_what_words_found_where_they_found_something(hues):
    found = retrieve("kite", hues, RetrievePolicy(), vector=[0.0, 0.6, 0.8])
    assert hues.ids(found.scores.seeds) == ["c0"]


def test_a_share_is_the_part_of_the_known_weight_that_a_chunk_holds():
    view = view_of("turbine pump", "turbine lake", "pump river", "stone harbor")
    found = retrieve("turbine turbine pump castle", view, RetrievePolicy(**PLAIN))
    share = {c.chunk.id: c.number(Stage.RETRIEVE, "share") for c in found.kept}
    # all terms are as rare and all texts as long; once in a text is 1 / (1 + 1.2) of the most
    assert share == pytest.approx({"c0": 3 / 3 / 2.2, "c1": 2 / 3 / 2.2, "c2": 1 / 3 / 2.2})


def test_the_best_are_kept_and_the_best_of_all_scores_one():
    view = view_of("zither", "zither river", "zither river lake", "stone")
    found = retrieve("zither", view, RetrievePolicy(keep=2, **PLAIN))
    assert list(scores(found)) == ["c0", "c1"]
    assert scores(found)["c0"] == 1.0 > scores(found)["c1"]


ECHOES = ("zither strings bridge", "zither strings bridge wood", "strings bridge", "lake", "river")


@pytest.mark.parametrize("weight", [0.25, 0.5, 2.0])
def test_feedback_adds_at_most_its_weight_of_the_best_score(weight):
    view = view_of(*ECHOES)
    knobs = {"feedback_common": 1.0, "feedback_agreement": 0}
    first = every("zither", view, feedback=0, **knobs)
    gain = every("zither", view, feedback=weight, **knobs) - first
    assert gain.max() == pytest.approx(weight * first.max())
    assert gain[2] > 0 == gain[3]


def test_the_best_chunk_agrees_where_it_has_the_highest_feedback_itself():
    view = view_of("zither strings bridge", "strings lake", "stone", "river", "harbor")
    knobs = {"feedback_common": 1.0, "feedback_agreement": 1}
    assert every("zither", view, **knobs)[1] > 0


def test_the_best_chunk_agrees_from_a_share_of_the_highest_feedback_on():
    view = view_of(*ECHOES)
    first = every("zither", view, feedback=0)

    def gain(agreement):
        knobs = {"feedback_common": 1.0, "feedback_agreement": agreement}
        return every("zither", view, **knobs) - first

    whole = gain(0)
    share = whole[first.argmax()] / whole.max()
    assert 0 < share < 1
    assert gain(share - 0.01).tolist() == whole.tolist()
    assert not gain(share + 0.01).any()


@pytest.mark.parametrize("knobs", [{"feedback_common": 0.5}, {"feedback_cap": 2}])
def test_terms_that_too_many_chunks_hold_give_no_feedback(knobs):
    """Strings and bridge stand in three of five, which is above half of them and above two."""
    view = view_of(*ECHOES)
    open_to_all = {"feedback_common": 1.0, "feedback_agreement": 0}
    assert every("zither", view, **open_to_all)[2] > 0
    assert every("zither", view, **open_to_all | knobs)[2] == 0


def test_terms_in_just_as_many_chunks_as_allowed_give_feedback():
    knobs = {"feedback_common": 0.6, "feedback_agreement": 0}
    assert every("zither", view_of(*ECHOES), **knobs)[2] > 0


def test_a_phrase_is_looked_for_in_the_best_chunks_alone():
    view = view_of("stone pump", "stone lake pump river harbor", "lake")
    lone = every("stone pump", view, phrase_depth=1, head_weight=0, feedback=0)
    plain = every("stone pump", view, **PLAIN)
    assert lone[0] > plain[0]
    assert lone[1] == plain[1]


def test_feedback_asks_first_for_what_the_best_chunk_says_most():
    view = view_of("zither strings strings bridge", "strings lake", "bridge lake", "stone", "river")
    knobs = {"feedback_common": 1.0, "feedback_agreement": 0, "feedback_terms": 1}
    found = every("zither", view, **knobs)
    assert found[1] > 0 == found[2]
