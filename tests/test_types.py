"""The nouns: what they refuse, split and render."""

import json
from dataclasses import replace

import pytest

from millgate.errors import InputError
from millgate.types import (
    Candidate,
    Chunk,
    Context,
    ContextBudget,
    Plan,
    Report,
    Request,
    Sifted,
    Step,
    Strategy,
    Tier,
    Trace,
    Window,
)
from millgate.types.check import unique_names
from millgate.types.notes import Fate, NoteCode, Stage

A = Candidate(Chunk("a", "kept text"), 0.9).with_note(
    Stage.GATE, Fate.KEEP, NoteCode.FITS, tokens=4, value=1.0
)
B = Candidate(Chunk("b", "dropped text"), 0.5).with_note(
    Stage.GATE, Fate.DROP, NoteCode.NO_ROOM, tokens=9, value=0.5
)


def context(text="<ref>kept text</ref>"):
    trace = Trace(
        id="t1",
        request=Request("q"),
        plan=Plan(False, Tier.HYBRID, Strategy.HYBRID, 50, reasoning="because."),
        steps=(Step(Stage.GATE, 0.1), Step(Stage.PENALIZE, 0.1, degraded="it broke")),
        candidates=(A, B),
    )
    report = Report(2, 1, 1, evicted_ids=("b",), reasons={"b": "no room"})
    return Context(text=text, chunks=(A.chunk,), token_estimate=4, trace=trace, report=report)


def test_a_note_changes_the_score_only_when_it_says_so():
    plain = (Stage.COMPOSE, Fate.KEEP, NoteCode.SHOWN)
    assert A.with_note(*plain).score == 0.9
    assert A.with_note(*plain, score=0.1).score == 0.1
    assert A.with_note(*plain, score=0.1).notes[-1].score == 0.1


def test_a_number_is_the_first_that_its_stage_noted():
    twice = A.with_note(Stage.GATE, Fate.KEEP, NoteCode.FITS, tokens=7)
    assert twice.number(Stage.GATE, "tokens") == 4
    assert twice.number(Stage.GATE, "overlap") is None
    assert twice.number(Stage.PENALIZE, "tokens") is None


def test_split_parts_by_the_last_verdict_and_keeps_order():
    sifted = Sifted.split([B, A, B])
    assert (sifted.kept, sifted.dropped) == ((A,), (B, B))


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (None, ()),
        ("", ()),
        ("one", ("one",)),
        (["one", "two"], ("one", "two")),
        ([{"role": "user", "content": "hi"}], ("hi",)),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url"}]}], ("hi",)),
        ([{"role": "assistant", "content": None, "tool_calls": []}], ()),
        (Window(("x",)), ("x",)),
    ],
)  # fmt: skip
def test_a_window_is_made_of_texts_or_messages(value, texts):
    window = Window.of(value)
    assert window.texts == texts
    assert bool(window) is bool(texts)


def test_a_window_may_be_a_fingerprint():
    assert Window.of({"version": 1}).fingerprint == {"version": 1}


def test_a_window_of_numbers_is_refused():
    with pytest.raises(InputError, match="a window block is int"):
        Window.of([3])


def test_why_gives_the_notes_and_says_of_a_stranger_that_it_was_never_found():
    assert context().why("b") == B.notes
    assert context().why("zzz")[-1].reason == "not among the candidates"


def test_why_says_that_nothing_was_searched_if_the_request_was_skipped():
    made = context()
    trace = replace(made.trace, plan=replace(made.trace.plan, skip=True, reasoning="full"))
    (note,) = replace(made, trace=trace).why("zzz")
    assert (note.stage, note.reason) == ("decide", "nothing was searched: full")


def test_a_context_in_an_f_string_is_its_text():
    assert f"{context()}" == context().text


def test_the_repr_of_a_context_and_of_its_trace_is_one_short_line():
    made = context()
    assert "1 chunk, 4 of 50 tokens" in repr(made)
    assert all(len(repr(one)) < 120 and "\n" not in repr(one) for one in (made, made.trace))


