"""The ladder: noted, listed, ended; lifted by a person; and never at odds with what was sent before."""

import orjson
import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, looping_session, render
from hypothesis import given
from hypothesis import strategies as st
from tests.circles.whole import normalize

from millgate.circles.finder import CircleFinder, check
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import Reader
from millgate.circles.steps import annotate, ending, find_steps

POLICY = CirclesPolicy()
GO = Turn(human="go")


def loop(copies, result="no such file"):
    return [Turn(calls=(MadeCall("read", {"path": "a"}, result),))] * copies


def noted(turns, api="chat", policy=POLICY):
    messages = render(turns, api)
    return annotate(messages, find_steps(messages, policy).marks)


def notes(messages):
    return [n for n, message in enumerate(messages) if b"[millgate: " in orjson.dumps(message)]


@pytest.mark.parametrize("api", APIS)
def test_the_third_copy_is_noted_the_fifth_listed_and_the_eighth_ended(api):
    for copies in range(1, 10):
        messages = render([GO, *loop(copies)], api)
        found = find_steps(messages, POLICY)
        rungs = [mark.step for mark in found.marks]
        assert rungs == ["note", "list", "end"][: (copies >= 3) + (copies >= 5) + (copies >= 8)]
        assert (found.ended is not None) == (copies >= 8)


@pytest.mark.parametrize("api", APIS)
def test_the_list_says_what_was_tried_and_what_came_back(api):
    text = orjson.dumps(noted([GO, *loop(5)], api)[-1]).decode()
    assert "fifth time" in text
    assert "read" in text
    assert text.count("no such file") == 2


def test_the_ending_says_what_happened():
    circle = find_steps(render([GO, *loop(8)], "chat"), POLICY).ended
    assert circle
    told = ending(circle)
    assert "read was called 8 times with the same arguments and the same result" in told
    assert "no such file" in told


def test_each_rung_can_be_moved_and_switched_off():
    messages = render([GO, *loop(9)], "chat")
    quiet = find_steps(messages, CirclesPolicy(rungs={"note": 0}))
    assert (quiet.marks, quiet.ended) == ((), None)
    assert find_steps(messages, CirclesPolicy(rungs={})).marks == ()
    only = find_steps(messages, CirclesPolicy(rungs={"list": 4}))
    assert [mark.circle.copies for mark in only.marks] == [4]
    at_once = find_steps(messages, CirclesPolicy(rungs={"note": 2, "list": 2, "end": 2}))
    assert [mark.step for mark in at_once.marks] == ["end"]


def test_a_key_has_rungs_of_its_own():
    policy = CirclesPolicy(by_key={"k": {"end": 3}, "off": {}})
    messages = render([GO, *loop(3)], "chat")
    assert find_steps(messages, policy.for_key("k")).ended
    assert find_steps(messages, policy.for_key("off")).marks == ()
    assert [mark.step for mark in find_steps(messages, policy.for_key("")).marks] == ["note"]


def test_a_person_lifts_it_and_the_old_notes_stay():
    messages = render([GO, *loop(8), Turn(human="Look at b.")], "chat")
    found = find_steps(messages, POLICY)
    assert found.ended is None
    assert [mark.step for mark in found.marks] == ["note", "list", "end"]
    assert notes(annotate(messages, found.marks)) == [6, 10]


def test_messages_without_a_note_are_the_same_objects():
    messages = render([GO, *loop(3)], "messages")
    after = annotate(messages, find_steps(messages, POLICY).marks)
    assert [a is b for a, b in zip(messages, after, strict=True)] == [True] * 6 + [False]


def test_noting_twice_changes_nothing():
    for api in APIS:
        once = noted([GO, *loop(3)], api)
        assert check(once) == check(render([GO, *loop(3)], api))


def test_a_result_of_parts_gets_a_part_and_an_empty_one_a_text():
    messages = render([GO, *loop(3)], "chat")
    for message in messages:
        if message["role"] == "tool":
            message["content"] = [{"type": "text", "text": "none"}]
    last = annotate(messages, find_steps(messages, POLICY).marks)[-1]
    assert len(last["content"]) == 2
    for message in messages:
        if message["role"] == "tool":
            message["content"] = None
    last = annotate(messages, find_steps(messages, POLICY).marks)[-1]
    assert last["content"].startswith("[millgate: ")


