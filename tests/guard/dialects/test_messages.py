"""Messages: what a request asks for, and one row of blocks for the client however many calls it took."""

import pytest

from millgate.errors import ConfigError, InputError, UpstreamError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL, Piece
from millgate.guard.dialects import MessagesDialect
from millgate.guard.dialects.dialect import OwnAnswer, digest

START = {"type": "message_start", "message": {"id": "first", "usage": {"input_tokens": 9, "output_tokens": 1}}}  # fmt: skip
THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1000}}


def start(index, kind):
    return {"type": "content_block_start", "index": index, "content_block": {"type": kind}}


def delta(index, kind, **fields):
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index):
    return {"type": "content_block_stop", "index": index}


def send(dialect, *events):
    """What the client gets of these events, when all of them pass."""
    return [out for event in events for piece in dialect.read(event) for out in dialect.write(piece)]  # fmt: skip


def severed(kind="text"):
    """A dialect whose first call was severed inside its first block, and whose second begins."""
    dialect = MessagesDialect()
    dialect.restart()
    text = delta(0, "text_delta", text="One") if kind == "text" else delta(0, "thinking_delta", thinking="Hm")  # fmt: skip
    send(dialect, START, start(0, kind), text)
    dialect.restart()
    return dialect


def test_an_output_format_is_structured():
    dialect = MessagesDialect()
    assert dialect.is_structured({"output_format": {"type": "json_schema"}})
    assert dialect.is_structured({"output_config": {"format": {"type": "json_schema"}}})
    assert not dialect.is_structured({"output_config": {"effort": "low"}})
    assert not dialect.is_structured({"output_config": "odd"})


def test_the_rest_of_the_limit_is_more_than_thinking_may_take():
    dialect = MessagesDialect()
    assert dialect.token_limit({"max_tokens": 2000}) == 2000
    assert dialect.token_limit({"max_tokens": "all"}) == 0
    assert dialect.remaining_limit({"max_tokens": 2000}, 1500) == {"max_tokens": 500}
    assert dialect.remaining_limit({"max_tokens": 2000}, 2500) == {"max_tokens": 1}
    fields = {"max_tokens": 2000, **THINKING}
    assert dialect.remaining_limit(fields, 100) == {"max_tokens": 1900}
    assert dialect.remaining_limit(fields, 1500) == {"max_tokens": 1001}
    assert dialect.remaining_limit({"max_tokens": 9, "thinking": {"budget_tokens": "x"}}, 20) == {"max_tokens": 1}  # fmt: skip


def test_temperature_stays_within_one_and_is_not_changed_beside_thinking():
    dialect = MessagesDialect()
    assert dialect.sampling_overrides({"temperature": 1.2}, {}) == {"temperature": 1.0}
    assert dialect.sampling_overrides({"temperature": 0.8}, {"temperature": 0.9}) == {
        "temperature": 0.9
    }
    assert dialect.sampling_overrides({"temperature": 0.8}, THINKING) == {}
    assert dialect.sampling_overrides({"temperature": 0.8}, {"thinking": {"type": "disabled"}}) == {"temperature": 0.8}  # fmt: skip


def test_thinking_ends_only_if_it_was_asked_for():
    dialect = MessagesDialect()
    assert dialect.answer_now(THINKING) == {"thinking": {"type": "disabled"}}
    assert dialect.answer_now({"thinking": {"type": "adaptive"}}) == {"thinking": {"type": "disabled"}}  # fmt: skip
    assert dialect.answer_now({"thinking": {"type": "disabled"}}) == {}
    assert dialect.answer_now({}) == {}


def test_the_system_prompt_is_a_text_or_parts():
    dialect = MessagesDialect()
    assert dialect.preamble({"system": "Be brief."}) == ("Be brief.",)
    assert dialect.preamble({"system": [{"text": "a"}, "odd", {"text": 5}]}) == ("a",)
    assert dialect.preamble({}) == ()


