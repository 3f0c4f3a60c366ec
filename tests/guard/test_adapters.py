"""The guard around the real OpenAI and Anthropic SDKs, against a scripted provider on loopback."""

import itertools
import json

import anthropic
import openai
import pytest
from bench.fixtures.sessions import MadeCall, Turn, render
from tests.waiting import MOST_S

from millgate.errors import InputError, LoopError
from millgate.guard import Guard, State, adapters
from millgate.guard.resume import RETRY, TURNS
from millgate.testing import ScriptedModel

INTRO = "The river rose in spring, and the keeper of the gate went out before dawn.\n"
UNIT = "He lifted the first board and looked at the water below him for a while. "
AFTER = "Then he went home and slept. The end."
HELD = {"tool_calls": "whole"}
ASK = [{"role": "user", "content": "Tell me about the keeper."}]


def tokens(text, size=4):
    return [text[i : i + size] for i in range(0, len(text), size)]


def looping():
    """Tokens of a loop that never ends: only a severed connection stops it."""
    return itertools.chain(tokens(INTRO), itertools.cycle(tokens(UNIT)))


# chat completions


def chunk(delta, id="a", finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": id, "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return (None, {**head, "choices": [choice]})


def chat(texts, id="a", field="content"):
    yield chunk({"role": "assistant", "content": ""}, id)
    for text in texts:
        yield chunk({field: text}, id)
    yield chunk({}, id, "stop")
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    yield (None, {**chunk({}, id)[1], "choices": [], "usage": usage})
    yield (None, "[DONE]")


def calls(arguments, id="a", index=0):
    call = {"index": index, "id": f"call{index}", "type": "function"}
    yield chunk({"tool_calls": [{**call, "function": {"name": "find", "arguments": ""}}]}, id)
    for text in arguments:
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]}, id)


def openai_async(server):
    return openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)


async def test_a_chat_stream_recovers_with_one_id_and_one_role(provider):
    with provider(chat(looping()), chat(tokens(AFTER), id="b")) as server:
        async with openai_async(server) as client:
            events = adapters.chat(client, model="m", messages=ASK, temperature=0)
            chunks = [event async for event in events]
        assert server.finished.acquire(timeout=MOST_S)
        assert server.finished.acquire(timeout=MOST_S)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text.startswith(INTRO + UNIT)
    assert text.endswith(AFTER)
    assert text.count(UNIT) <= 2
    assert {c.id for c in chunks} == {"a"}
    assert sum(bool(c.choices and c.choices[0].delta.role) for c in chunks) == 1
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.total_tokens == 3
    assert server.severed == 1
    first, second = server.requests
    assert (first["temperature"], second["temperature"]) == (0, 0.8)
    assert second["messages"][-1]["content"] == TURNS[0]
    assert text.startswith(second["messages"][-2]["content"])
    assert events.report.rollbacks == 1
    assert all(isinstance(c, type(chunks[0])) for c in chunks)


def test_a_sync_chat_stream_is_guarded_too(provider):
    with provider(chat(looping()), chat(tokens(AFTER), id="b")) as server:
        with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            chunks = list(adapters.chat(client, model="m", messages=ASK))
        server.finished.acquire(timeout=MOST_S)
        server.finished.acquire(timeout=MOST_S)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text.endswith(AFTER)
    assert text.count(UNIT) <= 2
    assert server.severed == 1


async def test_a_clean_chat_stream_passes_chunk_by_chunk(provider):
    with provider(chat(tokens(INTRO + AFTER))) as server:
        async with openai_async(server) as client:
            chunks = [c async for c in adapters.chat(client, model="m", messages=ASK)]
    assert len(chunks) == len(list(chat(tokens(INTRO + AFTER)))) - 1
    assert chunks[0].choices[0].delta.role == "assistant"


async def test_reasoning_in_a_chat_stream_is_watched(provider):
    with provider(
        chat(looping(), field="reasoning_content"), chat(tokens(AFTER), id="b")
    ) as server:
        async with openai_async(server) as client:
            events = adapters.chat(client, model="m", messages=ASK)
            chunks = [c async for c in events]
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == AFTER
    assert events.report.cuts[0].channel == "reasoning"


