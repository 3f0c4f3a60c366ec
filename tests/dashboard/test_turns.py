"""Turns: what each call added to the window, and what is gone, by model."""

from millgate.service.dashboard.window import turns_of
from millgate.sessions.xray.bars import COLUMNS, draw_window, segments
from millgate.text.tokens import estimate_tokens
from millgate.types import (
    Candidate,
    Chunk,
    ContextBudget,
    Plan,
    Request,
    Step,
    Strategy,
    Tier,
    Trace,
    Window,
)
from millgate.types.notes import Fate, Note, NoteCode, Stage

PLAN = Plan(True, Tier.STUFF, Strategy.STUFF, 0)


def call(id, model="m", **sizes):
    steps = (
        Step(Stage.MODEL, 0.1, facts={"model": model, "output_tokens": 7}),
        Step(Stage.WINDOW, 0.0, facts={"tokens": sum(v for n, v in sizes.items() if n != "length" and not n.startswith("result ")), **sizes}),
    )  # fmt: skip
    return Trace(id, Request("q", session="s"), PLAN, steps, created=1.0)


def test_a_turn_tells_what_it_added_by_kind_and_tool():
    first = call("a", system=100, human=10)
    second = call("b", system=100, human=10, call=5, result=60, **{"result read": 50})
    turns = turns_of([first, second])["m"]
    assert dict(turns[1].added) == {"result read": 50, "call": 5, "result": 10}
    assert turns[1].window.added == 65
    assert not turns[1].compacted


def test_a_window_that_shrinks_much_was_compacted():
    before = call("a", system=100, human=10, result=900)
    after = call("b", system=100, human=60)
    turn = turns_of([before, after])["m"][1]
    assert turn.compacted
    assert dict(turn.dropped) == {"result": 900}


def test_each_model_has_windows_of_its_own():
    found = turns_of([call("a", human=900), call("b", model="small", human=9), call("c", human=950)])  # fmt: skip
    assert [turn.trace.id for turn in found["m"]] == ["a", "c"]
    assert not found["m"][1].compacted


def test_a_session_without_model_calls_has_the_windows_of_its_contexts():
    request = Request("q", window=Window(("some words",)), context_budget=ContextBudget(1000, 400))
    (turn,) = turns_of([Trace("a", request, PLAN)])[""]
    assert (turn.window.tokens, turn.window.length) == (400, 1000)


def test_a_call_without_sizes_is_left_out():
    step = Step(Stage.MODEL, 0.1, facts={"model": "m"})
    assert turns_of([Trace("a", Request("q"), PLAN, (step,))]) == {}


def test_a_quarter_that_is_gone_is_no_compaction_and_a_little_more_is_one():
    before = call("a", human=1000)
    assert not turns_of([before, call("b", human=750)])["m"][1].compacted
    assert turns_of([before, call("b", human=749)])["m"][1].compacted
    assert not turns_of([before, call("b", human=10, system=900)])["m"][1].compacted


def test_a_turn_counts_cuts_rungs_and_the_tokens_that_came_out():
    more = (
        Step(Stage.CUT, 0.0),
        Step(Stage.CUT, 0.0),
        Step(Stage.CIRCLES, 0.0, facts={"rung": "note"}),
    )
    trace = call("a", human=10)
    trace = Trace("a", trace.request, PLAN, (*trace.steps, *more), created=1.0)
    (turn,) = turns_of([trace])["m"]
    assert (len(turn.steps("cut")), turn.cost.output) == (2, 7)
    assert [step.facts["rung"] for step in turn.steps("circles")] == ["note"]
    assert (turn.window.turn, turn.window.added) == (1, 10)


def test_a_window_that_shrank_added_nothing_and_names_what_went():
    turn = turns_of([call("a", human=50, result=9, **{"result read": 9}), call("b", human=20, system=10)])["m"][1]  # fmt: skip
    assert (dict(turn.added), dict(turn.dropped)) == ({"system": 10}, {"human": 30, "result read": 9})  # fmt: skip
    assert turn.window.added == 0
    assert turn.window.turn == 2


def test_a_context_is_its_window_and_what_was_injected():
    note = Note(Stage.COMPOSE, Fate.KEEP, NoteCode.FOUND, 1.0, {"tokens": 30.0})
    fell = Note(Stage.GATE, Fate.DROP, NoteCode.NO_ROOM, 1.0, {"tokens": 50.0})
    found = (
        Candidate(Chunk("a", "x"), 1.0, (note,)),
        Candidate(Chunk("b", "x"), 1.0, (note, fell)),
        Candidate(Chunk("c", "x"), 1.0, ()),
    )
    request = Request("q", window=Window(("some words",)), context_budget=ContextBudget(1000))
    (turn,) = turns_of([Trace("a", request, PLAN, candidates=found)])[""]
    words = estimate_tokens("some words")
    assert (turn.window.tokens, turn.window.injected) == (words + 30, 30)
    assert dict(turn.added) == {"human": words + 30}
    (plain,) = turns_of([Trace("a", Request("q"), PLAN)])[""]
    assert (plain.window.tokens, plain.window.length) == (0, 0)


def test_a_long_window_is_drawn_as_high_as_what_was_used_of_it():
    turns = turns_of([call("a", system=900, human=100, length=200_000), call("b", system=900, human=4100, length=200_000)])["m"]  # fmt: skip
    plot = draw_window([segments(turn.window) for turn in turns], 200_000)
    assert plot.top == 6000
    assert "free" not in [one.color for one in plot.series]


def test_a_window_that_is_nearly_full_is_drawn_whole():
    (turn,) = turns_of([call("a", human=4100, length=5000)])["m"]
    plot = draw_window([segments(turn.window)], 5000)
    assert plot.top == 5000
    assert plot.series[-1].values == [900]
    assert plot.columns == COLUMNS