def test_what_cannot_hold_a_note_passes_unchanged():
    screen = {"type": "computer_screenshot", "image_url": "data:,x"}
    items = []
    for n in range(4):
        items.append({"type": "computer_call", "call_id": str(n), "action": {"type": "screenshot"}})
        items.append({"type": "computer_call_output", "call_id": str(n), "output": screen})
    found = find_steps(items, POLICY)
    assert found.marks
    assert annotate(items, found.marks) == items


CALLS = st.builds(
    MadeCall,
    st.sampled_from(["read", "run"]),
    st.sampled_from([{"path": "a"}, {"path": "b", "n": 1}]),
    st.sampled_from(["none", "took 3 ms", "took 4 ms", ""]),
)
TURNS = st.lists(
    st.one_of(
        st.lists(CALLS, min_size=1, max_size=3).map(lambda calls: Turn(calls=tuple(calls))),
        st.lists(CALLS, min_size=1, max_size=1).map(lambda calls: Turn(calls=tuple(calls))),
        st.just(Turn(text="Once more.")),
        st.just(Turn(human="go on")),
    ),
    max_size=30,
)


RESULTS = st.sampled_from(
    ["took 3 ms\nx", "took 4 ms\nx", "took 4 ms\ny", "x\ntook 3 ms", "x\ntook 4 ms", "\nx", "x", "", "still running"]
)  # fmt: skip
WORK = st.lists(
    st.one_of(
        st.lists(
            st.builds(MadeCall, st.sampled_from(["read", "run"]), st.just({}), RESULTS),
            min_size=1,
            max_size=2,
        ).map(lambda calls: Turn(calls=tuple(calls))),
        st.just(Turn(human="go on")),
    ),
    min_size=1,
    max_size=20,
)


@given(TURNS, st.integers(1, 12), st.sampled_from(APIS), st.integers(0, 3))
def test_a_longer_conversation_gets_the_same_notes_at_the_same_places(turns, repeat, api, seed):
    messages = render(turns + turns[-3:] * repeat, api, seed=seed)
    whole = [orjson.dumps(m) for m in annotate(messages, find_steps(messages, POLICY).marks)]
    for end in range(len(messages)):
        prefix = messages[:end]
        part = annotate(prefix, find_steps(prefix, POLICY).marks)
        assert [orjson.dumps(message) for message in part] == whole[:end]


def test_a_circle_reaches_from_its_first_result_to_its_last_in_whatever_order_they_came():
    calls = [{"id": c, "function": {"name": c, "arguments": "{}"}} for c in "ab"]
    turn = [{"role": "assistant", "tool_calls": calls}]
    turn += [{"role": "tool", "tool_call_id": c, "content": "none"} for c in "ba"]
    circle = check(turn * 3)
    assert (circle.period, circle.copies, circle.first, circle.last) == (2, 3, 1, 8)


def circles_read_plainly(messages, copies=3):
    """Period and copies after each message, by comparing all calls with all, each result normalized as a whole."""
    reader, steps, found = Reader(), [], []
    for at, message in enumerate(messages):
        for step in reader.read(at, message):
            if step is None:
                steps = []
            elif step.tool:
                waits = not step.answered or "still running" in step.result
                steps.append(object() if waits else (step.call, normalize(step.result)))
        runs = {p: count_repeats(steps, p) for p in range(1, 7)}
        found.append(next(((p, n // p) for p, n in runs.items() if n >= copies * p), None))
    return found


def count_repeats(steps, period):
    """Steps at the tail that repeat with a period, its first copy included."""
    run = period if len(steps) >= period else 0
    while run and run < len(steps) and steps[-run - 1] == steps[period - run - 1]:
        run += 1
    return run


@given(WORK, st.integers(1, 8), st.integers(1, 9))
def test_the_fast_way_finds_what_the_plain_way_finds(turns, tail, repeat):
    messages = render(turns + turns[-tail:] * repeat, "chat")
    finder = CircleFinder()
    for at, plain in enumerate(circles_read_plainly(messages)):
        finder.feed(at, messages[at])
        circle = finder.circle()
        assert (circle and (circle.period, circle.copies)) == plain
    assert check(messages) == circle


@pytest.mark.parametrize("period", range(1, 7))
def test_the_prefix_of_a_looping_session_never_changes(period):
    for api in APIS:
        session, _ = looping_session(period, period=period, copies=7)
        messages = render(session, api)
        whole = annotate(messages, find_steps(messages, POLICY).marks)
        assert notes(whole)
        for end in range(len(messages)):
            part = messages[:end]
            assert annotate(part, find_steps(part, POLICY).marks) == whole[:end]