async def test_tool_calls_in_a_chat_stream_are_whole_or_asked_for_again(provider):
    loop = calls(itertools.chain(tokens('{"query": "'), itertools.cycle(tokens(UNIT))))
    good = [
        *calls(tokens('{"query": "x"}'), id="b"),
        chunk({}, "b", "tool_calls"),
        (None, "[DONE]"),
    ]
    with provider(loop, good) as server:
        async with openai_async(server) as client:
            chunks = [c async for c in adapters.chat(client, model="m", messages=ASK, guard=HELD)]
    parts = [c.choices[0].delta.tool_calls[0] for c in chunks if c.choices[0].delta.tool_calls]
    assert "".join(p.function.arguments for p in parts) == '{"query": "x"}'
    assert parts[0].function.name == "find"
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert server.requests[1]["messages"] == ASK


async def test_a_complete_call_stands_when_the_next_one_loops(provider):
    script = itertools.chain(
        calls(tokens('{"query": "x"}')), calls(itertools.cycle(tokens(UNIT)), index=1)
    )
    with provider(script) as server:
        async with openai_async(server) as client:
            chunks = [c async for c in adapters.chat(client, model="m", messages=ASK, guard=HELD)]
    parts = [c.choices[0].delta.tool_calls[0] for c in chunks if c.choices[0].delta.tool_calls]
    assert {p.index for p in parts} == {0}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    assert len(server.requests) == 1


async def test_structured_output_is_not_spliced(provider):
    loop = chat(itertools.chain(['{"a": "'], itertools.cycle(tokens(UNIT))))
    with provider(loop, chat(['{"a": ', "1}"])) as server:
        async with openai_async(server) as client:
            events = adapters.chat(
                client,
                model="m",
                messages=ASK,
                guard=HELD,
                response_format={"type": "json_object"},
            )
            text = "".join([c.choices[0].delta.content or "" async for c in events if c.choices])
    assert json.loads(text) == {"a": 1}


async def test_a_client_that_leaves_closes_the_connection(provider):
    with provider(chat(looping())) as server:
        async with openai_async(server) as client:
            events = adapters.chat(client, model="m", messages=ASK)
            async for _ in events:
                break
            await events.aclose()
            assert server.finished.acquire(timeout=MOST_S)
    assert server.severed == 1
    assert events.report.state is State.CLOSED