def test_a_notebook_shows_the_text_and_every_candidate_and_obeys_neither():
    made = replace(context(), text="<script>alert(1)</script>")
    shown = made._repr_html_()
    assert "<script>" not in shown
    assert "kept text" in shown
    assert "no room" in shown


def test_a_context_as_a_dict_is_small_and_json():
    made = context()
    data = json.loads(json.dumps(made.as_dict()))
    assert [chunk["id"] for chunk in data["chunks"]] == ["a"]
    assert (data["trace"], data["text"]) == (made.trace.id, made.text)


def test_explain_shows_who_stayed_who_went_and_why():
    said = context().explain()
    assert "HYBRID: because." in said
    assert "4 of 50 tokens, 1 kept, 1 dropped" in said
    assert "penalize: it broke" in said
    kept, dropped = said.splitlines()[-2:]
    assert kept.split()[:4] == ["keep", "[1]", "a", "gate"]
    assert dropped.split()[:4] == ["drop", "b", "gate", "0.500"]
    assert "no room" in dropped


def test_explain_counts_the_rest_of_those_that_fell_for_one_reason():
    dropped = tuple(replace(B, chunk=replace(B.chunk, id=f"b{n}")) for n in range(99))
    made = context()
    made = replace(made, trace=replace(made.trace, candidates=(made.trace.candidates[0], *dropped)))
    *_, last_listed, rest = made.explain().splitlines()
    assert last_listed.split()[:2] == ["drop", "b13"]
    assert rest.split() == ["drop", "and", "85", "more", "gate", "no", "room"]


def test_a_context_becomes_messages():
    assert context().as_messages() == [{"role": "user", "content": "<ref>kept text</ref>"}]
    assert context("").as_messages("system") == []
    assert context("").as_messages("tool", call_id="c1") == [
        {"role": "tool", "tool_call_id": "c1", "content": "No relevant context was found."}
    ]


@pytest.mark.parametrize("name", ["context_length", "used_tokens", "threshold_tokens"])
def test_a_number_that_no_database_holds_is_refused(name):
    with pytest.raises(InputError, match=f"{name} is too large"):
        ContextBudget(**{name: 10**5000})
    ContextBudget(**{name: 2**63 - 1})


def test_half_a_surrogate_pair_in_a_request_is_replaced():
    asked = Request("re\ud800funds", session="s\udfff", task="😀")
    assert (asked.query, asked.session, asked.task) == ("re\ufffdfunds", "s\ufffd", "😀")


def test_pressure_is_used_over_the_threshold_or_the_window():
    assert ContextBudget(1000, 300, 600).pressure == 0.5
    assert ContextBudget(1000, 300).pressure == 0.3
    assert ContextBudget(1000, 300, 600, compression_enabled=False).pressure == 0.3
    assert ContextBudget(0, 300).pressure == 0.0
    assert ContextBudget(1000, 1500).pressure == 1.5


@pytest.mark.parametrize(
    ("used", "tier"),
    [(0, Tier.STUFF), (299, Tier.STUFF), (300, Tier.HYBRID), (699, Tier.HYBRID), (700, Tier.SELECTIVE)],
)  # fmt: skip
def test_a_tier_begins_at_its_share_of_the_window(used, tier):
    assert ContextBudget(1000, used).tier is tier


@pytest.mark.parametrize("name", ["context_length", "threshold_tokens"])
def test_sizes_of_a_window_are_not_negative_and_an_unknown_use_is_none(name):
    with pytest.raises(InputError, match=f"{name} is -1"):
        ContextBudget(**{"context_length": 10, name: -1})
    ContextBudget(**{"context_length": 10, name: 0})
    assert ContextBudget(10, used_tokens=-1).used_tokens == 0


@pytest.mark.parametrize("names", [b"main", [], 5, None])
def test_collections_are_a_name_or_several(names):
    with pytest.raises(InputError, match="a name, or several"):
        unique_names("collection", names)
    assert unique_names("collection", ["a", "b", "a"]) == ("a", "b")
    assert unique_names("collection", ["a", "a"]) == unique_names("collection", "a") == "a"
