"""Messages of every API as steps: calls with their results, and texts of the model."""

import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, render

from millgate.circles.finder import check
from millgate.circles.reader import Reader, begins_turn, is_plain, last_results, opening

CALL = {"id": "1", "function": {"name": "look", "arguments": "{}"}}


def said(*messages):
    """The steps of a conversation, as tool and place; None where a person spoke."""
    reader, found = Reader(), []
    for at, message in enumerate(messages):
        found += reader.read(at, message)
    return [step and (step.tool, step.answered) for step in found]


def test_calls_of_one_turn_become_steps_together_once_all_are_answered():
    two = {"role": "assistant", "tool_calls": [CALL, {"id": "2", "function": {"name": "read"}}]}
    last = {"role": "tool", "tool_call_id": "2", "content": "b"}
    first = {"role": "tool", "tool_call_id": "1", "content": "a"}
    assert said(two, last) == []
    assert said(two, last, first) == [("look", True), ("read", True)]
    assert said(two, last, {"role": "assistant", "content": "so"}) == [("look", False), ("read", True), ("", True)]  # fmt: skip
    assert said(two, last, {"role": "user", "content": "stop"}) == [None]


def test_calls_that_stand_with_their_results_in_one_message_are_those_of_one_turn():
    state = {"input": {}, "output": "ok"}
    blocks = [{"type": "tool", "callID": id, "tool": "look", "state": state} for id in "ab"]
    assert said({"role": "assistant", "content": blocks}) == [("look", True)]


def test_a_call_that_was_made_twice_in_one_turn_counts_once():
    twice = {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": "2"}]}
    answers = [{"role": "tool", "tool_call_id": id, "content": "a"} for id in ("1", "2")]
    assert said(twice, *answers) == [("look", True)]


def test_a_result_without_a_call_is_passed_over_and_a_second_one_changes_nothing():
    result = {"role": "tool", "tool_call_id": "1", "content": "a"}
    assert said(result) == []
    assert said({"role": "assistant", "tool_calls": [CALL]}, result, result) == [("look", True)]


def test_the_model_speaks_only_if_it_calls_nothing():
    asked = {"role": "assistant", "content": "hi", "tool_calls": [CALL]}
    assert said({"role": "assistant", "content": "hi"}) == [("", True)]
    assert said(asked, {"role": "assistant", "content": ""}) == [("look", False)]


def test_reminders_are_no_persons_words_and_a_picture_is():
    reminder = {"role": "user", "content": "<system-reminder>be brief</system-reminder>"}
    assert said(reminder) == []
    assert said({"role": "user", "content": [{"type": "image"}]}) == [None]


def test_results_that_show_other_pictures_differ():
    def shown(data):
        image = {"type": "image", "source": {"data": data}}
        return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [image]}]}  # fmt: skip

    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look"}]}
    same = [message for _ in range(3) for message in (call, shown("a"))]
    assert check(same)
    assert not check([*same[:-1], shown("b")])


def test_the_opening_goes_up_to_the_first_words_of_a_person():
    system, user = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}
    more = {"role": "assistant", "content": "hi"}
    assert opening([system, "odd", user, more]) == "Be brief.\nhello"
    assert opening([system, more]) == "Be brief.\nhi"


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
