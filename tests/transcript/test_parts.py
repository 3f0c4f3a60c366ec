"""One table of the shapes in which APIs and agents write a message, and the parts that each is."""

import pytest
from bench.fixtures.sessions import APIS, MadeCall, Turn, render

from millgate.transcript.parts import (
    find_command,
    insert,
    is_from_model,
    is_from_person,
    join_texts,
    question_of,
    read,
    read_all,
)
from millgate.transcript.places import replace_text, text_at

MARK = {"cache_control": {"type": "ephemeral"}}
TEXT = {"type": "text", "text": "Hi"}
REPORT = "<returncode>0</returncode>\n<output>ok</output>"
SUMMARY = "This session is being continued from a previous conversation."
CODE = {"role": "assistant", "content": "Look:\n```bash\nls\n```"}

# a message, and its parts as kind, text, id, tool
SHAPES = [
    # what people and programs say
    ("Hi", [("human", "Hi")]),
    ({"role": "user", "content": "Hi"}, [("human", "Hi")]),
    ({"role": "user", "content": [TEXT]}, [("human", "Hi")]),
    ({"role": "user", "content": [TEXT | MARK]}, [("human", "Hi")]),
    ({"role": "user", "type": "message", "content": [{"type": "input_text", "text": "Hi"}]}, [("human", "Hi")]),
    ({"role": "user", "parts": [{"text": "Hi"}]}, [("human", "Hi")]),
    ({"role": "user", "content": "<system-reminder>x</system-reminder>"}, [("system", "<system-reminder>x</system-reminder>")]),
    ({"role": "system", "content": "Be brief."}, [("system", "Be brief.")]),
    ({"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}, [("system", "Be brief.")]),
    # what the model says and thinks
    ({"role": "assistant", "content": "Hi"}, [("text", "Hi")]),
    ({"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "Hi"}]}, [("thinking", "hm"), ("text", "Hi")]),
    ({"role": "assistant", "reasoning_content": "hm", "content": "Hi"}, [("thinking", "hm"), ("text", "Hi")]),
    ({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, TEXT]}, [("thinking", "hm"), ("text", "Hi")]),
    ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, [("thinking", "hm")]),
    # calls
    ({"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "ls", "arguments": "{}"}}]}, [("call", "{}", "1", "ls")]),
    ({"role": "assistant", "tool_calls": [{"id": "1", "custom": {"name": "ls", "input": "go"}}]}, [("call", "go", "1", "ls")]),
    ({"role": "assistant", "function_call": {"name": "ls", "arguments": "{}"}}, [("call", "{}", "ls", "ls")]),
    ({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "ls", "input": {"b": 1, "a": 2}}]}, [("call", '{"a":2,"b":1}', "1", "ls")]),
    ({"type": "function_call", "call_id": "1", "name": "ls", "arguments": "{}"}, [("call", "{}", "1", "ls")]),
    ({"type": "local_shell_call", "id": "1", "action": {"a": 1}}, [("call", '{"a":1}', "1", "local_shell_call")]),
    ({"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]}, [("call", "{}", "ls", "ls")]),
    ({"role": "assistant", "content": [{"type": "toolCall", "id": "1", "name": "ls", "arguments": {}}]}, [("call", "{}", "1", "ls")]),
    # results
    ({"role": "tool", "tool_call_id": "1", "content": "ok"}, [("result", "ok", "1")]),
    ({"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "ok"}]}, [("result", "ok", "1")]),
    ({"role": "function", "name": "ls", "content": "ok"}, [("result", "ok", "ls")]),
    ({"role": "toolResult", "toolCallId": "1", "content": [TEXT]}, [("result", "Hi", "1")]),
    ({"type": "function_call_output", "call_id": "1", "output": "ok"}, [("result", "ok", "1")]),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [TEXT | MARK]}, TEXT]}, [("result", "Hi", "1"), ("human", "Hi")]),
    ({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}, [("result", "", "1")]),
    ({"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "ok"}}}]}, [("result", "ok", "ls")]),
    ({"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"a": 1, "b": 2}}}]}, [("result", '{"a":1,"b":2}', "ls")]),
    ({"role": "tool", "tool_call_id": "1", "content": {"a": 1}}, [("result", '{"a":1}', "1")]),
    # what an agent writes into its own file as one block
    (
        {"role": "assistant", "content": [{"type": "tool", "callID": "1", "tool": "ls", "state": {"input": {}, "output": "ok"}}]},
        [("call", "{}", "1", "ls"), ("result", "ok", "1")],
    ),
    # windows that were compacted
    ({"role": "user", "content": SUMMARY}, [("summary", SUMMARY)]),
    ({"role": "assistant", "content": [{"type": "compaction", "content": "So far"}]}, [("compaction", "So far")]),
    ({"type": "compaction", "encrypted_content": "x"}, [("compaction", "", "4adf4367f96e584f")]),
    # nothing, and what nobody knows
    ({"role": "assistant", "content": ""}, []),
    ({"role": "user", "content": None}, []),
    (None, []),
    (5, [("unknown", "5")]),
    ({"type": "next_year", "b": 1, "a": 2} | MARK, [("unknown", '{"a":2,"b":1,"type":"next_year"}')]),
    ({"role": "critic", "content": "x"}, [("unknown", '{"content":"x","role":"critic"}')]),
    ({"role": "user", "content": [{"type": "next_year"}]}, [("unknown", '{"type":"next_year"}')]),
]  # fmt: skip


def shown(parts):
    return [tuple(part[:4]) for part in parts]


@pytest.mark.parametrize(("message", "parts"), SHAPES)
def test_a_message_of_any_shape_has_its_parts(message, parts):
    assert shown(read(message)) == [(*part, "", "")[:4] for part in parts]


def text_or_value(message, place):
    for step in place:
        message = message[step] if step in message or isinstance(message, list) else None
    return message


@pytest.mark.parametrize("message", [message for message, _ in SHAPES])
def test_a_place_leads_to_the_text_and_changes_nothing_else(message):
    for part in read(message):
        if isinstance(text_or_value(message, part.place), str):
            assert text_at(message, part.place) == part.text
            changed = replace_text(message, part.place, "other")
            assert text_at(changed, part.place) == "other"
            assert replace_text(changed, part.place, part.text) == message


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_reads_the_same_in_every_api(api):
    calls = (MadeCall("Read", {"path": "a"}, "text of a"), MadeCall("Bash", {"command": "ls"}, "a b"))  # fmt: skip
    turns = [Turn(human="Look."), Turn(calls=calls), Turn(text="Done.")]
    parts = [part for parts in read_all(render(turns, api)) for part in parts]
    assert [(p.kind, p.tool) for p in parts if p.kind != "result"] == [("human", ""), ("call", "Read"), ("call", "Bash"), ("text", "")]  # fmt: skip
    ids = {part.id: part.tool for part in parts if part.kind == "call"}
    results = {ids[p.id]: p.text for p in parts if p.kind == "result"}
    assert results == {"Read": "text of a", "Bash": "a b"}


def test_images_are_known_by_what_they_show_and_belong_to_their_result():
    def image(data):
        return {"type": "image", "source": {"data": data}}

    block = {"type": "tool_result", "tool_use_id": "1", "content": [image("a")]}
    result, picture = read({"role": "user", "content": [block]})
    assert (result.text, picture.kind, picture.id) == ("", "image", "1")
    (own,) = read({"role": "user", "content": [image("a") | MARK]})
    assert (own.text, own.id) == (picture.text, "")
    assert read({"role": "user", "content": [image("b")]}) != (own,)


@pytest.mark.parametrize("report", [REPORT, "Observation:\nok", "Observation: ok"])
def test_a_program_reports_what_came_of_code_in_the_models_text(report):
    asked = {"role": "user", "content": report}
    assert find_command(read(CODE)) == "ls\n"
    assert shown(read(asked, CODE)) == [("result", report, "code", "code")]
    assert read(asked)[0].kind != "result"
    assert read(asked, {"role": "assistant", "content": "No code."})[0].kind != "result"
    assert read({"role": "user", "content": "Why ls?"}, CODE)[0].kind == "human"


def test_a_model_that_calls_a_tool_writes_no_command():
    block = {"type": "tool_use", "id": "1", "name": "ls", "input": {}}
    assert find_command(read({**CODE, "content": [{"type": "text", "text": CODE["content"]}, block]})) == ""  # fmt: skip


def test_texts_of_one_result_and_of_one_author_are_joined():
    block = {"type": "tool_result", "tool_use_id": "1", "content": [TEXT, TEXT], "is_error": True}
    (result,) = join_texts(read({"role": "user", "content": [block]}))
    assert (result.text, result.is_error) == ("Hi\nHi", True)
    two = [block, {**block, "tool_use_id": "2"}]
    assert [p.id for p in join_texts(read({"role": "user", "content": two}))] == ["1", "2"]
    same = [{"functionResponse": {"name": "ls", "response": {"output": text}}} for text in "ab"]
    assert [p.text for p in join_texts(read({"role": "user", "parts": same}))] == ["a", "b"]
    assert len(list(join_texts(read({"role": "tool", "content": [TEXT, TEXT]})))) == 1


def test_the_question_is_what_a_person_says_in_a_message():
    reminder = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
    both = {"role": "user", "content": [reminder, TEXT, TEXT]}
    assert question_of(read(both)) == "Hi\nHi"
    assert question_of(read({"role": "assistant", "content": "Hi"})) == ""


def test_a_person_speaks_or_shows_something():
    image = {"type": "image", "source": {"data": "a"}}
    assert is_from_person({"role": "user", "content": "Hi"})
    assert is_from_person({"role": "user", "content": [image]})
    assert not is_from_person({"role": "assistant", "content": [image]})
    assert not is_from_person({"role": "user", "content": REPORT}, CODE)
    block = {"type": "tool_result", "tool_use_id": "1", "content": [image]}
    assert not is_from_person({"role": "user", "content": [block]})


def test_a_block_is_inserted_before_a_persons_words_alike_in_a_text_and_a_list():
    assert insert({"role": "user", "content": "Hi"}, "<c/>") == {"role": "user", "content": "<c/>\n\nHi"}  # fmt: skip
    marked = insert({"role": "user", "content": [TEXT | MARK]}, "<c/>")
    assert marked["content"] == [{"type": "text", "text": "<c/>\n\nHi"} | MARK]
    reminder = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
    assert insert({"role": "user", "content": [reminder, TEXT]}, "<c/>")["content"][0] == reminder


@pytest.mark.parametrize("texts", [(SUMMARY, "Hi"), ("Hi", SUMMARY)])
def test_a_block_stands_before_the_question_and_without_one_before_the_summary(texts):
    both = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}
    changed = insert(both, "<c/>")["content"]
    assert {block["text"] for block in changed} == {"<c/>\n\nHi", SUMMARY}
    alone = insert({"role": "user", "content": SUMMARY}, "<c/>")
    assert alone["content"] == f"<c/>\n\n{SUMMARY}"


def test_a_block_in_a_message_without_words_stands_behind_the_results():
    result, image = {"type": "tool_result", "tool_use_id": "1"}, {"type": "image"}
    content = insert({"role": "user", "content": [result, image]}, "<c/>")["content"]
    assert content == [result, {"type": "text", "text": "<c/>"}, image]
    assert insert({"role": "user", "content": None}, "<c/>")["content"] == "<c/>"


@pytest.mark.parametrize(
    ("message", "is_model"),
    [
        ({"role": "assistant"}, True),
        ({"role": "model"}, True),
        ({"type": "function_call"}, True),
        ({"type": "reasoning"}, True),
        ({"type": "function_call_output"}, False),
        ({"role": "user"}, False),
        ("assistant", False),
    ],
)
def test_what_the_model_wrote_is_known(message, is_model):
    assert is_from_model(message) is is_model
