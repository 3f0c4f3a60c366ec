"""The repair of a prompt cache: the cache holds, and the model reads the same."""

import copy
from collections import Counter

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.sessions.prompt_cache.difference import compare
from millgate.sessions.prompt_cache.repair import repair
from millgate.sessions.prompt_cache.segments import read_prompt

BOTH = ("tools", "marks")
names = st.sampled_from("abcdef")
texts = st.text(max_size=12)
marks = st.sampled_from([{}, {"cache_control": {"type": "ephemeral"}}])
tools = st.lists(st.builds(lambda name, text, mark: {"name": name, "description": text, **mark}, names, texts, marks), max_size=6)  # fmt: skip
blocks = st.one_of(
    st.builds(lambda text, mark: {"type": "text", "text": text, **mark}, texts, marks),
    st.builds(lambda text: {"type": "thinking", "thinking": text}, texts),
    st.builds(lambda text, mark: {"type": "tool_result", "tool_use_id": "t", "content": text, **mark}, texts, marks),
)  # fmt: skip
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant"]),
    st.one_of(texts, st.lists(blocks, max_size=3)),
)
requests = st.builds(
    lambda tools, said, system: {"model": "m", "tools": tools, "messages": said, "system": system},
    tools,
    st.lists(messages, max_size=5),
    texts,
)


def read_by_model(fields):
    """What of a request reaches the model: tools as a set, and blocks without their marks."""
    data = copy.deepcopy(dict(fields))
    made = [without_mark(tool) for tool in data.pop("tools", None) or []]
    said = [
        {**message, "content": [without_mark(block) for block in as_blocks(message["content"])]}
        for message in data.pop("messages", [])
    ]
    return Counter(orjson.dumps(tool) for tool in made), said, data


def as_blocks(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def without_mark(block):
    return {name: value for name, value in block.items() if name != "cache_control"}


@given(requests, requests, st.randoms(), st.booleans())
def test_a_repaired_request_says_the_same_to_the_model(last, fields, rng, extends):
    if extends:  # as a session does it, with its tools shuffled
        fields = {**last, "messages": [*last["messages"], *fields["messages"]]}
        fields["tools"] = rng.sample(last["tools"], len(last["tools"]))
    given_fields = copy.deepcopy(fields)
    made = repair(fields, read_prompt(last), BOTH, takes_marks=True)
    assert fields == given_fields  # the client's request is left alone
    if made is not None:
        assert made.done
        assert read_by_model({**fields, **made.fields}) == read_by_model(fields)
        assert made == repair(
            fields, read_prompt(last), BOTH, takes_marks=True
        )  # it can be run again


def session(*said, tools="abc"):
    return {
        "model": "m",
        "tools": [{"name": name} for name in tools],
        "messages": [{"role": "user", "content": text} for text in said],
    }


def test_tools_in_another_order_are_put_back_and_the_cache_holds():
    last, now = read_prompt(session("Hi")), session("Hi", "Go on", tools="cab")
    assert compare(last, read_prompt(now)).change == "tools reordered"
    made = repair(now, last, ["tools"], takes_marks=False)
    assert made.done == ("the tools are in the order of the last request",)
    assert compare(last, read_prompt({**now, **made.fields})) is None


@pytest.mark.parametrize("tools", ["abc", "abd", "ab", "abcc"])
def test_other_tools_are_left_as_they_are(tools):
    now = session("Hi", "Go on", tools=tools)
    assert repair(now, read_prompt(session("Hi")), BOTH, takes_marks=False) is None


def test_a_mark_is_put_on_the_last_block_of_a_request_that_adds_to_the_last():
    made = repair(session("Hi", "Go on"), read_prompt(session("Hi")), BOTH, takes_marks=True)
    mark = {"type": "ephemeral"}
    assert made.fields["messages"][-1]["content"] == [{"type": "text", "text": "Go on", "cache_control": mark}]  # fmt: skip
    assert made.fields["messages"][0] == {"role": "user", "content": "Hi"}


@pytest.mark.parametrize(
    "now",
    [
        session("Another", "Go on"),  # it adds nothing to the last one: all would be written for nothing
        session("Hi", ""),
        {**session("Hi"), "messages": []},
        {**session("Hi", "Go on"), "cache_control": {"type": "ephemeral"}},
    ],
)  # fmt: skip
def test_no_mark_is_put_where_none_helps_or_one_stands(now):
    assert repair(now, read_prompt(session("Hi")), BOTH, takes_marks=True) is None


def test_nothing_is_repaired_that_the_setting_does_not_name():
    now = session("Hi", "Go on", tools="cab")
    assert repair(now, read_prompt(session("Hi")), (), takes_marks=True) is None
    assert "tools" not in repair(session("Hi", "Go on"), read_prompt(session("Hi")), ["marks"], takes_marks=True).fields  # fmt: skip
