"""Text completions: one prompt, one continuation; anything else passes unwatched."""

import pytest

from millgate.guard.channels import CONTENT, EVENT, Piece
from millgate.guard.dialects import CompletionsDialect
from millgate.guard.dialects.dialect import OwnAnswer


def chunk(text, *, finish=None, index=0, id="first", **more):
    choice = {"index": index, "text": text, "finish_reason": finish}
    return {"id": id, "object": "text_completion", "choices": [choice], **more}


@pytest.mark.parametrize("prompt", ["Once", ["Once"]])
def test_one_prompt_is_a_conversation(prompt):
    dialect = CompletionsDialect()
    assert dialect.conversation({"prompt": prompt}) == ({"role": "user", "content": "Once"},)
    assert dialect.why_unwatched({"prompt": prompt}) == ""


@pytest.mark.parametrize("prompt", [["a", "b"], [1, 2], [], None])
def test_several_prompts_or_tokens_are_not_watched(prompt):
    dialect = CompletionsDialect()
    assert dialect.conversation({"prompt": prompt}) == ()
    assert "prompt" in dialect.why_unwatched({"prompt": prompt})


@pytest.mark.parametrize("more", [{"echo": True}, {"suffix": "end"}, {"n": 2}])
def test_what_is_more_than_a_continuation_is_not_watched(more):
    (name,) = more
    assert CompletionsDialect().why_unwatched({"prompt": "a", **more}).startswith(name)
    assert CompletionsDialect().why_unwatched({"prompt": "a", name: None}) == ""


def test_what_was_said_stands_behind_the_prompt_and_a_block_in_front():
    dialect = CompletionsDialect()
    messages = [{"role": "user", "content": "Once"}, {"role": "assistant", "content": " upon"}]
    assert dialect.replace_conversation(messages) == {"prompt": "Once upon"}
    assert dialect.add_block(messages[0], "[block]")["content"] == "[block]\n\nOnce"


def test_text_and_end_are_two_pieces():
    dialect = CompletionsDialect()
    (piece,) = dialect.read(chunk("hi"))
    assert (piece.channel, piece.text, dialect.ended) == (CONTENT, "hi", False)
    said, end = dialect.read(chunk("ho", finish="length"))
    assert (said.channel, said.text, end.channel) == (CONTENT, "ho", EVENT)
    assert said.raw["choices"][0]["finish_reason"] is None
    assert end.raw["choices"][0] == {"index": 0, "text": "", "finish_reason": "length"}
    assert dialect.ended
    assert [piece.channel for piece in dialect.read(chunk("", finish="stop"))] == [EVENT]
    assert [piece.channel for piece in dialect.read(chunk("other", index=1))] == [EVENT]
    assert [piece.channel for piece in dialect.read({"choices": []})] == [EVENT]


def test_a_later_call_speaks_under_the_first_id():
    dialect = CompletionsDialect()
    dialect.restart()
    dialect.write(*dialect.read(chunk("One")))
    dialect.restart()
    (event,) = dialect.write(*dialect.read(chunk("Two", id="second")))
    assert (event["id"], event["choices"][0]["text"]) == ("first", "Two")
    (event,) = dialect.write(Piece(CONTENT, "ours"))
    assert (event["id"], event["choices"][0]["text"]) == ("first", "ours")


def test_whole_answers_are_read_joined_and_made():
    dialect = CompletionsDialect()
    answer = {"id": "second", "choices": [{"text": "b", "finish_reason": "stop"}]}
    assert [(p.channel, p.text) for p in dialect.pieces(answer)] == [(CONTENT, "b")]
    assert dialect.pieces({"choices": []}) == []
    joined = dialect.join(answer, {CONTENT: "ab"}, 0, {"id": "first"})
    assert (joined["id"], joined["choices"][0]["text"]) == ("first", "ab")
    own = dialect.own_answer(OwnAnswer("Stopped.", "m", "7", 5))
    assert (own["id"], own["object"]) == ("cmpl-7", "text_completion")
    assert (own["choices"][0]["text"], own["choices"][0]["finish_reason"]) == ("Stopped.", "stop")