def test_a_sync_client_that_leaves_closes_the_connection(provider):
    with (
        provider(chat(looping())) as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        events = adapters.chat(client, model="m", messages=ASK)
        next(iter(events))
        events.close()
        assert server.finished.acquire(timeout=MOST_S)
    assert server.severed == 1


async def test_switched_off_the_stream_passes(provider):
    with provider(chat(tokens(INTRO + UNIT * 20))) as server:
        async with openai_async(server) as client:
            events = adapters.chat(client, model="m", messages=ASK, guard={"enabled": False})
            text = "".join([c.choices[0].delta.content or "" async for c in events if c.choices])
    assert text == INTRO + UNIT * 20


async def test_giving_up_and_breaking_off_are_told_apart(provider):
    with provider(*[chat(looping()) for _ in range(2)]) as server:
        async with openai_async(server) as client:
            events = adapters.chat(client, model="m", messages=ASK, guard={"max_rollbacks": 1})
            with pytest.raises(LoopError):
                [c async for c in events]
    broken = [chunk({"content": "a"}), (None, {"error": {"message": "overloaded"}})]
    with provider(broken) as server:
        async with openai_async(server) as client:
            events = adapters.chat(client, model="m", messages=ASK)
            with pytest.raises(openai.APIError, match="overloaded"):
                [c async for c in events]
            assert events.report.state is State.FAILED


@pytest.mark.parametrize(
    ("adapter", "sdk", "fields"),
    [
        (adapters.chat, openai, {"messages": ASK}),
        (adapters.responses, openai, {"input": ASK}),
        (adapters.messages, anthropic, {"messages": ASK, "max_tokens": 9}),
    ],
)
def test_a_refusal_before_the_stream_is_the_sdks_own_error(provider, adapter, sdk, fields):
    make = openai.OpenAI if sdk is openai else anthropic.Anthropic
    with (
        provider(429) as server,
        make(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        events = adapter(client, model="m", **fields)
        with pytest.raises(sdk.RateLimitError):
            list(events)
        assert events.report.state is State.FAILED


async def test_an_error_before_the_stream_is_the_sdks_own():
    async with openai.AsyncOpenAI(
        base_url="http://127.0.0.1:9", api_key="none", max_retries=0
    ) as client:
        events = adapters.chat(client, model="m", messages=ASK)
        with pytest.raises(openai.APIConnectionError):
            [c async for c in events]
        assert events.report.state is State.FAILED


# text completions


def completion(texts, id="a"):
    head = {"id": id, "object": "text_completion", "created": 1, "model": "m"}
    for text in texts:
        yield (
            None,
            {
                **head,
                "choices": [{"index": 0, "text": text, "finish_reason": None, "logprobs": None}],
            },
        )
    yield (
        None,
        {**head, "choices": [{"index": 0, "text": "", "finish_reason": "stop", "logprobs": None}]},
    )
    yield (None, "[DONE]")  # fmt: skip


async def test_a_completion_goes_on_behind_its_prompt(provider):
    with provider(completion(looping()), completion(tokens(AFTER), id="b")) as server:
        async with openai_async(server) as client:
            chunks = [c async for c in adapters.completions(client, model="m", prompt="Once. ")]
    text = "".join(c.choices[0].text for c in chunks)
    assert text.startswith(INTRO + UNIT)
    assert text.endswith(AFTER)
    assert {c.id for c in chunks} == {"a"}
    assert server.requests[1]["prompt"] == "Once. " + text.removesuffix(AFTER)
    assert server.requests[1]["temperature"] == 0.8


# messages


def message(texts, kind="text", id="msg_a", thinking=()):
    usage = {"input_tokens": 1, "output_tokens": 1}
    head = {"id": id, "type": "message", "role": "assistant", "model": "m", "content": []}
    head |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    yield ("message_start", {"type": "message_start", "message": head})
    index = 0
    if thinking:
        yield from block(thinking, "thinking", index)
        index += 1
    yield ("ping", {"type": "ping"})
    yield from block(texts, kind, index)
    reason = "tool_use" if kind == "tool_use" else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    yield (
        "message_delta",
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 9}},
    )
    yield ("message_stop", {"type": "message_stop"})


BLOCKS = {
    "text": ({"type": "text", "text": ""}, "text_delta", "text"),
    "thinking": (
        {"type": "thinking", "thinking": "", "signature": ""},
        "thinking_delta",
        "thinking",
    ),
    "tool_use": (
        {"type": "tool_use", "id": "t", "name": "find", "input": {}},
        "input_json_delta",
        "partial_json",
    ),
}


def block(texts, kind, index):
    start, delta, field = BLOCKS[kind]
    yield (
        "content_block_start",
        {"type": "content_block_start", "index": index, "content_block": start},
    )
    for text in texts:
        data = {
            "type": "content_block_delta",
            "index": index,
            "delta": {"type": delta, field: text},
        }
        yield ("content_block_delta", data)
    if kind == "thinking":
        sign = {"type": "signature_delta", "signature": "s"}
        yield (
            "content_block_delta",
            {"type": "content_block_delta", "index": index, "delta": sign},
        )
    yield ("content_block_stop", {"type": "content_block_stop", "index": index})


def claude(server):
    return anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0)


def told(events):
    return [e.type for e in events if e.type not in ("content_block_delta", "ping")]


def said(events, field="text"):
    deltas = (e.delta for e in events if e.type == "content_block_delta")
    return "".join(getattr(delta, field, "") for delta in deltas)


WHOLE = [
    "message_start",
    "content_block_start",
    "content_block_stop",
    "message_delta",
    "message_stop",
]


async def test_a_message_stream_recovers_in_the_same_block(provider):
    with provider(message(looping()), message(tokens(AFTER), id="msg_b")) as server:
        async with claude(server) as client:
            stream = adapters.messages(client, model="m", max_tokens=500, messages=ASK)
            events = [event async for event in stream]
        server.finished.acquire(timeout=MOST_S)
        server.finished.acquire(timeout=MOST_S)
    assert told(events) == WHOLE
    assert said(events).startswith(INTRO + UNIT)
    assert said(events).endswith(AFTER)
    assert said(events).count(UNIT) <= 2
    assert {e.index for e in events if e.type.startswith("content_block")} == {0}
    assert server.severed == 1
    assert "temperature" not in server.requests[1]  # this SDK takes none
    assert stream.report.unused_tokens > 0


