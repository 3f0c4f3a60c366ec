"""Chat completions: what a request asks for, and a stream that reads as one answer however many calls it took."""

import pytest

from millgate.errors import UpstreamError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects import ChatDialect
from millgate.guard.dialects.dialect import OwnAnswer

CALL = {"index": 1, "id": "c", "function": {"name": "f", "arguments": "{}"}}


def chunk(delta, *, finish=None, index=0, id="first", **more):
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": id, "model": "m", "object": "chat.completion.chunk", "choices": [choice], **more}


def begun(calls=1):
    """A dialect in its n-th call, whose first call has said its role and a word."""
    dialect = ChatDialect()
    dialect.restart()
    for event in (chunk({"role": "assistant", "content": ""}), chunk({"content": "One"})):
        for piece in dialect.read(event):
            dialect.write(piece)
    for _ in range(calls - 1):
        dialect.restart()
    return dialect


def said(pieces):
    return [(piece.channel, piece.text, piece.call) for piece in pieces]


@pytest.mark.parametrize(("n", "watched"), [(None, True), (1, True), (2, False), (0, False)])
def test_only_one_choice_is_watched(n, watched):
    assert (ChatDialect().why_unwatched({"n": n}) == "") is watched


@pytest.mark.parametrize(
    ("wanted", "structured"),
    [(None, False), ("json", False), ({"type": "text"}, False), ({"type": "json_object"}, True), ({"type": "json_schema"}, True)],
)  # fmt: skip
def test_a_json_format_is_structured(wanted, structured):
    assert ChatDialect().is_structured({"response_format": wanted}) is structured


def test_the_newer_limit_counts_and_both_shrink():
    fields = {"max_tokens": 50, "max_completion_tokens": 80}
    assert ChatDialect().token_limit(fields) == 80
    assert ChatDialect().token_limit({"max_tokens": 50}) == 50
    assert ChatDialect().token_limit({"max_tokens": "many"}) == 0
    shrunk = {"max_tokens": 40, "max_completion_tokens": 70}
    assert ChatDialect().remaining_limit(fields, 10) == shrunk


def test_reasoning_is_shortened_only_if_it_was_asked_for():
    assert ChatDialect().answer_now({"reasoning_effort": "high"}) == {"reasoning_effort": "low"}
    assert ChatDialect().answer_now({}) == {}


def test_each_kind_of_text_is_on_its_channel():
    dialect = ChatDialect()
    assert said(dialect.read(chunk({"content": "a"}))) == [(CONTENT, "a", 0)]
    assert said(dialect.read(chunk({"reasoning": "b"}))) == [(REASONING, "b", 0)]
    assert said(dialect.read(chunk({"reasoning_content": "b"}))) == [(REASONING, "b", 0)]
    assert said(dialect.read(chunk({"tool_calls": [CALL]}))) == [(TOOL, "{}", 1)]
    assert said(dialect.read({"choices": [], "usage": {}})) == [(EVENT, "", 0)]
    assert said(dialect.read(chunk({"content": "other choice"}, index=1))) == [(EVENT, "", 0)]


def test_a_chunk_with_several_parts_becomes_one_chunk_for_each_and_its_end():
    dialect = ChatDialect()
    whole = chunk({"role": "assistant", "reasoning": "b", "content": "a", "tool_calls": [CALL]}, finish="stop")  # fmt: skip
    pieces = dialect.read(whole)
    assert said(pieces) == [(REASONING, "b", 0), (CONTENT, "a", 0), (TOOL, "{}", 1), (EVENT, "", 0)]
    choices = [piece.raw["choices"][0] for piece in pieces]
    assert choices[0]["delta"] == {"role": "assistant", "reasoning": "b"}
    assert choices[1]["delta"] == {"content": "a"}
    assert choices[2]["delta"] == {"tool_calls": [CALL]}
    assert choices[3]["delta"] == {}
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]
    assert dialect.ended


def test_a_role_alone_is_an_event_that_keeps_it():
    (piece,) = ChatDialect().read(chunk({"role": "assistant", "content": ""}))
    assert piece.channel == EVENT
    assert piece.raw["choices"][0]["delta"] == {"role": "assistant", "content": ""}


def test_a_later_call_speaks_under_the_first_id_and_says_no_role_again():
    dialect = begun(calls=2)
    again = list(dialect.read(chunk({"role": "assistant", "content": ""}, id="second")))
    assert [event for piece in again for event in dialect.write(piece)] == []
    (piece,) = dialect.read(chunk({"content": "Two"}, id="second"))
    (event,) = dialect.write(piece)
    assert (event["id"], event["choices"][0]["delta"]) == ("first", {"content": "Two"})
    (end,) = dialect.read(chunk({}, finish="stop", id="second"))
    (event,) = dialect.write(end)
    assert (event["id"], event["choices"][0]["finish_reason"]) == ("first", "stop")
    (usage,) = dialect.read({"id": "second", "choices": [], "usage": {"total_tokens": 1}})
    assert dialect.write(usage)[0]["id"] == "first"


