"""Which lines of a conversation can answer."""

import pytest

from millgate.index.indexes import Indexes
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.ranking.score import cues
from millgate.stores.temporary import TemporaryStore
from millgate.types import Chunk, Document

BY = {"question": 0.5, "other_speaker": 0.1}


@pytest.mark.parametrize(
    ("line", "share"),
    [
        ("I moved to Oslo.", 1.0),
        ("Where did you move?", 0.5),
        ("Where to? I moved to Oslo.", 1.0),
        ("Do you like it? [shares a photo: a pier]", 0.5),
        ('She said "really?"', 0.5),
        ("去哪里？", 0.5),
        ("", 1.0),
    ],
)
def test_a_line_that_asks_seldom_tells(line, share):
    assert cues("what is new", [f"[1 May] Ann: {line}"], "english", **BY) == [share]


@pytest.mark.parametrize(
    ("query", "want"),
    [
        ("Where does Ann live?", [1.0, 0.1]),
        ("What is Ben's job?", [0.1, 1.0]),
        ("How did Ann and Ben meet?", [1.0, 1.0]),
        ("Who is tired?", [1.0, 1.0]),
    ],
)
def test_a_question_that_names_one_speaker_is_answered_by_that_one(query, want):
    assert cues(query, ["Ann: in Oslo", "Ben: a baker"], "english", **BY) == want


def test_the_answer_stands_before_the_question_in_the_ranking():
    lines = ["Did you buy the zither?", "I did buy the zither.", "Nice.", "Rain again.", "Bye now."]
    store = TemporaryStore()
    chunks = [Chunk(f"c{n}", f"[1 May] {'AB'[n % 2]}nn: {x}") for n, x in enumerate(lines)]
    store.put("t", [Document(c.id, chunks=(c,)) for c in chunks])
    view = Indexes(store).snapshot("t", "main")
    found = retrieve("who wanted to buy the zither", view, RetrievePolicy())
    plain = PropagatePolicy(question_factor=1.0, other_speaker_factor=1.0)
    before = {c.chunk.id: c.score for c in propagate(found, "buy the zither", view, plain).kept}
    after = propagate(found, "buy the zither", view, PropagatePolicy(question_factor=0.25)).kept
    assert {c.chunk.id: c.score for c in after}["c0"] == pytest.approx(before["c0"] / 4)
    assert [c.score for c in after] == sorted((c.score for c in after), reverse=True)
