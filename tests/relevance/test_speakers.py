"""Whose lines of a conversation can answer."""

import pytest

from headgate.index.indexes import Indexes
from headgate.relevance.speakers import others_speak
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.types import Chunk, Document


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("Where does Ann live?", [False, True]),
        ("What is Ben's job?", [True, False]),
        ("How did Ann and Ben meet?", [False, False]),
        ("Who is tired?", [False, False]),
    ],
)
def test_a_question_that_names_one_speaker_is_answered_by_that_one(query, want):
    assert others_speak(query, ["Ann: in Oslo", "Ben: a baker"], "english") == want


def test_the_lines_of_another_speaker_lose_a_part_of_their_score():
    lines = ["I did buy the zither.", "You did buy the zither.", "Nice.", "Rain again.", "Bye now."]
    store = MemoryStore()
    chunks = [Chunk(f"c{n}", f"[1 May] {'AB'[n % 2]}nn: {x}") for n, x in enumerate(lines)]
    store.put("t", [Document(c.id, chunks=(c,)) for c in chunks])
    view = Indexes(store).snapshot("t", "main")
    query = "did Ann buy the zither"
    found = retrieve(query, view, RetrievePolicy())
    plain = PropagatePolicy(other_speaker_factor=1.0)
    before = {c.chunk.id: c.score for c in propagate(found, query, view, plain).kept}
    after = propagate(found, query, view, PropagatePolicy(other_speaker_factor=0.25)).kept
    assert {c.chunk.id: c.score for c in after}["c1"] == pytest.approx(before["c1"] / 4)
    assert [c.score for c in after] == sorted((c.score for c in after), reverse=True)
