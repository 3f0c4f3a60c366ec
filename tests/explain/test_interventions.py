"""What was done to a call of a model, in words, with what would have left it undone."""

from dataclasses import replace

import pytest

from headgate.explain.interventions import interventions
from headgate.notes import Stage
from headgate.testing.samples import trace
from headgate.types import Step


def done(stage, **facts):
    made = replace(trace("1"), steps=(Step(stage, 0.0, facts=facts),))
    return [(one.what, one.change) for one in interventions(made)]


@pytest.mark.parametrize(
    ("rung", "what"),
    [("note", "a note was added"), ("list", "a note with all that was tried"), ("end", "the turn was ended")],
)  # fmt: skip
def test_a_rung_of_the_ladder_says_at_how_many_copies_it_would_not_have_come(rung, what):
    ((said, change),) = done(Stage.CIRCLES, rung=rung, copies=4, reason="the same call")
    assert said.startswith(what)
    assert said.endswith(": the same call")
    assert change.startswith(
        f"it would have waited with circles.rungs.{rung} = 5 (it was reached at 4)"
    )


@pytest.mark.parametrize(
    ("scope", "who"), [("session", "resume s1"), ("key", "resume --key s1"), ("tenant", "resume --all")]
)  # fmt: skip
def test_a_cap_names_who_can_be_resumed(scope, who):
    ((said, change),) = done(Stage.FUSE, state="paused", scope=scope, name="s1", reason="spent")
    assert said == "paused: spent"
    assert change.startswith(f"a larger fuse.caps.{scope} lets more through;")
    assert change.endswith(who)


def test_a_fuse_that_is_open_did_nothing():
    assert done(Stage.FUSE, state="open", scope="session", name="s1") == []


def test_a_cut_says_how_much_and_which_repetition_stays():
    ((said, change),) = done(Stage.CUT, cut_chars=120.0, channel="content", reason="a loop")
    assert said == "120 characters were cut from content: a loop"
    assert (
        change
        == "it would have passed if the request had asked for the repetition, or in fenced code"
    )


def test_one_line_that_was_folded_is_one():
    ((said, _),) = done(Stage.FOLD, lines=1.0, tokens=12.0, source="a.py")
    assert said == "1 line was folded, 12 tokens: they stand in a.py"


def test_other_steps_are_no_interventions():
    assert done(Stage.RETRIEVE, rung="note", copies=1) == []
