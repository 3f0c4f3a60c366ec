"""The real OpenAI and Anthropic SDKs, unchanged, with the proxy as their base URL."""

import json

import anthropic
import httpx2
import openai
import pytest
from pydantic import BaseModel
from tests.proxy.test_client import until
from tests.proxy.upstream import (
    DONE,
    LOOP,
    PROSE,
    RESET,
    UNIT,
    Endless,
    answer,
    chunk,
    completion_stream,
    event,
    json_head,
    said,
    told,
)

from millgate.guard.resume import CLOSING

ASK = [{"role": "user", "content": "Tell me about millgates."}]
TEXT = "".join(PROSE)


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="sk-test", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(served):
    with anthropic.Anthropic(base_url=served.url, api_key="sk-test", max_retries=0) as client:
        yield client


def streamed(client, model, **more):
    chunks = list(client.chat.completions.create(model=model, messages=ASK, stream=True, **more))
    return chunks, "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


# OpenAI


def test_openai_reads_a_stream_and_its_usage(rig, client):
    model = rig.script(said(*PROSE, usage=(12, 40)))
    chunks, text = streamed(client, model, stream_options={"include_usage": True})
    assert text == TEXT
    assert chunks[-1].usage.total_tokens == 52
    assert chunks[-1].choices == []


def test_openai_reads_on_over_a_rollback_as_if_nothing_was(rig, client):
    model = rig.script(said(*LOOP), said("All is", " well.", id="other", usage=(70, 9)))
    chunks, text = streamed(client, model)
    assert text.endswith("All is well.")
    assert text.count(UNIT) <= 3
    assert {(c.id, c.created, c.model) for c in chunks} == {("chatcmpl-1", 1700000000, "up")}
    assert chunks[-1].usage.millgate["rollbacks"] == 1
    assert chunks[-1].usage.total_tokens == 79
    assert chunks[-1].usage.millgate["total_tokens"] > 79


def test_openai_gathers_a_whole_message_over_a_rollback(rig, client):
    model = rig.script(said(*LOOP), said("All is well."))
    with client.chat.completions.stream(model=model, messages=ASK) as stream:
        done = stream.get_final_completion()
    message = done.choices[0].message
    assert message.role == "assistant"
    assert message.content.endswith("All is well.")
    assert done.choices[0].finish_reason == "stop"


def test_openai_reads_an_answer_and_its_headers(rig, client):
    got = client.chat.completions.with_raw_response.create(model=rig.script(answer("Yes.")), messages=ASK)  # fmt: skip
    assert got.parse().choices[0].message.content == "Yes."
    assert got.headers["x-millgate-guard"] == "on"
    assert got.headers["x-millgate-rollbacks"] == "0"


def test_openai_reads_an_answer_whose_loop_was_cut(rig, client):
    model = rig.script(answer("".join(LOOP)), answer("All is well.", id="other"))
    got = client.chat.completions.create(model=model, messages=ASK)
    assert got.id == "chatcmpl-1"
    assert got.choices[0].message.content.endswith("All is well.")
    assert got.choices[0].message.content.count(UNIT) <= 3
    assert got.usage.total_tokens == 15
    assert (got.usage.millgate["total_tokens"], got.usage.millgate["rollbacks"]) == (30, 1)


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}  # fmt: skip


def test_openai_gathers_tool_calls(rig, client):
    parts = [chunk({"tool_calls": [{"index": 0, "function": {"arguments": t}}]}) for t in ('{"city": ', '"Bern"}')]  # fmt: skip
    script = [chunk({"role": "assistant", "content": None, "tool_calls": [CALL]}), *parts, chunk({}, finish="tool_calls"), DONE]  # fmt: skip
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}  # fmt: skip
    with client.chat.completions.stream(model=rig.script(script), messages=ASK, tools=[tool]) as stream:  # fmt: skip
        done = stream.get_final_completion()
    call = done.choices[0].message.tool_calls[0]
    assert (call.id, call.function.name, call.function.arguments) == ("call_1", "weather", '{"city": "Bern"}')  # fmt: skip


def test_openai_reads_tool_calls_of_an_answer(rig, client):
    calls = [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]  # fmt: skip
    got = client.chat.completions.create(model=rig.script(answer(None, tool_calls=calls)), messages=ASK)  # fmt: skip
    assert got.choices[0].message.tool_calls[0].function.name == "weather"


class Gate(BaseModel):
    width: int
    open: bool


