"""What counts as the same piece of a request, and what a person would call it."""

import pytest

from millgate.sessions.prompt_cache.difference import compare
from millgate.sessions.prompt_cache.segments import read_prompt

MARK = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "Hi"}
CALL = {"id": "1", "type": "function", "function": {"name": "Read", "arguments": '{"path": "a.py"}'}}  # fmt: skip


def prompt(*messages, **fields):
    return read_prompt({"model": "m", "messages": list(messages), **fields})


def names(*messages, **fields):
    return [segment.name for segment in prompt(*messages, **fields).segments]


@pytest.mark.parametrize(
    "spelling",
    [
        {"role": "user", "content": [TEXT]},
        {"role": "user", "content": [TEXT | MARK]},
        {"role": "user", "content": "Hi"} | MARK,
        {"content": [{"text": "Hi", "type": "text"}], "role": "user"},
    ],
)
def test_a_message_is_the_same_however_it_is_spelled_and_marked(spelling):
    plain, more = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ha"}
    (one,), (other,) = prompt(plain).segments, prompt(spelling).segments
    assert one.same_as(other)
    assert other.marked is ("cache_control" in str(spelling))
    assert compare(prompt(plain), prompt(spelling, more)) is None


def test_thinking_that_only_the_provider_can_read_counts():
    secret, other = ({"type": "reasoning", "encrypted_content": x} for x in "ab")
    assert names(secret) == ["message 1 (the model's thinking)"]
    assert compare(prompt(secret), prompt(other)).change == "message changed"


def test_the_result_of_a_call_has_its_name_in_every_part_of_its_message():
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "1", "content": "text of a"}
    assert names(called, result) == ["message 1 (call of Read a.py)", *2 * ["message 2 (result of Read a.py)"]]  # fmt: skip


@pytest.mark.parametrize("system", [[{"type": "text", "text": ""}], [{"type": "next_year"}]])
def test_what_has_no_words_is_named_without_a_quote(system):
    user = {"role": "user", "content": [{"type": "image", "source": {}}, {"type": "text", "text": " "}]}  # fmt: skip
    tool = {"functionDeclarations": []}
    assert names(user, system=system, tools=[tool]) == ["tools[0]", "system block 1", *2 * ["message 1 (user)"]]  # fmt: skip