def test_each_kind_of_delta_is_on_its_channel():
    dialect = MessagesDialect()

    def read(event):
        (piece,) = dialect.read(event)
        return piece.channel, piece.text, piece.call

    assert read(delta(1, "text_delta", text="a")) == (CONTENT, "a", 0)
    assert read(delta(1, "thinking_delta", thinking="b")) == (REASONING, "b", 0)
    assert read(delta(2, "input_json_delta", partial_json="{")) == (TOOL, "{", 2)
    assert read(delta(1, "signature_delta", signature="s")) == (EVENT, "", 0)
    assert read({"type": "content_block_delta"}) == (EVENT, "", 0)
    assert read(start(1, "text")) == (EVENT, "", 0)
    assert read(start(2, "server_tool_use")) == (TOOL, "", 2)
    assert read(stop(2)) == (TOOL, "", 2)
    assert read(stop(1)) == (EVENT, "", 0)
    assert read({"type": "content_block_start", "index": 4}) == (EVENT, "", 0)
    assert not dialect.ended
    assert read({"type": "message_stop"}) == (EVENT, "", 0)
    assert dialect.ended
    dialect.restart()
    assert not dialect.ended
    assert read(stop(2)) == (EVENT, "", 0)  # the tool blocks of the former call are forgotten


def test_one_call_passes_as_it_came():
    dialect = MessagesDialect()
    dialect.restart()
    events = [START, start(0, "thinking"), delta(0, "thinking_delta", thinking="Hm"),
              delta(0, "signature_delta", signature="s"), stop(0), start(1, "text"),
              delta(1, "text_delta", text="One"), stop(1), start(2, "tool_use"),
              delta(2, "input_json_delta", partial_json="{}"), stop(2),
              {"type": "message_delta", "delta": {}}, {"type": "message_stop"}]  # fmt: skip
    assert send(dialect, *events) == events


def test_a_block_that_goes_on_is_merged_into_the_one_that_is_open():
    dialect = severed()
    more = send(dialect, START, start(0, "text"), delta(0, "text_delta", text=" two"), stop(0))
    assert more == [delta(0, "text_delta", text=" two"), stop(0)]


def test_another_block_gets_the_next_index_and_severed_thinking_never_ends():
    dialect = severed("thinking")
    more = send(dialect, START, start(0, "text"), delta(0, "text_delta", text="Two"), stop(0))
    assert more == [start(1, "text"), delta(1, "text_delta", text="Two"), stop(1)]


def test_a_tool_block_is_never_merged():
    dialect = MessagesDialect()
    dialect.restart()
    send(dialect, START, start(0, "tool_use"), delta(0, "input_json_delta", partial_json="{"))
    dialect.restart()
    assert send(dialect, start(0, "tool_use")) == [stop(0), start(1, "tool_use")]


def test_thinking_that_follows_severed_thinking_is_a_block_of_its_own_with_its_signature():
    dialect = severed("thinking")
    thought = delta(0, "thinking_delta", thinking="Two")
    signature = delta(0, "signature_delta", signature="s")
    assert send(dialect, start(0, "thinking"), thought, signature, stop(0)) == [
        start(1, "thinking"),
        delta(1, "thinking_delta", thinking="Two"),
        delta(1, "signature_delta", signature="s"),
        stop(1),
    ]
    assert dialect.severed_reasoning == [digest("Hm")]


def test_the_end_of_a_message_closes_what_is_open():
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    assert send(severed(), end) == [stop(0), end]
    closed = severed()
    send(closed, start(0, "text"), stop(0))
    assert send(closed, end) == [end]


def test_a_stream_that_the_guard_ends_is_closed_and_says_why():
    closing, last, end = severed().finish("tool_calls")
    assert (closing, last["delta"]["stop_reason"], end["type"]) == (stop(0), "tool_use", "message_stop")  # fmt: skip
    last, _ = MessagesDialect().finish("")
    assert last["delta"]["stop_reason"] == "end_turn"


def test_text_of_our_own_goes_into_the_open_block_or_the_last_one():
    dialect = severed()
    assert dialect.write(Piece(CONTENT, "x")) == [delta(0, "text_delta", text="x")]
    send(dialect, start(0, "thinking"))
    assert dialect.write(Piece(REASONING, "x")) == [delta(1, "thinking_delta", thinking="x")]
    send(dialect, stop(0))
    assert dialect.write(Piece(TOOL, "{")) == [delta(1, "input_json_delta", partial_json="{")]
    assert MessagesDialect().write(Piece(CONTENT, "x")) == [delta(0, "text_delta", text="x")]


