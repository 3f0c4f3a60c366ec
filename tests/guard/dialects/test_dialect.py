"""What all dialects share: changed sampling, smaller limits, and messages that are checked before they are read."""

import pytest

from millgate.guard.dialects.chat import ChatDialect, CompletionsDialect
from millgate.guard.dialects.dialect import (
    InvalidRequest,
    check_messages,
    pick,
)
from millgate.guard.dialects.gemini import GeminiDialect
from millgate.guard.dialects.messages import MessagesDialect
from millgate.guard.dialects.responses import ResponsesDialect

SUMMARY = "This session is being continued from a previous conversation."


def test_sampling_is_never_cooler_than_asked_for_and_only_what_the_api_knows():
    changed = {"temperature": 0.8, "top_p": 0.9, "top_k": 5.0}
    found = ChatDialect().sampling_overrides(changed, {"temperature": 1.1, "top_p": None})
    assert found == {"temperature": 1.1, "top_p": 0.9}


def test_sampling_that_is_no_number_is_left_for_the_upstream_to_refuse():
    assert ChatDialect().sampling_overrides({"temperature": 0.8}, {"temperature": "hot"}) == {}


def test_limits_shrink_by_what_is_used_and_not_below_their_floor():
    chat, responses = ChatDialect(), ResponsesDialect()
    assert chat.remaining_limit({"max_tokens": 100}, 30) == {"max_tokens": 70}
    assert chat.remaining_limit({"max_tokens": 100}, 200) == {"max_tokens": 1}
    assert responses.remaining_limit({"max_output_tokens": 100}, 90) == {"max_output_tokens": 16}
    assert chat.remaining_limit({"max_tokens": "all"}, 90) == {}


def test_fields_are_picked_where_they_are():
    assert pick({"id": 1, "model": None, "x": 2}, "id", "model", "created") == {"id": 1, "model": None}  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "roles", "param", "says"),
    [
        (None, True, "input", "at least one message"),
        ([], True, "input", "at least one message"),
        ([{"role": "user"}, "hi"], True, "input[1]", "an object with a role"),
        ([{"content": "hi"}], True, "input[0]", "an object with a role"),
        (["hi"], False, "input[0]", "must be an object"),
        ([{"role": "user", "content": 5}], True, "input[0].content", "a text or a list of parts"),
    ],
)
def test_what_is_no_message_is_named(messages, roles, param, says):
    with pytest.raises(InvalidRequest, match=says) as caught:
        check_messages(messages, "input", roles=roles)
    assert caught.value.param == param
    assert roles or "role" not in str(caught.value)


def test_messages_come_back_as_they_are():
    given = [{"role": "user", "content": "hi"}, {"role": "tool", "content": [{"text": "x"}]}, {"role": "x"}]  # fmt: skip
    assert check_messages(given, "messages") == tuple(given)
    assert check_messages([{"type": "item"}], "input", roles=False) == ({"type": "item"},)


# what a person sends to an API, and the same with a block in front of the words
BLOCKS = {
    ChatDialect: ({"messages": [{"role": "user", "content": "Hi"}]}, {"messages": [{"role": "user", "content": "<c/>\n\nHi"}]}),
    CompletionsDialect: ({"prompt": "Hi"}, {"prompt": "<c/>\n\nHi"}),
    GeminiDialect: (
        {"contents": [{"role": "user", "parts": [{"inlineData": {}}, {"text": "Hi", "videoMetadata": {}}]}]},
        {"contents": [{"role": "user", "parts": [{"inlineData": {}}, {"text": "<c/>\n\nHi", "videoMetadata": {}}]}]},
    ),
    MessagesDialect: ({"messages": [{"role": "user", "content": "Hi"}]}, {"messages": [{"role": "user", "content": "<c/>\n\nHi"}]}),
    ResponsesDialect: ({"input": "Hi"}, {"input": [{"role": "user", "content": "<c/>\n\nHi"}]}),
}  # fmt: skip


@pytest.mark.parametrize("dialect", BLOCKS)
def test_a_block_goes_up_in_the_words_of_a_person(dialect):
    (fields, expected), api = BLOCKS[dialect], dialect()
    (message,) = api.conversation(fields)
    assert api.human_text(message) == "Hi"
    assert api.replace_conversation([api.add_block(message, "<c/>")]) == expected


def test_a_summary_stands_for_what_a_person_said():
    assert ChatDialect().human_text({"role": "user", "content": SUMMARY}) == SUMMARY
    assert ChatDialect().human_text({"role": "assistant", "content": SUMMARY}) == ""
    assert ChatDialect().human_text({"role": "tool", "content": "42"}) == ""
