"""Responses: what a request asks for, and one row of numbered items for the client however many calls it took."""

import pytest

from millgate.errors import UpstreamError
from millgate.guard.channels import CONTENT, EVENT, REASONING, TOOL
from millgate.guard.dialects import ResponsesDialect
from millgate.guard.dialects.dialect import OwnAnswer


def event(kind, **fields):
    return {"type": f"response.{kind}", **fields}


def created(id="first"):
    return event("created", response={"id": id})


def added(index, kind, id):
    return event("output_item.added", output_index=index, item={"id": id, "type": kind})


def part_added(index, id, content_index=0):
    return event("content_part.added", output_index=index, item_id=id, content_index=content_index)


def text(index, id, said):
    return event("output_text.delta", output_index=index, item_id=id, delta=said)


def item(id, said):
    return {"id": id, "type": "message", "content": [{"type": "output_text", "text": said, "annotations": [1]}]}  # fmt: skip


def item_done(index, item):
    return event("output_item.done", output_index=index, item=item)


def send(dialect, *events):
    """What the client gets of these events, when all of them pass."""
    return [out for one in events for piece in dialect.read(one) for out in dialect.write(piece)]


def severed():
    """A dialect whose first call was severed inside a message, and whose second begins."""
    dialect = ResponsesDialect()
    dialect.restart()
    send(dialect, created(), added(0, "message", "m1"), part_added(0, "m1"), text(0, "m1", "One"))
    dialect.restart()
    send(dialect, created("second"))
    return dialect


def test_the_input_is_a_text_items_or_nothing():
    dialect = ResponsesDialect()
    assert dialect.conversation({}) == ()
    assert dialect.conversation({"input": "hi"}) == ({"role": "user", "content": "hi"},)
    assert dialect.conversation({"input": [{"type": "x"}]}) == ({"type": "x"},)


@pytest.mark.parametrize("name", ["background", "conversation"])
def test_what_leaves_traces_at_the_upstream_is_not_watched(name):
    assert ResponsesDialect().why_unwatched({name: True}).startswith(f"{name} is set")
    assert ResponsesDialect().why_unwatched({name: None}) == ""


def test_a_json_format_is_structured():
    dialect = ResponsesDialect()
    assert dialect.is_structured({"text": {"format": {"type": "json_schema"}}})
    assert not dialect.is_structured({"text": {"format": {"type": "text"}}})
    assert not dialect.is_structured({"text": {"verbosity": "low"}})
    assert not dialect.is_structured({"text": "odd"})


def test_a_limit_is_not_made_smaller_than_the_api_takes():
    dialect = ResponsesDialect()
    assert dialect.token_limit({"max_output_tokens": 100}) == 100
    assert dialect.token_limit({"max_output_tokens": None}) == 0
    assert dialect.remaining_limit({"max_output_tokens": 100}, 40) == {"max_output_tokens": 60}
    assert dialect.remaining_limit({"max_output_tokens": 100}, 99) == {"max_output_tokens": 16}


def test_temperature_is_changed_only_if_the_request_has_one():
    assert ResponsesDialect().sampling_overrides({"temperature": 0.8}, {}) == {}
    assert ResponsesDialect().sampling_overrides({"temperature": 0.8}, {"temperature": 0.2}) == {"temperature": 0.8}  # fmt: skip


def test_reasoning_is_shortened_only_if_it_was_asked_for():
    given = {"reasoning": {"effort": "high", "summary": "auto"}}
    assert ResponsesDialect().answer_now(given) == {"reasoning": {"effort": "low", "summary": "auto"}}  # fmt: skip
    assert ResponsesDialect().answer_now({"reasoning": None}) == {}
    assert ResponsesDialect().preamble({"instructions": "Be brief."}) == ("Be brief.",)
    assert ResponsesDialect().preamble({"instructions": None}) == ()


def test_each_kind_of_delta_is_on_its_channel():
    dialect = ResponsesDialect()

    def read(given):
        (piece,) = dialect.read(given)
        return piece.channel, piece.text, piece.call

    assert read(text(0, "m", "a")) == (CONTENT, "a", 0)
    assert read(event("reasoning_summary_text.delta", output_index=1, delta="b")) == (REASONING, "b", 0)  # fmt: skip
    assert read(added(2, "function_call", "c")) == (TOOL, "", 2)
    assert read(event("function_call_arguments.delta", output_index=2, delta="{")) == (TOOL, "{", 2)
    assert read(item_done(2, {"id": "c"})) == (TOOL, "", 2)
    assert read(event("output_text.done", output_index=0, text="a")) == (EVENT, "", 0)
    assert read(event("ping")) == (EVENT, "", 0)
    assert not dialect.ended
    assert read(event("incomplete", response={})) == (EVENT, "", 0)
    assert dialect.ended
    dialect.restart()
    assert not dialect.ended
    assert read(item_done(2, {"id": "c"})) == (EVENT, "", 0)