def test_what_a_start_says_of_its_output_is_no_usage_of_it():
    dialect = MessagesDialect()
    assert dialect.usage(START) == {"input_tokens": 9}
    assert dialect.usage({"usage": {"output_tokens": 5}}) == {"output_tokens": 5}
    assert dialect.usage({"type": "ping"}) is None
    assert dialect.is_error({"type": "error"})
    assert not dialect.is_error(START)


def test_a_whole_answer_is_read_in_its_order():
    content = [{"type": "thinking", "thinking": "b"}, {"type": "text", "text": "a"}, {"type": "tool_use", "input": {"x": 1}}, {"type": "odd"}]  # fmt: skip
    found = MessagesDialect().pieces({"content": content})
    assert [(p.channel, p.text, p.call) for p in found] == [(REASONING, "b", 0), (CONTENT, "a", 0), (TOOL, '{"x":1}', 2)]  # fmt: skip
    assert MessagesDialect().pieces({"content": "odd"}) == []


def test_joined_answers_have_one_text_and_the_calls_that_stand():
    uses = [{"type": "tool_use", "id": "a"}, {"type": "tool_use", "id": "b"}]
    answer = {"id": "second", "stop_reason": "end_turn",
              "content": [{"type": "redacted_thinking"}, {"type": "text", "text": "b"}, *uses]}  # fmt: skip

    def join(texts, calls):
        return MessagesDialect().join(answer, texts, calls, {"id": "first"})

    made = join({CONTENT: "ab"}, 1)
    assert made["content"] == [{"type": "redacted_thinking"}, {"type": "text", "text": "ab"}, uses[0]]  # fmt: skip
    assert (made["stop_reason"], made["id"]) == ("tool_use", "first")
    made = join({CONTENT: ""}, 2)
    assert made["content"] == [{"type": "redacted_thinking"}, *uses]
    assert made["stop_reason"] == "end_turn"


def test_an_answer_of_our_own_is_one_block():
    events = MessagesDialect().own_events(OwnAnswer("Stopped.", "m", "7", 5), {})
    kinds = [event["type"] for event in events]
    assert kinds == ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]  # fmt: skip
    assert events[0]["message"]["content"] == []
    assert events[2]["delta"]["text"] == "Stopped."
    assert events[4]["delta"]["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(InputError("x"), "invalid_request_error"), (UpstreamError("x"), "api_error"), (ConfigError("x"), "api_error")],
)  # fmt: skip
def test_an_error_of_ours_has_the_type_of_its_status(error, kind):
    assert MessagesDialect().error_event(error)["error"]["type"] == kind


THINKS = {"thinking": {"type": "adaptive"}}


def test_answering_now_takes_out_what_needs_thinking():
    clear = {"type": "clear_thinking_20251015", "keep": "all"}
    uses = {"type": "clear_tool_uses_20250919"}
    dialect = MessagesDialect()
    alone = dialect.answer_now({**THINKS, "context_management": {"edits": [clear]}})
    assert alone == {"thinking": {"type": "disabled"}, "context_management": None}
    both = dialect.answer_now({**THINKS, "context_management": {"edits": [clear, uses]}})
    assert both["context_management"] == {"edits": [uses]}
    assert dialect.answer_now(THINKS) == {"thinking": {"type": "disabled"}}
    assert dialect.answer_now({"context_management": {"edits": [clear]}}) == {}


def test_only_thinking_without_a_signature_is_found():
    def block(text, **more):
        return {"type": "thinking", "thinking": text, **more}

    messages = [
        {"role": "user", "content": [block("of nobody")]},
        {"role": "assistant", "content": [block("one", signature="s"), block("two", signature="")]},
        {"role": "assistant", "content": "text"},
        {"role": "assistant", "content": [{"type": "text", "text": "x"}, block("three")]},
    ]
    found = MessagesDialect().unsigned_reasoning(messages)
    assert found == [(digest("two"), 1, 1), (digest("three"), 3, 1)]
