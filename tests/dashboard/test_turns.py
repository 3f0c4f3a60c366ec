"""Turns: what each call added to the window, and what is gone, by model."""

from headgate.notes import Stage
from headgate.service.dashboard.turns import turns_of
from headgate.types import ContextBudget, Plan, Request, Step, Strategy, Tier, Trace, Window

PLAN = Plan(True, Tier.STUFF, Strategy.STUFF, 0)


def call(id, model="m", **sizes):
    steps = (
        Step(Stage.MODEL, 0.1, facts={"model": model, "output_tokens": 7}),
        Step(Stage.WINDOW, 0.0, facts={"tokens": sum(v for n, v in sizes.items() if not n.startswith("result ")), **sizes}),
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
    assert [turn.trace for turn in found["m"]] == ["a", "c"]
    assert not found["m"][1].compacted


def test_a_session_without_model_calls_has_the_windows_of_its_contexts():
    request = Request("q", window=Window(("some words",)), context_budget=ContextBudget(1000, 400))
    (turn,) = turns_of([Trace("a", request, PLAN)])[""]
    assert (turn.window.tokens, turn.window.length) == (400, 1000)


def test_a_call_without_sizes_is_left_out():
    step = Step(Stage.MODEL, 0.1, facts={"model": "m"})
    assert turns_of([Trace("a", Request("q"), PLAN, (step,))]) == {}