def test_openai_parses_structured_output_also_after_a_loop(rig, client):
    model = rig.script(said('{"width": ', *["1, 2, 3, the same again and "] * 800), said('{"width": 3,', ' "open": true}'))  # fmt: skip
    whole = {"x-millgate-guard-tool-calls": "whole"}
    with client.chat.completions.stream(model=model, messages=ASK, response_format=Gate, extra_headers=whole) as stream:  # fmt: skip
        done = stream.get_final_completion()
    assert done.choices[0].message.parsed == Gate(width=3, open=True)


def test_openai_reads_reasoning_deltas(rig, client):
    script = [*said("Let me think.", name="reasoning_content")[:-2], *said("Yes.")]
    chunks, text = streamed(client, rig.script(script))
    assert text == "Yes."
    thought = [getattr(c.choices[0].delta, "reasoning_content", None) for c in chunks]
    assert "Let me think." in thought


ERRORS = {
    401: openai.AuthenticationError,
    404: openai.NotFoundError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
}


@pytest.mark.parametrize(("status", "kind"), ERRORS.items(), ids=str)
def test_openai_raises_what_the_upstream_said_before_the_first_byte(rig, client, status, kind):
    model = rig.script(
        [json_head(status), b'{"error": {"message": "no", "type": "t", "code": "c"}}']
    )
    with pytest.raises(kind, match="no"):
        streamed(client, model)


def test_openai_raises_an_error_after_the_first_byte(rig, client):
    model, texts = rig.script([*said(*PROSE)[:-2], RESET]), []
    stream = client.chat.completions.create(model=model, messages=ASK, stream=True)
    with pytest.raises(openai.APIConnectionError):
        texts.extend(c.choices[0].delta.content or "" for c in stream)
    assert "".join(texts) == TEXT


def test_openai_reads_a_closing_sentence_when_the_model_keeps_looping(rig, client, upstream):
    chunks, text = streamed(client, rig.script(said(*LOOP)))
    assert text.endswith(f"\n\n{CLOSING}")
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    model = rig.script(answer("".join(LOOP)))
    for calls in (4, 5):  # the retry is not rolled back again
        got = client.chat.completions.create(model=model, messages=ASK)
        assert got.id == "chatcmpl-1"
        assert got.choices[0].finish_reason == "stop"
        assert got.choices[0].message.content.endswith(CLOSING)
        assert got.choices[0].message.content.count(UNIT) <= 3
        assert len(upstream.seen[model]) == calls


@pytest.mark.parametrize("block", ["text", "thinking"])
def test_anthropic_reads_a_closing_sentence_when_the_model_keeps_looping(
    rig, claude, upstream, block
):
    model = rig.script(told(*LOOP, block=block))
    for calls in (4, 5):
        with claude.messages.stream(model=model, max_tokens=4000, messages=ASK) as stream:
            final = stream.get_final_message()
        assert final.stop_reason == "end_turn"
        assert final.content[-1].text.endswith(CLOSING)
        assert len(upstream.seen[model]) == calls


def test_a_model_that_cannot_be_asked_to_go_on_ends_with_a_closing_sentence(rig, client, upstream):
    refusal = [json_head(400), b'{"error": {"message": "no prefill"}}']
    model = rig.script(said(*LOOP), refusal)
    assert streamed(client, model)[1].endswith(CLOSING)
    busy = rig.script(said(*LOOP), [json_head(429), b'{"error": {"message": "slow down"}}'])
    with pytest.raises(openai.APIConnectionError):
        streamed(client, busy)  # it may be asked again, and the client does


def test_openai_lists_models_and_embeds(rig, client, upstream):
    upstream.script("/v1/models", [json_head(), b'{"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]}'])  # fmt: skip
    assert [m.id for m in client.models.list()] == ["m"]
    body = b'{"object": "list", "model": "e", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 1, "total_tokens": 1}}'  # fmt: skip
    model = rig.script([json_head(), body])
    got = client.embeddings.create(model=model, input="x", encoding_format="float")
    assert got.data[0].embedding == [0.5]


async def test_openai_async_closes_a_stream_and_the_upstream_stops(rig, served, upstream):
    model = rig.script([*said(*PROSE)[:-2], Endless(chunk({"content": ""}))])
    before = upstream.severed
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="x") as client:
        stream = await client.chat.completions.create(model=model, messages=ASK, stream=True)
        async for _ in stream:
            break
        await stream.close()
    until(lambda: upstream.severed > before)


