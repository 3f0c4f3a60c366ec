import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import grade_with

from millgate.errors import ConfigError, UpstreamError
from millgate.pipeline.stages.grade import (
    Action,
    Bands,
    Graded,
    GradePolicy,
    decide_shown,
    outside_candidates,
)
from millgate.types import Candidate, Chunk, Sifted
from millgate.types.notes import NoteCode

POLICY = GradePolicy()


class Fixed:
    """A grader that gives the confidences it was told, by chunk id or for each in turn."""

    bands = Bands(upper=0.7, lower=0.3, floor=0.1)

    def __init__(self, marks):
        self.marks = marks

    async def grade(self, query, candidates):
        if isinstance(self.marks, dict):
            return [self.marks.get(c.chunk.id, 0.5) for c in candidates]
        return self.marks


def found(count, text="some text", **fields):
    return [Candidate(Chunk(f"c{n}", text, **fields), 1 - n / 10) for n in range(count)]


def ids(candidates):
    return [c.chunk.id for c in candidates]


@pytest.mark.parametrize(
    ("marks", "action", "kept"),
    [
        ([0.9, 0.2, 0.05], Action.CORRECT, ["c0", "c1"]),
        ([0.7, 0.7, 0.7], Action.CORRECT, ["c0", "c1", "c2"]),
        ([0.2, 0.5, 0.05], Action.AMBIGUOUS, ["c0", "c1"]),
        ([0.29, 0.1, 0.0], Action.INCORRECT, []),
        ([0.0, 0.0, 0.0], Action.INCORRECT, []),
    ],
)
async def test_the_best_confidence_decides_the_action(marks, action, kept):
    graded = await grade_with(Fixed(marks), "q", found(3), POLICY)
    assert graded.action is action
    assert ids(graded.sifted.kept) == kept
    assert len(graded.sifted.kept) + len(graded.sifted.dropped) == 3


async def test_each_note_tells_the_confidence():
    graded = await grade_with(Fixed([0.9, 0.01]), "q", found(2), POLICY)
    kept, dropped = graded.sifted.kept[0].notes[-1], graded.sifted.dropped[0].notes[-1]
    assert (kept.stage, kept.numbers["confidence"]) == ("grade", 0.9)
    assert dropped.code is NoteCode.LOW_CONFIDENCE
    assert graded.sifted.kept[0].score == 1.0


async def test_settings_win_over_the_graders_own_bands():
    strict = GradePolicy(upper=0.95, lower=0.9)
    graded = await grade_with(Fixed([0.92, 0.01]), "q", found(2), strict)
    assert graded.action is Action.AMBIGUOUS
    assert ids(graded.sifted.kept) == ["c0"]
    loose = GradePolicy(lower=0.0)
    assert (await grade_with(Fixed([0.0]), "q", found(1), loose)).action is Action.AMBIGUOUS


def test_bands_out_of_order_are_refused():
    with pytest.raises(ConfigError, match="lower <= upper"):
        GradePolicy(upper=0.2, lower=0.5)


async def test_no_candidates_are_a_valid_empty_answer():
    graded = await grade_with(Fixed([]), "q", [], POLICY)
    assert graded.action is Action.INCORRECT


async def test_grading_can_be_off():
    graded = await grade_with(Fixed([]), "q", found(2), GradePolicy(enabled=False))
    assert ids(graded.sifted.kept) == ["c0", "c1"]
    assert graded.action is Action.CORRECT


@pytest.mark.parametrize(
    "marks", [[], [0.5], [0.5] * 3, [0.5, 1.5], [0.5, -0.1], [0.5, float("nan")]]
)
async def test_a_grader_that_answers_nonsense_is_an_upstream_error(marks):
    with pytest.raises(UpstreamError):
        await grade_with(Fixed(marks), "q", found(2), POLICY)


@pytest.mark.parametrize(
    ("action", "searched", "in_danger", "asked"),
    [
        (Action.CORRECT, None, False, False),
        (Action.AMBIGUOUS, None, False, False),
        (Action.INCORRECT, None, False, True),
        (Action.INCORRECT, Action.INCORRECT, False, True),
        (Action.INCORRECT, Action.AMBIGUOUS, False, False),
        (Action.CORRECT, None, True, True),
    ],
)
def test_a_person_is_asked_when_nothing_else_helps(action, searched, in_danger, asked):
    graded = Graded(Sifted(), action, {"a": 0.01, "b": 0.03, "c": 0.02, "d": 0.0})
    outside = searched and Graded(Sifted(), searched)
    verdict = decide_shown((), graded, outside, in_danger=in_danger)
    assert verdict.asks_person is asked
    named = "b (0.03), c (0.02), a (0.01)" in verdict.reason
    assert named is (asked and not in_danger)


def test_what_a_search_brings_takes_turns_with_what_was_found():
    here, there = found(2), [Candidate(Chunk(f"w{n}", "text"), 1.0) for n in range(3)]
    graded = Graded(Sifted(kept=tuple(here)), Action.AMBIGUOUS)
    outside = Graded(Sifted(kept=tuple(there)), Action.CORRECT)
    verdict = decide_shown(here, graded, outside)
    assert ids(verdict.kept) == ["c0", "w0", "c1", "w1", "w2"]
    assert (verdict.action, verdict.fallback) == (Action.CORRECT, "search")


def test_without_grades_what_fits_is_shown_as_it_is():
    rows = found(2)
    assert decide_shown(rows).kept == rows
    assert decide_shown((), nothing="all is in the window").reason == "all is in the window"


def test_what_comes_from_outside_carries_no_admission():
    sifted = outside_candidates([Chunk("w", "text", source="web", admission="forged")])
    assert sifted.kept[0].chunk.admission is None


IDS = st.sampled_from(["a", "b", "web:a", "web:web:a", "web:b"])


@given(st.lists(IDS, max_size=8), st.sets(IDS))
def test_what_comes_from_outside_takes_no_id_that_is_taken_and_none_twice(given_ids, taken):
    chunks = [Chunk(id, f"text of {id}", source="web") for id in given_ids]
    sifted = outside_candidates(chunks, taken=taken)
    assert sifted.kept == sifted.added
    found = [c.chunk.id for c in sifted.kept]
    assert len({*found} - taken) == len(found)
    assert [c.chunk.text for c in sifted.kept] == [
        f"text of {id}" for id in dict.fromkeys(given_ids)
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
async def test_nothing_is_lost_and_nothing_is_admitted(marks):
    rows = found(len(marks), admission="token")
    graded = await grade_with(Fixed(marks), "q", rows, POLICY)
    everyone = graded.sifted.kept + graded.sifted.dropped
    assert sorted(ids(everyone)) == sorted(ids(rows))
    assert {id(c.chunk) for c in everyone} == {id(c.chunk) for c in rows}
