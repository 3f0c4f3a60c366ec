"""The terms of a chunk's score, read from its notes."""

import pytest

from millgate import Millgate
from millgate.explain.describe import describe_terms, score_terms
from millgate.types.notes import Fate, Note, NoteCode, Stage

FOUND = Note(
    Stage.RETRIEVE, Fate.ADD, NoteCode.FOUND, 0.5, {"share": 0.4, "words": 0.3, "phrases": 0.2}
)
NAMED = Note(Stage.PROPAGATE, Fate.KEEP, NoteCode.SHARES_NAME, 0.7, {"gain": 0.4}, "Ada")
OPEN = Note(Stage.PENALIZE, Fate.KEEP, NoteCode.MOSTLY_IN_WINDOW, 0.2, {"overlap": 0.8})
GRADED = Note(
    Stage.GRADE,
    Fate.KEEP,
    NoteCode.GRADED,
    0.2,
    {"confidence": 0.45, "known": 0.9, "share": 0.125},
    "correct",
)


def test_terms_have_signs_and_end_in_the_score_and_what_the_model_makes_of_it():
    assert describe_terms([FOUND, NAMED, OPEN, GRADED]) == (
        "words +0.30, phrases +0.20, names +0.20, in the window -0.50 = 0.20; "
        "12% of the expected evidence; the collection knows 0.90; confidence 0.45"
    )


def test_a_chunk_without_a_word_of_the_query_has_terms_too():
    connected = Note(Stage.PROPAGATE, Fate.ADD, NoteCode.CONNECTED, 0.3, {"gain": 0.3})
    assert describe_terms([connected]) == "edges +0.30 = 0.30"
    assert describe_terms([]) == ""


def test_the_terms_of_every_candidate_add_up_to_its_score():
    with Millgate.open(":memory:") as gate:
        texts = [f"Ada paid refund {n} by card to Bob of hall {n % 3}." for n in range(30)]
        gate.add([{"id": f"d{n}", "text": text} for n, text in enumerate(texts)])
        made = gate.context("Which refund did Ada pay in hall 2?", window=[texts[4]], budget=300)
    for candidate in made.trace.candidates:
        total = sum(score_terms(candidate.notes).values())
        assert total == pytest.approx(candidate.notes[-1].score, abs=0.001)
