"""Circles of tool calls are found at their third copy, and healthy work is left alone."""

import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, healthy_session, looping_session, render
from tests.hostile import count_calls

from millgate.circles.finder import check
from millgate.circles.policy import CirclesPolicy
from millgate.circles.steps import find_steps

SESSIONS = 1_200


def turns(*results, tool="read", arguments=None):
    return [Turn(calls=(MadeCall(tool, arguments or {"path": "a"}, result),)) for result in results]


@pytest.mark.parametrize("api", APIS)
def test_healthy_sessions_hold_no_circle_after_any_message(api):
    policy = CirclesPolicy()
    for seed in range(SESSIONS // 3):
        messages = render(healthy_session(seed), api, seed=seed)
        found = find_steps(messages, policy)
        assert not found.marks, (seed, found.marks[0])
        assert found.ended is None


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("period", range(1, 7))
def test_every_circle_is_found_at_its_third_copy(api, period):
    for seed in range(30):
        session, _ = looping_session(seed, period=period)
        circle = check(render(session, api, seed=seed))
        assert circle, seed
        assert (circle.period, circle.copies) == (period, 3)
        assert check(render(session[:-1], api, seed=seed)) is None, (
            "two copies and a bit are no circle"
        )


@pytest.mark.parametrize("api", APIS)
def test_a_human_message_lifts_the_circle(api):
    session, _ = looping_session(1, period=2, copies=5)
    assert check(render(session, api))
    assert check(render([*session, Turn(human="Try the other file.")], api)) is None
    assert check(render([*session, Turn(human="Again."), *session[-4:]], api)) is None


def test_the_circle_says_what_was_tried_and_where_it_stands():
    messages = render([Turn(human="go"), *turns("none", "none", "none", "none")], "chat")
    circle = check(messages)
    assert circle
    assert (circle.copies, circle.first, circle.last) == (4, 2, 8)
    assert circle.tried[0].tool == "read"
    assert circle.tried[0].result == "none"
    assert (
        circle.describe() == "read was called 4 times with the same arguments and the same result"
    )


def test_results_that_really_change_are_no_circle():
    for template in (
        "{} of 50 done", "page {}", "{}%", "{} failed, 3 passed in 0.1s", "row {}", "attempt {} of 9",
        '{{"id": {}}}', "{} bytes", "worker 2: {}/9",
    ):  # fmt: skip
        results = [template.format(n) for n in (3, 4, 5, 6)]
        assert check(render(turns(*results), "chat")) is None, template


def test_what_changes_by_itself_does_not_hide_a_circle():
    for template in (
        "took {} ms", "at 10:20:{}", "2026-11-15 10:20:{} failed", "pid {}", "port 443{}", "localhost:80{}",
        "/tmp/tmp12{}ab/x", "request #{} failed", "elapsed: {}", '"duration_ms": {}', "attempt {} failed",
        "object at 0x7f00{}", "request_id=ab{}cdef01", "done in 1m {}s", "176322{}86",
    ):  # fmt: skip
        results = [template.format(n) for n in (31, 42, 57)]
        assert check(render(turns(*results), "chat")), template


def test_another_argument_or_tool_is_another_call():
    calls = [turns("x", arguments={"page": n})[0] for n in range(5)]
    assert check(render(calls, "chat")) is None
    calls = [turns("x", tool=name)[0] for name in "abc"]
    assert check(render(calls, "chat")) is None


def test_indentation_is_a_real_difference_in_code():
    calls = [turns("ok", arguments={"code": "if x:\n" + " " * n + "y()"})[0] for n in range(4)]
    assert check(render(calls, "chat")) is None
    calls = [turns("ok", arguments={"command": "ls" + " " * n + "-l"})[0] for n in range(1, 4)]
    assert check(render(calls, "chat"))


def test_the_model_speaking_between_calls_does_not_hide_a_circle():
    session = [
        part for turn in turns(*["none"] * 3) for part in (Turn(text=f"Hm {id(turn)}"), turn)
    ]
    circle = check(render(session, "chat"))
    assert circle
    assert circle.copies == 3


def test_a_monologue_is_a_circle_of_texts():
    session = [Turn(human="go"), *[Turn(text="Let me think about it.")] * 3]
    circle = check(render(session, "chat"))
    assert circle
    assert circle.kind == "text"
    assert check(render([*session, *turns("x")], "chat")) is None


def test_a_call_made_twice_in_one_turn_counts_once():
    twice = Turn(calls=(MadeCall("a", {}, "x"),) * 2)
    assert check(render([twice], "chat")) is None
    assert check(render([twice] * 2, "chat")) is None
    circle = check(render([twice] * 3, "chat"))
    assert circle
    assert (circle.period, circle.copies) == (1, 3)


def call(id, name="read", arguments="{}"):
    made = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [made]}