def test_the_first_call_passes_as_it_came():
    dialect = begun()
    event = chunk({"role": "assistant"}, id="odd")
    assert dialect.write(Piece(EVENT, raw=event)) == [event]


def test_text_of_our_own_is_a_chunk_on_its_channel():
    dialect = begun()
    for channel, delta in (
        (CONTENT, {"content": "x"}),
        (REASONING, {"reasoning_content": "x"}),
        (TOOL, {"tool_calls": [{"index": 2, "function": {"arguments": "x"}}]}),
    ):
        (event,) = dialect.write(Piece(channel, "x", call=2 if channel == TOOL else 0))
        assert event["choices"] == [{"index": 0, "finish_reason": None, "delta": delta}]
        assert event["id"] == "first"


def test_a_stream_that_the_guard_ends_says_why():
    assert begun().finish("tool_calls")[0]["choices"][0]["finish_reason"] == "tool_calls"
    assert begun().finish("")[0]["choices"][0]["finish_reason"] == "stop"


def test_a_new_call_has_not_ended():
    dialect = begun()
    dialect.read(chunk({}, finish="stop"))
    assert dialect.ended
    dialect.restart()
    assert not dialect.ended


def test_an_error_is_an_event_without_choices():
    assert ChatDialect().is_error({"error": {"message": "down"}})
    assert not ChatDialect().is_error({"error": None})
    assert not ChatDialect().is_error({"error": {}, "choices": []})
    assert not ChatDialect().is_error({"error": {"message": "x"}, "choices": [{}]})


def test_usage_is_told_behind_the_end_if_it_was_asked_for():
    dialect, last = ChatDialect(), chunk({}, finish="stop")
    assert dialect.usage_events(last, {}) == []
    assert dialect.usage_events(last, {"stream_options": {"include_usage": False}}) == []
    (event,) = dialect.usage_events(last, {"stream_options": {"include_usage": True}})
    assert (event["choices"], event["usage"]["total_tokens"]) == ([], 0)
    assert dialect.estimate_usage(3, 4) == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}  # fmt: skip
    assert dialect.usage({"usage": [1]}) is None


def test_a_whole_answer_is_read_in_its_channels():
    message = {"reasoning": "b", "content": "a", "tool_calls": [CALL, {"odd": 1}]}
    answer = {"choices": [{"message": message}]}
    assert said(ChatDialect().pieces(answer)) == [(REASONING, "b", 0), (CONTENT, "a", 0), (TOOL, "{}", 0)]  # fmt: skip
    assert ChatDialect().pieces({"choices": []}) == []
    assert ChatDialect().pieces({"choices": [{"message": {"content": 5}}]}) == []


def joined(message, texts, calls):
    texts = {CONTENT: "", REASONING: ""} | texts
    answer = {"id": "second", "choices": [{"message": message, "finish_reason": "stop"}]}
    made = ChatDialect().join(answer, texts, calls, {"id": "first", "created": 1})
    assert (made["id"], made["created"]) == ("first", 1)
    return made["choices"][0]


def test_joined_answers_have_the_texts_of_all_calls():
    choice = joined({"content": "b", "reasoning": "d"}, {CONTENT: "ab", REASONING: "cd"}, 0)
    assert choice["message"] == {"content": "ab", "reasoning": "cd"}
    assert joined({"content": None}, {}, 0)["message"] == {"content": None}
    assert joined({"content": "b"}, {}, 0)["message"] == {"content": ""}
    assert joined({"content": None}, {CONTENT: "a"}, 0)["message"] == {"content": "a"}
    assert joined({}, {REASONING: "c"}, 0)["message"] == {"reasoning_content": "c"}


def test_calls_beyond_those_that_stand_are_left_out_and_the_reason_says_so():
    calls = [CALL, {**CALL, "id": "d"}]
    choice = joined({"tool_calls": calls}, {}, 1)
    assert choice["message"]["tool_calls"] == [CALL]
    assert choice["finish_reason"] == "tool_calls"
    choice = joined({"tool_calls": calls}, {}, 2)
    assert choice["message"]["tool_calls"] == calls
    assert choice["finish_reason"] == "stop"


def test_an_answer_of_our_own_is_whole_or_streamed():
    answer = OwnAnswer("Stopped.", "m", "7", 5)
    whole = ChatDialect().own_answer(answer)
    assert (whole["id"], whole["created"], whole["object"]) == ("chatcmpl-7", 5, "chat.completion")
    assert whole["choices"][0]["message"]["content"] == "Stopped."
    said, last = ChatDialect().own_events(answer, {})
    assert said["choices"][0]["delta"] == {"role": "assistant", "content": "Stopped."}
    assert said["choices"][0]["finish_reason"] is None
    assert last["choices"][0]["finish_reason"] == "stop"


def test_an_error_of_ours_has_the_shape_clients_expect():
    error = ChatDialect().error(UpstreamError("down"), "model")["error"]
    assert (error["type"], error["code"], error["param"]) == ("upstream_error", "upstream_failed", "model")  # fmt: skip
