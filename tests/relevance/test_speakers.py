"""Which lines of a conversation are by someone else than the one whom a question names."""

import pytest

from headgate.index.indexes import Indexes
from headgate.relevance.speakers import are_by_others
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.types import Chunk, Document


@pytest.mark.parametrize(
    ("query", "others"),
    [
        ("Where does Ann live?", [False, True]),
        ("What is Ben's job?", [True, False]),
        ("How did Ann and Ben meet?", [False, False]),
        ("Who is tired?", [False, False]),
    ],
)
def test_a_question_that_names_one_speaker_is_answered_by_that_one(query, others):
    assert are_by_others(query, ["Ann: in Oslo", "Ben: a baker"], "english") == others


def test_a_line_of_the_one_who_was_asked_about_stands_before_that_of_another():
    lines = [
        "I did buy the zither.",
        "I bought the zither too.",
        "Nice.",
        "Rain again.",
        "Bye now.",
    ]
    store = MemoryStore()
    chunks = [Chunk(f"c{n}", f"[1 May] {'AB'[n % 2]}nn: {x}") for n, x in enumerate(lines)]
    store.put("t", [Document(c.id, chunks=(c,)) for c in chunks])
    view = Indexes(store).snapshot("t", "main")
    query = "did Ann buy the zither"
    found = retrieve(query, view, RetrievePolicy())
    plain = PropagatePolicy(other_speaker_factor=1.0)
    before = {c.chunk.id: c.score for c in propagate(found, query, view, plain).kept}
    after = propagate(found, query, view, PropagatePolicy(other_speaker_factor=0.25)).kept
    scores = {c.chunk.id: c.score for c in after}
    assert scores["c1"] == pytest.approx(before["c1"] / 4)
    assert scores["c0"] == pytest.approx(before["c0"])
    assert [c.score for c in after] == sorted(scores.values(), reverse=True)
