"""Several: one query over more than one collection."""

import pytest

from millgate import Millgate
from millgate.calls.loop import BackgroundLoop, LoopCalls
from millgate.gateway import wiring
from millgate.index.indexes import Indexes
from millgate.pipeline.engine import RequestRun, by_collection
from millgate.pipeline.stages.propagate import merge
from millgate.ranking.model import chances
from millgate.ranking.question import ask
from millgate.settings import Settings
from millgate.stores.temporary import TemporaryStore
from millgate.types import Candidate, Chunk, ContextBudget, Document, Request
from millgate.types.notes import Fate, NoteCode, Stage

NOISE = [
    {"id": f"n{n}", "text": f"Note {n} about nothing of {n * 7} and the rest of it."}
    for n in range(300)
]


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as opened:
        opened.add(
            [*NOISE, {"id": "tide", "text": "The tide in Porto turns at six."}], collection="docs"
        )
        opened.add_turns("monday", ["Ann: the tide in Porto turned at seven", "Ben: good night"])
        opened.add([{"id": "secret", "text": "The tide in Porto never turns."}], collection="other")
        opened.for_tenant("rival").add(
            [{"id": "theirs", "text": "The tide in Porto turns at noon."}], collection="docs"
        )
        yield opened


def test_a_query_over_several_collections_finds_what_each_of_them_holds(gate):
    made = gate.context(
        "when does the tide turn in Porto?", collection=["docs", "turns"], budget=300
    )
    assert {chunk.collection for chunk in made.chunks} == {"docs", "turns"}
    assert "six" in made.text
    assert "seven" in made.text
    assert made.degraded == ()


def test_neither_another_collection_nor_another_tenant_takes_part(gate):
    made = gate.context(
        "when does the tide turn in Porto?", collection=["docs", "turns"], budget=300
    )
    seen = {candidate.chunk.id for candidate in made.trace.candidates}
    assert not seen & {"secret", "theirs"}


def test_the_trace_names_all_of_them_and_is_replayed_and_explained(gate):
    made = gate.context(
        "when does the tide turn in Porto?", collection=["docs", "turns"], budget=300
    )
    stored = gate.trace(made.trace.id)
    assert stored.request.collections == ("docs", "turns")
    assert gate.replay(stored.id, {}).drift == ()
    assert gate.why(stored.id, "tide").entered


def test_a_review_names_all_of_them(gate):
    made = gate.context("I want to die in Bergen", collection=["docs", "turns"])
    assert gate.reviews.review(made.review).collection == "docs, turns"


def test_one_of_several_is_that_one_alone(gate):
    query = "when does the tide turn in Porto?"
    one, same = (gate.context(query, collection=name) for name in ("docs", ["docs"]))
    assert one.text == same.text
    assert same.trace.request.collection == "docs"


def test_an_unknown_one_adds_nothing(gate):
    query = "when does the tide turn in Porto?"
    both = gate.context(query, collection=["docs", "nowhere"], budget=300)
    assert [c.id for c in both.chunks] == [
        c.id for c in gate.context(query, collection="docs", budget=300).chunks
    ]


def found(id, score, collection):
    chunk = Chunk(id, id, collection=collection)
    return Candidate(chunk, score).with_note(Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND)


def test_rankings_are_merged_by_score_and_a_shared_id_stands_once():
    left = [found("a", 1.0, "x"), found("b", 0.4, "x")]
    right = [found("c", 1.0, "y"), found("b", 0.7, "y"), found("d", 0.1, "y")]
    merged = merge([left, right])
    assert [(c.chunk.id, c.score) for c in merged] == [
        ("a", 1.0),
        ("c", 1.0),
        ("b", 0.7),
        ("d", 0.1),
    ]


def test_an_id_that_scores_alike_in_two_collections_is_that_of_the_earlier():
    [merged] = merge([[found("a", 0.5, "x")], [found("a", 0.5, "y")]])
    assert merged.chunk.collection == "x"


@pytest.mark.parametrize("window", [None, 100_000])
def test_two_texts_under_one_id_in_two_collections_are_both_found(window):
    rows = {"docs": "The tide in Porto turns at six.", "notes": "The tide in Porto is called Ria."}
    with Millgate.open(":memory:") as gate:
        for name, text in rows.items():
            gate.add([{"id": "tide", "text": text}], collection=name)
        whole = window and ContextBudget(window, 0)
        made = gate.context("the tide in Porto", collection=list(rows), context_budget=whole)
        assert {chunk.id: chunk.text for chunk in made.chunks} == {
            "tide": rows["docs"],
            "notes:tide": rows["notes"],
        }
        assert gate.why(made.trace.id, "notes:tide").entered


def test_what_comes_from_no_collection_that_was_asked_goes_with_the_first():
    found = [Candidate(Chunk(id, "x", collection=id), 1.0) for id in ("docs", "turns", "facts")]
    parted = by_collection(found, ("docs", "turns"))
    assert {name: [c.chunk.id for c in own] for name, own in parted.items()} == {
        "docs": ["docs", "facts"],
        "turns": ["turns"],
    }


def test_a_single_collection_has_all_of_them():
    found = [Candidate(Chunk("a", "x", collection="elsewhere"), 1.0)]
    assert by_collection(found, ("docs",)) == {"docs": found}


PARTLY = "tide in Lisbon"
LINE = "The tide in Porto turns at six."


@pytest.fixture(scope="module")
def views():
    """One collection where a line is rare, and one where every text says the same."""
    fillers = {
        "docs": [row["text"] for row in NOISE],
        "tides": [f"The tide in Porto turns at {n}." for n in range(300)],
    }
    store = TemporaryStore()
    for name, texts in fillers.items():
        chunks = [Chunk(f"{name}{n}", text, collection=name) for n, text in enumerate(texts)]
        chunks.append(Chunk(f"{name}-line", LINE, collection=name))
        store.put("t", [Document(c.id, collection=name, chunks=(c,)) for c in chunks])
    indexes = Indexes(store)
    return {name: indexes.snapshot("t", name) for name in fillers}


@pytest.fixture
def run(views):
    """A request that asks both collections."""
    made = wiring.build(Settings(store=":memory:"))
    calls = LoopCalls(BackgroundLoop())
    asked = RequestRun(made.engine.resources, made.engine.policy, Request(PARTLY), calls)
    asked.views = views
    yield asked
    made.close()


def confidences(run, candidates):
    return [chance.known for chance in run.weigh(candidates)]


def alone(view, candidate):
    """The chance that one collection knows, by a candidate in its own words."""
    [chance] = chances(ask(PARTLY, view), [candidate], view)
    return chance.known


def test_each_candidate_is_graded_in_the_words_of_its_own_collection(run, views):
    lines = {name: Candidate(Chunk(name, LINE, collection=name), 1.0) for name in views}
    docs, tides = (alone(views[name], lines[name]) for name in ("docs", "tides"))
    assert docs != tides
    asked = [lines["tides"], lines["docs"], lines["tides"]]
    assert confidences(run, asked) == [tides, docs, tides]


def test_what_is_from_no_collection_is_graded_in_the_words_of_the_first(run, views):
    fact = Candidate(Chunk("fact", LINE, collection="facts"), 1.0)
    assert confidences(run, [fact]) == [alone(views["docs"], fact)]