# Text completions


def test_openai_reads_a_completion_over_a_rollback(rig, client):
    model = rig.script(completion_stream(*LOOP), completion_stream("All is well.", id="other"))
    chunks = list(client.completions.create(model=model, prompt="Once", stream=True))
    text = "".join(chunk.choices[0].text for chunk in chunks)
    assert text.startswith(TEXT)
    assert text.endswith("All is well.")
    assert text.count(UNIT) <= 3
    assert {chunk.id for chunk in chunks} == {"cmpl-1"}
    assert chunks[-1].choices[0].finish_reason == "stop"


async def test_openai_async_reads_a_whole_completion_whose_loop_was_cut(rig, served):
    def body(text, id):
        choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": "stop"}
        data = {"id": id, "object": "text_completion", "created": 1, "model": "up", "choices": [choice],
                "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}}  # fmt: skip
        return [json_head(), json.dumps(data).encode()]

    model = rig.script(body("".join(LOOP), "cmpl-1"), body("All is well.", "other"))
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="x") as client:
        got = await client.completions.create(model=model, prompt="Once")
    assert (got.id, got.usage.total_tokens, got.usage.millgate["total_tokens"]) == ("cmpl-1", 3, 6)
    assert got.choices[0].text.endswith("All is well.")
    assert got.choices[0].text.count(UNIT) <= 3


# Anthropic


def test_anthropic_reads_a_stream_over_a_rollback(rig, claude):
    model = rig.script(told(*LOOP), told("All is well.", id="other", usage=(70, 9)))
    with claude.messages.stream(model=model, max_tokens=4000, messages=ASK) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text.count(UNIT) <= 3
    assert text.endswith("All is well.")
    assert (final.id, final.stop_reason) == ("msg_1", "end_turn")
    assert [block.type for block in final.content] == ["text"]
    assert (final.usage.input_tokens, final.usage.output_tokens) == (70, 9)


def test_anthropic_reads_a_clean_stream_and_thinking(rig, claude):
    with claude.messages.stream(model=rig.script(told(*PROSE)), max_tokens=99, messages=ASK) as stream:  # fmt: skip
        assert "".join(stream.text_stream) == TEXT
    thinking = rig.script(told(*PROSE, block="thinking"))
    with claude.messages.stream(model=thinking, max_tokens=99, messages=ASK) as stream:
        assert stream.get_final_message().content[0].thinking == TEXT


def test_anthropic_gathers_tool_use(rig, claude):
    start = {"type": "tool_use", "id": "tool_1", "name": "weather", "input": {}}
    script = told()
    deltas = [event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": t}) for t in ('{"city":', ' "Bern"}')]  # fmt: skip
    script[1:-3] = [event("content_block_start", index=0, content_block=start), *deltas]
    with claude.messages.stream(model=rig.script(script), max_tokens=99, messages=ASK) as stream:
        block = stream.get_final_message().content[0]
    assert (block.id, block.input) == ("tool_1", {"city": "Bern"})


def test_anthropic_reads_an_answer_whose_loop_was_cut(rig, claude):
    def message(text, id):
        body = {"id": id, "type": "message", "role": "assistant", "model": "up", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": text}], "usage": {"input_tokens": 5, "output_tokens": 7}}  # fmt: skip
        return [json_head(), json.dumps(body).encode()]

    model = rig.script(message("".join(LOOP), "msg_1"), message("All is well.", "other"))
    got = claude.messages.create(model=model, max_tokens=4000, messages=ASK)
    assert got.id == "msg_1"
    assert got.content[0].text.endswith("All is well.")
    assert (got.usage.output_tokens, got.usage.millgate["output_tokens"]) == (7, 14)


def test_anthropic_raises_errors_before_and_after_the_first_byte(rig, claude):
    early = rig.script([json_head(429), b'{"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}'])  # fmt: skip
    with pytest.raises(anthropic.RateLimitError, match="slow"):
        claude.messages.create(model=early, max_tokens=9, messages=ASK)
    late = rig.script([*told(*PROSE)[:5], RESET])
    with (
        pytest.raises(httpx2.RemoteProtocolError),  # as without us: the SDK leaves it as it is
        claude.messages.stream(model=late, max_tokens=9, messages=ASK) as stream,
    ):
        stream.get_final_message()
    with pytest.raises(anthropic.BadRequestError, match="messages"):
        claude.messages.create(model="x", max_tokens=9, messages=[])