async def test_looping_thoughts_are_cut_and_the_answer_follows_in_its_own_block(provider):
    first = message([], thinking=looping())
    second = message(tokens(AFTER), id="msg_b", thinking=["Short."])
    with provider(first, second) as server:
        async with claude(server) as client:
            stream = adapters.messages(client, model="m", max_tokens=500, messages=ASK)
            events = [event async for event in stream]
    starts = [e for e in events if e.type == "content_block_start"]
    blocks = [(e.index, e.content_block.type) for e in starts]
    assert blocks == [(0, "thinking"), (1, "thinking"), (2, "text")]
    stops = [e.index for e in events if e.type == "content_block_stop"]
    assert stops == [1, 2], "thinking that was cut has no end, so that no client keeps it unsigned"
    assert said(events) == AFTER
    assert said(events, "signature") == "s", "only that of the thinking that came to its end"


async def test_a_looping_tool_block_never_reaches_the_client(provider):
    loop = message(itertools.chain(['{"q": "'], itertools.cycle(tokens(UNIT))), kind="tool_use")
    with provider(loop, message(['{"q": ', "1}"], kind="tool_use")) as server:
        async with claude(server) as client:
            stream = adapters.messages(client, model="m", max_tokens=500, messages=ASK, guard=HELD)
            events = [event async for event in stream]
    assert json.loads(said(events, "partial_json")) == {"q": 1}
    assert told(events) == WHOLE
    assert server.requests[1]["messages"][0]["content"].endswith(RETRY)  # by words: no temperature