def test_the_client_knows_the_first_id_and_the_upstream_the_last():
    dialect = severed()
    assert dialect.answer_ids == ("first", "second")
    dialect.read(event("completed", response={}))
    assert dialect.answer_ids == ("first", "second")


def test_one_call_passes_numbered_and_as_it_came():
    dialect = ResponsesDialect()
    dialect.restart()
    events = [created(), added(0, "message", "m1"), part_added(0, "m1"), text(0, "m1", "One"),
              event("output_text.done", output_index=0, item_id="m1", text="One"),
              item_done(0, item("m1", "One")), added(1, "function_call", "c"),
              event("function_call_arguments.delta", output_index=1, item_id="c", delta="{}"),
              item_done(1, {"id": "c", "type": "function_call"}), event("ping"),
              event("completed", response={"id": "first", "output": ["all"]})]  # fmt: skip
    expected = [{**one, "sequence_number": n} for n, one in enumerate(events)]
    assert send(dialect, *events) == expected


def test_a_message_that_goes_on_is_merged_into_the_open_one():
    dialect = severed()
    more = send(
        dialect,
        added(0, "message", "m2"),
        part_added(0, "m2"),
        part_added(0, "m2", 1),
        text(0, "m2", " two"),
        event("output_text.done", output_index=0, item_id="m2", text=" two"),
        event(
            "content_part.done", output_index=0, item_id="m2", part=item("", " two")["content"][0]
        ),
        item_done(0, item("m2", " two")),
        event("completed", response={"id": "second", "output": []}),
    )
    kinds = [one["type"].removeprefix("response.") for one in more]
    assert kinds == ["content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"]  # fmt: skip
    assert [one["sequence_number"] for one in more] == list(range(4, 10))
    assert [one.get("output_index") for one in more[:-1]] == [0, 0, 0, 0, 0]
    assert {one["item_id"] for one in more[:4]} == {"m1"}
    assert more[0]["content_index"] == 1
    assert more[2]["text"] == "One two"
    assert more[3]["part"] == {"type": "output_text", "text": "One two", "annotations": []}
    assert more[4]["item"]["content"][0]["text"] == "One two"
    assert more[5]["response"] == {"id": "first", "output": [more[4]["item"]]}


def test_a_message_that_was_left_open_ends_before_any_other_item_begins():
    dialect = severed()
    more = send(
        dialect,
        added(0, "reasoning", "r2"),
        added(1, "message", "m2"),
        part_added(1, "m2"),
        text(1, "m2", "two"),
        item_done(1, item("m2", "two")),
        event("completed", response={"id": "second", "output": []}),
    )
    kinds = [one["type"].removeprefix("response.") for one in more]
    assert kinds == ["output_text.done", "content_part.done", "output_item.done", "output_item.added", "output_item.added", "content_part.added", "output_text.delta", "output_item.done", "completed"]  # fmt: skip
    assert [one["sequence_number"] for one in more] == list(range(4, 13))
    assert [one.get("output_index") for one in more[:-1]] == [0, 0, 0, 1, 2, 2, 2, 2]
    assert more[0]["text"] == "One"
    assert [one["content"][0]["text"] for one in more[-1]["response"]["output"]] == ["One", "two"]


def test_a_message_that_was_left_open_ends_before_the_response_does():
    dialect = severed()
    *closed, end = send(dialect, event("completed", response={"id": "second", "output": []}))
    assert [one["type"].rsplit(".", 1)[1] for one in closed] == ["done", "done", "done"]
    assert [one["id"] for one in end["response"]["output"]] == ["m1"]


def test_a_message_after_one_that_is_done_is_a_new_one():
    dialect = severed()
    send(dialect, added(0, "message", "m2"), item_done(0, item("m2", "")))
    (new,) = send(dialect, added(1, "message", "m3"))
    assert (new["output_index"], new["item"]["id"]) == (1, "m3")


def test_a_message_of_several_parts_keeps_its_texts():
    dialect = severed()
    parts = [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]
    (done,) = send(dialect, item_done(0, {"id": "m1", "type": "message", "content": parts}))
    assert done["item"]["content"] == parts


def test_a_part_that_is_no_text_stays_and_one_that_is_right_keeps_its_annotations():
    dialect = ResponsesDialect()
    dialect.restart()
    send(dialect, created(), added(0, "message", "m1"), text(0, "m1", "One"))
    refusal = {"type": "refusal", "refusal": "no"}
    (done,) = send(dialect, event("content_part.done", output_index=0, item_id="m1", part=refusal))
    assert done["part"] == refusal
    (done,) = send(dialect, item_done(0, item("m1", "One")))
    assert done["item"] == item("m1", "One")