def result(id, content):
    return {"role": "tool", "tool_call_id": id, "content": content}


def test_calls_without_results_equal_nothing():
    assert check([call(f"c{n}") for n in range(6)]) is None


def test_results_without_calls_are_passed_over():
    assert check([result("x", "same")] * 6) is None


def test_ids_that_are_used_again_still_pair_call_and_result():
    assert check([m for _ in range(3) for m in (call("1"), result("1", "same"))])
    assert check([m for _ in range(3) for m in (call(None), result(None, "same"))])


def test_arguments_that_are_no_json_are_compared_as_text():
    messages = [m for _ in range(3) for m in (call("1", arguments="{oops"), result("1", "same"))]
    assert check(messages)


def test_images_count_by_their_bytes():
    def picture(data):
        return [{"type": "image", "source": {"type": "base64", "data": data}}]

    same = [m for _ in range(3) for m in (call("1"), result("1", picture("AAAA")))]
    assert check(same)
    other = [m for n in range(3) for m in (call("1"), result("1", picture(f"AAA{n}")))]
    assert check(other) is None


def test_a_very_long_result_is_compared_as_it_is():
    long = "word " * 100_000
    assert check([m for _ in range(3) for m in (call("1"), result("1", long))])
    assert (
        check([m for n in range(3) for m in (call("1"), result("1", f"{long} took {n} ms"))])
        is None
    )


def test_comparing_has_an_end(monkeypatch):
    monkeypatch.setattr("millgate.circles.finder.MAX_CHARS", 1_000)
    short, long = ([m for _ in range(9) for m in (call("1"), result("1", "x" * size))] for size in (100, 400))  # fmt: skip
    assert len(find_steps(short, CirclesPolicy()).marks) == 3
    assert len(find_steps(long, CirclesPolicy()).marks) == 1
    assert (check(short).copies, check(long)) == (9, None)


def test_masking_has_an_end_long_after_the_last_step():
    def repeat(copies):
        lines = ("\n".join(f"12:{n // 60 % 60:02}:{n % 60:02}.{n:06} request {n} took {n} ms" for n in range(400 * at, 400 * at + 400)) for at in range(copies))  # fmt: skip
        return [m for text in lines for m in (call("1"), result("1", text))]

    few, many = repeat(70), repeat(280)
    assert count_calls(lambda: check(many)) < 2 * count_calls(lambda: check(few))
    assert len(find_steps(many, CirclesPolicy()).marks) == 3


@pytest.mark.parametrize(
    "message",
    [
        None, 7, "text", [], {}, {"role": None}, {"role": ["x"]}, {"type": ["x"]}, {"type": {}},
        {"role": "assistant", "tool_calls": 3}, {"role": "assistant", "tool_calls": [None, {}, {"function": 2}]},
        {"role": "user", "content": [None, 3, {"type": ["x"]}, {"type": "tool_result"}]},
        {"role": "assistant", "content": {"a": 1}}, {"type": "function_call"}, {"type": "function_call_output"},
        {"role": "tool"}, {"type": "item_reference", "id": "x"}, {"role": "assistant", "content": 5},
    ],
)  # fmt: skip
def test_a_malformed_message_is_passed_over(message):
    assert check([message] * 9) is None


def test_deep_arguments_do_not_break_the_reader():
    messages = []
    for n in range(3):
        deep = []
        for _ in range(2_000):
            deep = [deep]
        use = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"a": deep}}
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": deep}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [done]}]
    assert check(messages) is None


def test_reminders_of_the_agents_program_are_no_human():
    reminder = {"type": "text", "text": "<system-reminder>Your list is empty.</system-reminder>"}
    loop = []
    for n in range(3):
        use = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {}}
        done = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "same"}
        loop += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [done, reminder]},
        ]
    assert check(loop)
    loop[-1]["content"].append({"type": "text", "text": "Stop, look at b.py."})
    assert check(loop) is None