def test_a_sync_message_stream_is_guarded_too(provider):
    with (
        provider(message(looping()), message(tokens(AFTER))) as server,
        anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        events = list(adapters.messages(client, model="m", max_tokens=500, messages=ASK))
    assert told(events) == WHOLE
    assert said(events).endswith(AFTER)


# responses


def response(texts, id="resp_a"):
    base = {"id": id, "object": "response", "created_at": 1, "model": "m", "output": []}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    item = {"id": f"msg_{id}", "type": "message", "role": "assistant", "status": "in_progress"}
    place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    number = itertools.count()

    def event(kind, **fields):
        return (kind, {"type": kind, "sequence_number": next(number), **fields})

    yield event("response.created", response={**base, "status": "in_progress"})
    yield event("response.output_item.added", output_index=0, item={**item, "content": []})
    yield event("response.content_part.added", **place, part=part)
    said = ""
    for text in texts:
        said += text
        yield event("response.output_text.delta", **place, delta=text, logprobs=[])
    part = {**part, "text": said}
    item = {**item, "status": "completed", "content": [part]}
    yield event("response.output_text.done", **place, text=said, logprobs=[])
    yield event("response.content_part.done", **place, part=part)
    yield event("response.output_item.done", output_index=0, item=item)
    yield event("response.completed", response={**base, "status": "completed", "output": [item]})


async def test_a_responses_stream_recovers_as_one_response(provider):
    with provider(response(looping()), response(tokens(AFTER), id="resp_b")) as server:
        async with openai_async(server) as client:
            stream = adapters.responses(client, model="m", input="Tell me.")
            events = [event async for event in stream]
        server.finished.acquire(timeout=MOST_S)
        server.finished.acquire(timeout=MOST_S)
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text.startswith(INTRO + UNIT)
    assert text.endswith(AFTER)
    assert text.count(UNIT) <= 2
    kinds = [e.type for e in events if not e.type.endswith(".delta")]
    assert kinds == [kind for kind, _ in response([])]
    assert [e.sequence_number for e in events] == list(range(len(events)))
    last = events[-1].response
    assert last.id == "resp_a"
    assert last.output_text == text
    assert {e.item_id for e in events if hasattr(e, "item_id")} == {"msg_resp_a"}
    assert server.severed == 1
    assert server.requests[1]["input"][0] == {"role": "user", "content": "Tell me."}


async def test_a_clean_responses_stream_passes_event_by_event(provider):
    with provider(response(tokens(AFTER))) as server:
        async with openai_async(server) as client:
            events = [e async for e in adapters.responses(client, model="m", input="Tell me.")]
    assert [e.type for e in events] == [kind for kind, _ in response(tokens(AFTER))]
    assert events[-1].response.output_text == AFTER


def function_call(arguments, id="resp_a"):
    base = {"id": id, "object": "response", "created_at": 1, "model": "m", "output": []}
    base |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    item = {"id": f"fc_{id}", "type": "function_call", "call_id": "c", "name": "find"}
    place = {"item_id": item["id"], "output_index": 0}

    def event(kind, **fields):
        return (kind, {"type": kind, "sequence_number": 0, **fields})

    yield event("response.created", response={**base, "status": "in_progress"})
    yield event("response.output_item.added", output_index=0, item={**item, "arguments": ""})
    said = ""
    for text in arguments:
        said += text
        yield event("response.function_call_arguments.delta", **place, delta=text)
    yield event("response.function_call_arguments.done", **place, arguments=said, name="find")
    yield event("response.output_item.done", output_index=0, item={**item, "arguments": said})
    done = {**base, "status": "completed", "output": [{**item, "arguments": said}]}
    yield event("response.completed", response=done)


async def test_a_looping_function_call_is_asked_for_again(provider):
    loop = function_call(itertools.chain(['{"q": "'], itertools.cycle(tokens(UNIT))))
    with provider(loop, function_call(['{"q": ', "1}"], id="resp_b")) as server:
        async with openai_async(server) as client:
            stream = adapters.responses(client, model="m", input="Tell me.", guard=HELD)
            events = [e async for e in stream]
    done = next(e for e in events if e.type == "response.output_item.done")
    assert json.loads(done.item.arguments) == {"q": 1}
    deltas = [e.delta for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(deltas) == '{"q": 1}'
    assert events[-1].response.output[0].arguments == '{"q": 1}'


# circles of tool calls


def stuck(api, copies):
    turn = Turn(calls=(MadeCall("read", {"path": "a"}, "no such file"),))
    return render([Turn(human="Read a."), *[turn] * copies], api)


async def test_an_agent_in_circles_gets_a_note_through_every_adapter(provider):
    with provider(chat(tokens(AFTER)), message(tokens(AFTER)), response(tokens(AFTER))) as server:
        async with openai_async(server) as client, claude(server) as other:
            streams = [
                adapters.chat(client, model="m", messages=stuck("chat", 3)),
                adapters.messages(other, model="m", max_tokens=9, messages=stuck("messages", 3)),
                adapters.responses(client, model="m", input=stuck("responses", 3)),
            ]
            for stream in streams:
                assert [event async for event in stream]
    for request in server.requests:
        last = (request.get("messages") or request["input"])[-1]
        assert "[millgate: the same call came back" in json.dumps(last)


def test_an_agent_that_stays_in_circles_is_ended_without_a_call(provider):
    off = {"circles": {"rungs": {}}}
    with (
        provider(chat(tokens(AFTER))) as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        with pytest.raises(LoopError, match="read was called 8 times") as caught:
            list(adapters.chat(client, model="m", messages=stuck("chat", 8)))
        assert "I stopped here" in caught.value.text
        assert list(adapters.chat(client, model="m", messages=stuck("chat", 8), guard=off))
    assert len(server.requests) == 1


# histories of objects


async def test_messages_of_the_sdks_are_a_history(provider):
    said = openai.types.chat.ChatCompletionMessage(role="assistant", content="Which one?")
    history = [*ASK, said, {"role": "user", "content": "The keeper of the gate."}]
    with provider(chat(looping()), chat(tokens(AFTER), id="b")) as server:
        stream = adapters.chat(openai_async(server), model="m", messages=history)
        assert [event async for event in stream]
    for request in server.requests:
        assert request["messages"][1] == {"role": "assistant", "content": "Which one?"}


async def test_the_guard_takes_objects_and_their_parts_as_messages():
    block = anthropic.types.TextBlock(type="text", text="Which one?", citations=None)
    message = {"role": "assistant", "content": [block]}
    model = ScriptedModel([["The third."]])
    stream = Guard(model).stream(
        [*ASK, openai.types.chat.ChatCompletionMessage(role="assistant", content="Ah."), message]
    )
    assert [piece async for piece in stream] == ["The third."]
    sent = model.calls[0].messages
    assert sent[1] == {"role": "assistant", "content": "Ah."}
    assert sent[2]["content"][0]["text"] == "Which one?"


def test_a_text_is_a_message_of_a_person(provider):
    with (
        provider(chat(tokens(AFTER))) as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
    ):
        assert list(adapters.chat(client, model="m", messages="Tell me."))
    assert server.requests[0]["messages"] == [{"role": "user", "content": "Tell me."}]


def test_what_is_no_message_is_named():
    with pytest.raises(InputError, match="a message is int"):
        Guard(ScriptedModel([[]])).stream([5])
