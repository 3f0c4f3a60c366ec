"""Turns: what was said is kept once, in order, in the form that the ranking knows."""

import pytest

from millgate.errors import InputError
from millgate.knowledge.turns import add_turns, turn_documents
from millgate.stores.temporary import TemporaryStore
from millgate.text.turns import part

TALK = [
    {"role": "user", "content": "Where do we deploy?", "time": 1_683_554_160},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "To Frankfurt."}],
        "time": 1_683_554_170,
    },
    {"name": "Caroline", "content": "ok", "time": "8 May"},
]


def test_turns_open_with_date_and_speaker():
    texts = [document.chunks[0].text for document in turn_documents(TALK, "s1")]
    assert texts == [
        "[13:56 on 8 May, 2023] User: Where do we deploy?",
        "[13:56 on 8 May, 2023] Assistant: To Frankfurt.",
        "[8 May] Caroline: ok",
    ]
    assert [part(text).speaker for text in texts] == ["User", "Assistant", "Caroline"]


@pytest.mark.parametrize("one", ["hello", TALK[0]])
def test_one_turn_in_the_place_of_a_list_is_refused(one):
    with pytest.raises(InputError, match="not a list"):
        turn_documents(one, "s1")


def test_turns_are_chunks_of_their_own_source_and_chain():
    first, second, third = (
        document.chunks[0] for document in turn_documents(TALK, "s1", after="before")
    )
    assert {c.source for c in (first, second, third)} == {"turn"}
    assert [c.metadata["parent"] for c in (first, second, third)] == ["before", first.id, second.id]
    assert all(c.id == c.document and c.admission is None for c in (first, second, third))


def test_sending_the_history_again_adds_only_what_is_new():
    store = TemporaryStore()
    assert add_turns(store, "t", "s1", TALK[:2]).new == 2
    again = add_turns(store, "t", "s1", TALK, now=99.0)
    assert (again.new, len(again.ids)) == (1, 3)
    assert add_turns(store, "t", "s1", TALK, now=123.0).new == 0
    assert [c.id for c in store.scan("t", "turns")] == list(again.ids)


def test_the_same_words_twice_are_two_turns():
    ids = [document.id for document in turn_documents(["yes", "yes", "yes"], "s")]
    assert len(set(ids)) == 3
    assert ids == [document.id for document in turn_documents(["yes", "yes", "yes"], "s", now=5.0)]


def test_sessions_are_apart():
    store = TemporaryStore()
    add_turns(store, "t", "one", ["hello there world"])
    assert add_turns(store, "t", "two", ["hello there world"]).new == 1


def test_a_message_may_name_its_id_phase_and_parent():
    message = {"id": "m7", "content": "x", "parent": "m1", "phase": "planning", "salience": 0.5}
    (document,) = turn_documents([message], "s")
    assert document.id == "m7"
    chunk = document.chunks[0]
    assert (chunk.metadata["parent"], chunk.metadata["phase"]) == ("m1", "planning")


@pytest.mark.parametrize(
    "message",
    [
        {"content": ""},
        {"content": None},
        {"role": "tool", "content": {"a": 1}},
        "",
        {"content": [1]},
    ],
)
def test_a_turn_that_says_nothing_is_left_out(message):
    assert turn_documents([message], "s") == []


@pytest.mark.parametrize(
    ("messages", "session", "reason"),
    [
        ([7], "s", "message 0 is int"),
        (["x"], " ", "no name"),
        ([{"content": "x", "time": 1e30}], "s", "time is"),
    ],
)
def test_what_is_no_turn_is_refused(messages, session, reason):
    with pytest.raises(InputError, match=reason):
        turn_documents(messages, session)


def test_a_strange_speaker_or_date_cannot_break_the_head():
    (document,) = turn_documents([{"name": "x]: y\n[z", "content": "hi", "time": "a]b[c"}], "s")
    assert document.chunks[0].text == "[a b c] X y z: hi"


def test_nothing_is_written_when_nothing_is_said():
    store = TemporaryStore()
    assert add_turns(store, "t", "s", []).ids == ()
    assert store.collections("t") == {}
