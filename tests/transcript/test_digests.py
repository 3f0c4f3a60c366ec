"""Digests: the same conversation has the same digests, in whatever spelling it comes."""

import json
import random

import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, render
from hypothesis import given
from hypothesis import strategies as st

from millgate.transcript.digests import digests
from millgate.transcript.parts import read

CALL = MadeCall("Read", {"path": "a.py", "from": 1}, "line 1\nline 2")
TURNS = [Turn(human="Look at a.py."), Turn(text="I will.", calls=(CALL,)), Turn(text="Done."), Turn(human="Thanks.")]  # fmt: skip
TEXTS = {"user": "text", "assistant": "text"}


def respell(value, random):
    """The same message as another client, or the same a call later, writes it."""
    if isinstance(value, list):
        return [respell(inner, random) for inner in value]
    if not isinstance(value, dict):
        return value
    pairs = [(name, respell(inner, random)) for name, inner in value.items()]
    random.shuffle(pairs)
    made = dict(pairs)
    if isinstance(made.get("content"), str) and made.get("role") in TEXTS and random.random() < 0.5:
        made["content"] = [{"type": "text", "text": made["content"]}]
    if "type" in made and random.random() < 0.5:
        made["cache_control"] = {"type": "ephemeral"}
    return made


@pytest.mark.parametrize("api", APIS)
@given(seed=st.integers(0, 1000))
def test_another_spelling_has_the_same_parts_and_digests(api, seed):
    messages = render(TURNS, api)
    other = [respell(message, random.Random(seed)) for message in messages]
    assert [[p[:4] for p in read(m)] for m in other] == [[p[:4] for p in read(m)] for m in messages]
    assert digests(other) == digests(messages)


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_that_goes_on_keeps_its_digests(api):
    messages = render(TURNS, api)
    whole = digests(messages)
    assert len(whole) == len(messages)
    for at in range(len(messages)):
        assert digests(messages[:at]) == whole[:at]
        assert digests(messages[at:], whole[at - 1] if at else b"") == whole[at:]


@pytest.mark.parametrize("api", APIS)
def test_a_change_shows_from_its_message_on(api):
    messages = render(TURNS, api)
    whole = digests(messages)
    for at in range(len(messages)):
        text = json.dumps(messages[at]).replace("a.py", "b.py").replace("line 1", "line 7")
        changed = digests([*messages[:at], json.loads(text), *messages[at + 1 :]])
        assert changed[:at] == whole[:at]
        if json.loads(text) != messages[at]:
            assert not set(changed[at:]) & set(whole)


def test_texts_that_run_into_each_other_are_told_apart():
    one = [{"role": "user", "content": "ab"}, {"role": "user", "content": "c"}]
    other = [{"role": "user", "content": "a"}, {"role": "user", "content": "bc"}]
    assert digests(one)[-1] != digests(other)[-1]
    assert digests([{"role": "user", "content": "a"}]) != digests([{"role": "assistant", "content": "a"}])  # fmt: skip


def test_what_the_model_thought_does_not_count():
    words = {"type": "text", "text": "Hi"}
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    with_it = [{"role": "assistant", "content": [thought, words]}]
    assert digests(with_it) == digests([{"role": "assistant", "content": "Hi"}])
    asked = {"role": "user", "content": "Why?"}
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    assert digests([asked, item])[-1] == digests([asked])[-1]


def test_a_lone_surrogate_has_a_digest():
    assert digests([{"role": "user", "content": "\ud800"}])
