"""What was done to a call of a model, in words, with what would have left it undone."""

from dataclasses import replace

import pytest

from millgate.explain.describe import describe
from millgate.testing.samples import trace
from millgate.types import Step
from millgate.types.notes import Stage


def done(stage, **facts):
    made = replace(trace("1"), steps=(Step(stage, 0.0, facts=facts),))
    return [(one.what, one.change) for one in describe(made).done]


@pytest.mark.parametrize(
    ("rung", "what"),
    [("note", "a note was added"), ("list", "a note with all that was tried"), ("end", "the turn was ended")],
)  # fmt: skip
def test_a_rung_of_the_ladder_says_at_how_many_copies_it_would_not_have_come(rung, what):
    ((said, change),) = done(Stage.CIRCLES, rung=rung, copies=4, reason="the same call")
    assert said.startswith(what)
    assert said.endswith(": the same call")
    assert change.startswith(
        f"it would have waited with circles.rungs.{rung} = 5 (there were 4 copies)"
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


def test_a_context_in_front_of_the_question_is_told_with_its_trace():
    ((said, change),) = done(Stage.MODEL, context_trace="992060f201b2", context_tokens=979.0)
    assert said == "979 tokens of context were put in front of the question: millgate why 992060f2"
    assert change == "to add none: x-millgate-context: off, or millgate wrap --no-inject"


def test_a_context_that_was_looked_up_and_brought_nothing_is_told_with_its_trace():
    ((said, change),) = done(Stage.MODEL, context_trace="992060f201b2")
    assert said == "context was looked up for the question, and none was added: millgate why 992060f2"  # fmt: skip
    assert change == "millgate why 992060f2 CHUNK says what would have let a chunk in"


def test_context_of_an_earlier_question_is_told_if_this_call_brought_none():
    def told(*steps):
        return [one.what for one in describe(replace(trace("1"), steps=steps)).done]

    window = Step(Stage.WINDOW, 0.0, facts={"injected": 1200.0})
    assert told(Step(Stage.MODEL, 0.0), window) == [
        "1,200 tokens of context stand in this request from before; this call added none to them"
    ]
    brought = Step(Stage.MODEL, 0.0, facts={"context_trace": "a", "context_tokens": 9.0})
    assert len(told(brought, window)) == 1
    put_back = Step(Stage.COMPACTION, 0.0, facts={"put_back": 9.0})
    assert len(told(Step(Stage.MODEL, 0.0), window, put_back)) == 1
    assert told(window) == told(Step(Stage.MODEL, 0.0), Step(Stage.WINDOW, 0.0)) == []


def test_a_repair_for_the_prompt_cache_is_told():
    ((said, _),) = done(Stage.MODEL, repaired="the order of the tools")
    assert said.endswith("repaired so that the prompt cache holds: the order of the tools")


def test_one_line_that_was_folded_is_one():
    ((said, _),) = done(Stage.FOLD, lines=1.0, tokens=12.0, source="a.py")
    assert said == "1 line was folded, 12 tokens: they stand in a.py"


def test_other_steps_are_no_interventions():
    assert done(Stage.RETRIEVE, rung="note", copies=1) == []
