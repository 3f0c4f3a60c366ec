"""Messages of every API as events: calls, results, texts of the model, and what a person said."""

import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, render

from millgate.guard.calls import (
    Event,
    Reader,
    begins_turn,
    events_of,
    is_from_model,
    is_plain,
    last_results,
    opening,
)

CALL = {"id": "1", "function": {"name": "look", "arguments": "{}"}}


def kinds(message):
    return [event.kind for event in events_of(message)]


def said(*messages):
    """The steps of a conversation, as tool and place; None where a person spoke."""
    reader, found = Reader(), []
    for at, message in enumerate(messages):
        found += reader.read(at, events_of(message))
    return [step and (step.tool, step.answered) for step in found]


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ({"role": "tool", "tool_call_id": "1", "content": "x"}, Event("result", "1", "", "x")),
        ({"role": "function", "name": "look", "content": "x"}, Event("result", "look", "", "x")),
        ({"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}, Event("call", "1", "look", "{}")),
        ({"type": "local_shell_call", "id": "1", "action": {"a": 1}}, Event("call", "1", "local_shell_call", {"a": 1})),
        ({"type": "function_call_output", "call_id": "1", "output": "x"}, Event("result", "1", "", "x")),
    ],
)  # fmt: skip
def test_an_item_is_a_call_or_a_result(message, event):
    assert list(events_of(message)) == [event]


def test_the_model_begins_a_turn_and_speaks_only_if_it_calls_nothing():
    assert kinds({"role": "assistant", "content": "hi"}) == ["turn", "text"]
    assert kinds({"role": "assistant", "content": [{"type": "text", "text": "hi"}]}) == ["turn", "text"]  # fmt: skip
    assert kinds({"role": "assistant", "content": "hi", "tool_calls": [CALL]}) == ["turn", "call"]
    assert kinds({"role": "assistant", "content": ""}) == ["turn"]
    assert kinds({"role": "assistant", "function_call": {"name": "look"}}) == ["turn", "call"]
    custom = {"id": "1", "custom": {"name": "look", "input": "go"}}
    assert events_of({"role": "assistant", "tool_calls": [custom]})[1].value == "go"
    block = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
    assert events_of({"role": "assistant", "content": [block]})[1] == Event("call", "1", "look", {})


@pytest.mark.parametrize(
    ("content", "human"),
    [
        ("hello", True),
        ("", False),
        ("<system-reminder>be brief</system-reminder>", False),
        ("<system-reminder>be brief</system-reminder> hello", True),
        ("<environment_context>x</environment_context><system-reminder>y</system-reminder>", False),
        ("<b>hello</b>", True),
        ([{"type": "text", "text": "hello"}], True),
        ([{"type": "image"}], True),
        ([{"type": "tool_result", "tool_use_id": "1", "content": "x"}], False),
    ],
)
def test_a_person_is_told_from_results_and_reminders(content, human):
    assert ("human" in kinds({"role": "user", "content": content})) is human


@pytest.mark.parametrize("message", [None, "hi", [], {}, {"role": "system", "content": "x"}, {"type": 5}])  # fmt: skip
def test_anything_else_is_passed_over(message):
    assert list(events_of(message)) == []


def test_calls_of_one_turn_become_steps_together_once_all_are_answered():
    two = {"role": "assistant", "tool_calls": [CALL, {"id": "2", "function": {"name": "read"}}]}
    last = {"role": "tool", "tool_call_id": "2", "content": "b"}
    first = {"role": "tool", "tool_call_id": "1", "content": "a"}
    assert said(two, last) == []
    assert said(two, last, first) == [("look", True), ("read", True)]
    assert said(two, last, {"role": "assistant", "content": "so"}) == [("look", False), ("read", True), ("", True)]  # fmt: skip
    assert said(two, last, {"role": "user", "content": "stop"}) == [None]


def test_a_call_that_was_made_twice_in_one_turn_counts_once():
    twice = {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "2"}]}
    answers = [{"role": "tool", "tool_call_id": id, "content": "a"} for id in ("1", "2")]
    assert said(twice, *answers) == [("look", True)]


def test_a_result_without_a_call_is_passed_over_and_a_second_one_changes_nothing():
    result = {"role": "tool", "tool_call_id": "1", "content": "a"}
    assert said(result) == []
    assert said({"role": "assistant", "tool_calls": [CALL]}, result, result) == [("look", True)]


def test_the_opening_goes_up_to_the_first_words_of_a_person():
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}
    more = {"role": "assistant", "content": "hi"}
    assert opening([system, "odd", user, more]) == "Be brief.\nhello"
    assert opening([system, more]) == "Be brief.\nhi"


@pytest.mark.parametrize(
    ("message", "own"),
    [
        ({"role": "assistant"}, True),
        ({"type": "function_call"}, True),
        ({"type": "reasoning"}, True),
        ({"type": "function_call_output"}, False),
        ({"role": "user"}, False),
        ("assistant", False),
    ],
)
def test_what_the_model_wrote_is_known(message, own):
    assert is_from_model(message) is own


def test_only_a_message_of_the_model_begins_a_turn():
    assert begins_turn({"role": "assistant"})
    assert not begins_turn({"role": "user"})
    assert not begins_turn("assistant")


def test_only_a_short_conversation_of_plain_text_is_plain():
    question = {"role": "user", "content": "a long question"}
    assert is_plain([{"role": "system", "content": "be brief"}, question])
    assert not is_plain([question] * 5)
    assert not is_plain([{"role": "user", "content": [{"type": "tool_result"}]}])
    assert not is_plain([question, {"role": "assistant", "content": "an answer"}])
    assert not is_plain([{"role": "system", "content": "x", "type": "function_call"}])
    assert not is_plain(["no message"])


@pytest.mark.parametrize("api", APIS)
def test_the_last_results_are_those_behind_the_models_last_words(api):
    first = Turn(calls=(MadeCall("Read", {"path": "a"}, "text"),))
    both = Turn(calls=(MadeCall("Read", {"path": "b"}, "text"), MadeCall("Bash", {"command": "ls"}, "b")))  # fmt: skip
    asked = [Turn(human="go")]
    assert last_results(render(asked, api)) == ()
    assert sorted(name for name, _ in last_results(render([*asked, first, both], api))) == ["Bash", "Read"]  # fmt: skip
    ids = [id for _, id in last_results(render([*asked, first, both], api))]
    assert all("2" in id for id in ids)
    assert last_results(render([*asked, first, Turn(text="Done.")], api)) == ()