def test_an_event_of_an_unknown_item_belongs_to_the_open_message():
    dialect = severed()
    (placed,) = send(dialect, text(7, "m9", "?"))
    assert (placed["output_index"], placed["item_id"]) == (0, "m1")


def test_a_stream_that_the_guard_ends_has_the_items_that_are_complete():
    dialect = severed()
    send(dialect, added(0, "function_call", "c"), item_done(0, {"id": "c", "type": "function_call"}))  # fmt: skip
    (end,) = dialect.finish("tool_calls")
    assert end["type"] == "response.completed"
    assert end["response"]["id"] == "first"
    assert [one["id"] for one in end["response"]["output"]] == ["m1", "c"]


def test_last_words_stand_in_the_open_message_or_in_one_of_their_own():
    *more, end = severed().finish("stop", " Bye.")
    assert [one["type"] for one in more[:1]] == ["response.output_text.delta"]
    (message,) = end["response"]["output"]
    assert message["content"][0]["text"] == "One Bye."
    dialect = ResponsesDialect()
    dialect.restart()
    kinds = [one["type"].removeprefix("response.") for one in dialect.finish("stop", "Bye.")]
    assert kinds == ["output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done", "completed"]  # fmt: skip


def test_usage_stands_in_the_response_or_at_the_top():
    dialect = ResponsesDialect()
    assert dialect.usage(event("completed", response={"usage": {"a": 1}})) == {"a": 1}
    assert dialect.usage({"usage": {"a": 1}}) == {"a": 1}
    assert dialect.usage(event("completed", response={})) is None
    inside = dialect.with_usage(event("completed", response={"id": "x"}), {"a": 2})
    assert inside["response"] == {"id": "x", "usage": {"a": 2}}
    assert dialect.with_usage({"id": "x"}, {"a": 2}) == {"id": "x", "usage": {"a": 2}}
    assert dialect.estimate_usage(3, 4)["total_tokens"] == 7


def test_a_whole_answer_is_read_in_its_order():
    output = [
        {"type": "reasoning", "summary": [{"text": "s"}], "content": [{"text": "r"}, "odd"]},
        item("m", "a"),
        {"type": "function_call", "arguments": "{}"},
        {"type": "custom_tool_call", "input": "go"},
        {"type": "odd"},
    ]
    found = ResponsesDialect().pieces({"id": "x", "output": output})
    assert [(p.channel, p.text, p.call) for p in found] == [
        (REASONING, "s", 0), (REASONING, "r", 0), (CONTENT, "a", 0), (TOOL, "{}", 2), (TOOL, "go", 3)
    ]  # fmt: skip
    assert ResponsesDialect().pieces({"output": "odd"}) == []


def joined(output, content, calls):
    answer = {"id": "second", "output": output}
    made = ResponsesDialect().join(answer, {CONTENT: content}, calls, {"id": "first"})
    assert made["id"] == "first"
    return made["output"]


def test_joined_answers_have_one_message_and_the_calls_that_stand():
    calls = [{"type": "function_call", "id": "a"}, {"type": "custom_tool_call", "id": "b"}]
    thought = {"type": "reasoning", "id": "r"}
    found = joined([thought, item("m", "b"), item("n", "c"), *calls], "ab", 1)
    assert [one.get("id") for one in found] == ["r", "m", "a"]
    assert found[1]["content"][0]["text"] == "ab"
    assert [one.get("id") for one in joined([thought, *calls], "", 2)] == ["r", "a", "b"]
    assert joined([item("m", "b")], "", 0) == []


def test_a_text_without_a_message_gets_one_in_front_of_the_calls():
    made, call = joined([{"type": "function_call", "id": "a"}], "ab", 1)
    assert (made["id"], made["content"][0]["text"], call["id"]) == ("msg_first", "ab", "a")


def test_an_answer_of_our_own_is_numbered_from_its_creation_to_its_completion():
    events = ResponsesDialect().own_events(OwnAnswer("Stopped.", "m", "7", 5), {})
    assert [one["sequence_number"] for one in events] == list(range(9))
    assert events[0]["response"]["output"] == []
    assert events[4]["delta"] == "Stopped."
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Stopped."


def test_an_error_in_a_stream_is_numbered_too():
    dialect = severed()
    made = dialect.error_event(UpstreamError("down"))
    assert (made["type"], made["code"], made["sequence_number"]) == ("error", "upstream_failed", 4)
    assert dialect.is_error(made)
    assert not dialect.is_error(event("failed"))
