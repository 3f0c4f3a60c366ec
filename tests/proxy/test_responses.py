"""OpenAI's responses through the proxy, with the real SDK and with what Codex sends."""

import json

import openai
import pytest
from tests.proxy import web
from tests.proxy.upstream import (
    LOOP,
    PROSE,
    RESET,
    UNIT,
    call_item,
    event,
    json_head,
    message_item,
    pieces_of,
    reasoning_item,
    response_answer,
    response_stream,
)
from tests.waiting import MOST_S

from millgate.guard.resume import ANSWER_NOW, CLOSING, FINISH, NUDGE

TEXT = "".join(PROSE)
LOOPING = "".join(LOOP)
# What Codex sends: no sampling, a stream, nothing stored, encrypted reasoning asked for and brought back.
CODEX = {
    "instructions": "You are a coding agent.",
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>all</permissions>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context><cwd>/x</cwd></environment_context>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix the gate."}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-earlier"},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "call_0"},
        {"type": "function_call_output", "call_id": "call_0", "output": "ok"},
    ],
    "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}, "strict": False}],
    "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"effort": "high", "summary": "auto"},
    "store": False, "stream": True, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "conversation-1",
}  # fmt: skip


@pytest.fixture(scope="module")
def client(served):
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="sk-test", max_retries=0) as client:
        yield client


WHOLE = {"x-millgate-guard-tool-calls": "whole"}


def post(served, model, *, headers=None, **more):
    body = {"model": model, "input": "Tell me about millgates.", "stream": True, **more}
    return web.post(f"{served.url}/v1/responses", json=body, headers=headers, timeout=MOST_S)


def events(answer):
    lines = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
    return [json.loads(line) for line in lines]


CLEAN = {
    "prose": response_stream(texts=PROSE),
    "reasoning, text and a call": response_stream(reasoning_item("Hm."), message_item(TEXT), call_item('{"a": 1}')),
    "encrypted reasoning": response_stream(reasoning_item(""), message_item(TEXT)),
    "two calls": response_stream(call_item('{"a": 1}'), call_item('{"b": 2}', number=2)),
    "a repeat that ends": response_stream(texts=(*PROSE, *[UNIT] * 2, UNIT[:40], "but never above the gate. ")),
    "incomplete": response_stream(texts=PROSE, end="response.incomplete"),
    "failed": response_stream(end="response.failed"),
    "an event that nobody knows": [event("response.future.thing", sequence_number=0), *response_stream(texts=PROSE)],
    "byte by byte": [bytes([b]) for b in b"".join(response_stream(texts=("Grüße, 世界 🌊",)))],
}  # fmt: skip


@pytest.mark.parametrize("script", CLEAN.values(), ids=CLEAN)
def test_a_stream_without_a_loop_arrives_byte_for_byte(rig, served, script):
    answer = post(served, rig.script(script))
    assert answer.content == b"".join(script)
    assert answer.headers["x-millgate-guard"] == "on"


def test_a_loop_is_cut_and_the_stream_goes_on_as_one_response(rig, served, upstream):
    again = response_stream(texts=("All is well", " now."), id="resp_2", usage=(70, 9))
    model = rig.script(response_stream(texts=LOOP), again)
    found = events(post(served, model, max_output_tokens=900))
    kinds = [e["type"] for e in found if e["type"] != "response.output_text.delta"]
    assert kinds == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
                     "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed"]  # fmt: skip
    assert [e["sequence_number"] for e in found] == list(range(len(found)))
    said = "".join(e["delta"] for e in found if e["type"] == "response.output_text.delta")
    assert said.startswith(TEXT + UNIT)
    assert said.endswith("All is well now.")
    assert said.count(UNIT) <= 3
    final = found[-1]["response"]
    assert final["id"] == "resp_1"
    assert [item["content"][0]["text"] for item in final["output"]] == [said]
    assert {e["item_id"] for e in found if "item_id" in e} == {"msg_resp_1"}
    cut, _ = final["usage"]["millgate"]["calls"]
    assert (
        final["usage"]["total_tokens"] == 79
    )  # of the last call, by which agents measure their window
    assert final["usage"]["millgate"]["total_tokens"] == cut["total_tokens"] + 79
    assert upstream.seen[model][1].json["max_output_tokens"] < 900


def test_the_sdk_reads_on_over_a_rollback(rig, client):
    model = rig.script(response_stream(texts=LOOP), response_stream(texts=("All is well.",), id="resp_2"))  # fmt: skip
    with client.responses.stream(model=model, input="Hi") as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    assert final.id == "resp_1"
    assert final.output_text.endswith("All is well.")
    assert final.output_text.count(UNIT) <= 3


async def test_the_async_sdk_reads_a_stream(rig, served):
    model = rig.script(response_stream(reasoning_item("Hm."), message_item(TEXT)))
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="x") as client:
        stream = await client.responses.create(model=model, input="Hi", stream=True)
        kinds = [e.type async for e in stream]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"


def test_the_sdk_reads_a_whole_answer_and_one_whose_loop_was_cut(rig, client):
    clean = client.responses.create(model=rig.script(response_answer(message_item(TEXT))), input="Hi")  # fmt: skip
    assert clean.output_text == TEXT
    model = rig.script(response_answer(reasoning_item("Hm."), message_item(LOOPING)),
                       response_answer(reasoning_item("Ah.", "resp_2"), message_item("All is well.", "resp_2"), id="resp_2"))  # fmt: skip
    got = client.responses.create(model=model, input="Hi")
    assert (got.id, got.usage.total_tokens) == ("resp_1", 15)
    assert got.usage.millgate["total_tokens"] == 30
    assert got.output_text.endswith("All is well.")
    assert got.output_text.count(UNIT) <= 3
    assert [item.type for item in got.output] == ["reasoning", "message"]


def test_a_whole_answer_keeps_its_text_when_the_second_call_only_calls_a_tool(rig, client):
    model = rig.script(response_answer(message_item(LOOPING)), response_answer(call_item("{}", "resp_2"), id="resp_2"))  # fmt: skip
    got = client.responses.create(model=model, input="Hi")
    assert [item.type for item in got.output] == ["message", "function_call"]
    assert got.output_text.startswith(TEXT)


def test_a_looping_function_call_is_asked_for_again_and_never_spliced(rig, client, upstream):
    looping = response_stream(call_item('{"q": "' + UNIT * 400))[:-2]
    model = rig.script(looping, response_stream(call_item('{"q": 1}', "resp_2"), id="resp_2"))
    with client.responses.stream(model=model, input="Hi", extra_headers=WHOLE) as stream:
        final = stream.get_final_response()
    assert [item.arguments for item in final.output] == ['{"q": 1}']
    assert len(upstream.seen[model]) == 2


def test_complete_calls_stand_when_the_next_one_loops(rig, served):
    script = response_stream(call_item('{"a": 1}'), call_item('{"q": "' + UNIT * 400, number=2))
    found = events(post(served, rig.script(script), headers=WHOLE))
    assert found[-1]["type"] == "response.completed"
    assert [item["arguments"] for item in found[-1]["response"]["output"]] == ['{"a": 1}']


def test_structured_output_is_never_spliced(rig, client):
    model = rig.script(response_stream(texts=('{"a": "', *[UNIT] * 400)), response_stream(texts=('{"a": ', "1}"), id="resp_2"))  # fmt: skip
    form = {"format": {"type": "json_object"}}
    with client.responses.stream(model=model, input="Hi", text=form, extra_headers=WHOLE) as stream:
        assert json.loads(stream.get_final_response().output_text) == {"a": 1}


def test_a_loop_in_the_reasoning_is_answered_with_answer_now(rig, served, upstream):
    looping = response_stream(reasoning_item(LOOPING))[:-2]
    good = response_stream(reasoning_item("Short.", "resp_2", "gAAAA-2"), message_item("42.", "resp_2"), id="resp_2")  # fmt: skip
    model = rig.script(looping, good)
    found = events(post(served, model, **CODEX))
    second = upstream.seen[model][1].json
    assert second["input"][-1] == {"role": "user", "content": ANSWER_NOW}
    assert second["reasoning"] == {"effort": "low", "summary": "auto"}
    output = found[-1]["response"]["output"]
    assert output == [reasoning_item("Short.", "resp_2", "gAAAA-2"), message_item("42.", "resp_2")]
    done = [e["item"] for e in found if e["type"] == "response.output_item.done"]
    assert done == output  # what was severed is never sent as complete


def test_what_codex_sends_arrives_as_it_is_and_is_resumed_by_words(rig, served, upstream):
    loop = response_stream(reasoning_item("Hm.", secret="gAAAA-1"), message_item(LOOPING))
    model = rig.script(loop, loop, response_stream(texts=("Done.",), id="resp_3"))
    found = events(post(served, model, **CODEX))
    first, second, third = (seen.json for seen in upstream.seen[model])
    assert first == {**CODEX, "model": model}
    for again, turn in ((second, NUDGE), (third, FINISH)):
        assert again["input"][: len(CODEX["input"])] == CODEX["input"]
        assert again["input"][-1] == {"role": "user", "content": turn}
        assert {k: v for k, v in again.items() if k != "input"} == {k: v for k, v in first.items() if k != "input"}  # fmt: skip
    assert second["input"][-2]["content"] == TEXT
    secrets = [i["encrypted_content"] for i in found[-1]["response"]["output"] if i["type"] == "reasoning"]  # fmt: skip
    assert secrets == ["gAAAA-1", "gAAAA-1"]


def test_a_resumed_response_is_found_again_by_the_id_that_the_client_has(rig, served, upstream):
    model = rig.script(response_stream(texts=LOOP, id="resp_a"), response_stream(texts=("Well.",), id="resp_b"), response_stream(texts=("Yes.",), id="resp_c"))  # fmt: skip
    found = events(post(served, model, previous_response_id="resp_0"))
    assert found[-1]["response"]["id"] == "resp_a"
    assert [seen.json["previous_response_id"] for seen in upstream.seen[model]] == ["resp_0"] * 2
    post(served, model, previous_response_id="resp_a")
    assert upstream.seen[model][2].json["previous_response_id"] == "resp_b"
    upstream.script("/v1/responses/resp_b", [json_head(), b"{}"])
    upstream.script("/v1/responses/resp_b/input_items", [json_head(), b"{}"])
    assert web.get(f"{served.url}/v1/responses/resp_a").status_code == 200
    assert web.get(f"{served.url}/v1/responses/resp_a/input_items").status_code == 200
    assert len(upstream.seen["/v1/responses/resp_b"]) == 1


@pytest.mark.parametrize("more", [{"background": True}, {"conversation": "conv_1"}])
def test_what_the_upstream_would_keep_passes_unwatched_and_says_so(rig, served, more):
    script = response_stream(texts=LOOP)
    answer = post(served, rig.script(script), **more)
    assert answer.content == b"".join(script)
    assert answer.headers["x-millgate-guard"] == "off"
    assert next(iter(more)) in answer.headers["x-millgate-guard-reason"]
    assert next(iter(more)) in served.calls[-1].unwatched


def test_temperature_rises_if_the_request_has_one(rig, served, upstream):
    model = rig.script(response_stream(texts=LOOP), response_stream(texts=("Well.",)))
    post(served, model, temperature=0.0)
    assert upstream.seen[model][1].json["temperature"] > 0


def test_errors_before_and_after_the_first_byte(rig, client, served):
    early = rig.script([json_head(429), b'{"error": {"message": "slow down", "type": "t", "code": "c"}}'])  # fmt: skip
    with pytest.raises(openai.RateLimitError, match="slow down"):
        client.responses.create(model=early, input="Hi")
    late = rig.script([*response_stream(texts=PROSE)[:6], RESET])
    with pytest.raises(openai.APIConnectionError) as broken:
        list(client.responses.create(model=late, input="Hi", stream=True))
    assert "incomplete chunked read" in str(broken.value.__cause__)
    told = rig.script([*response_stream(texts=PROSE)[:6], event("error", code="x", message="full", param=None, sequence_number=6)])  # fmt: skip
    assert events(post(served, told))[-1]["message"] == "full"
    with pytest.raises(openai.BadRequestError, match="input"):
        client.responses.create(model="m", input=[])


def test_a_model_that_keeps_looping_ends_with_a_sentence_and_is_not_asked_again(
    rig, served, client, upstream
):
    model = rig.script(response_stream(texts=LOOP))
    found = events(post(served, model))
    assert len(upstream.seen[model]) == 4
    said = "".join(e["delta"] for e in found if e["type"] == "response.output_text.delta")
    assert said.endswith(f"\n\n{CLOSING}")
    assert [e["type"] for e in found[-4:]] == ["response.output_text.done", "response.content_part.done",
                                               "response.output_item.done", "response.completed"]  # fmt: skip
    assert [e["sequence_number"] for e in found] == list(range(len(found)))
    assert found[-1]["response"]["output"][-1]["content"][0]["text"] == said
    assert events(post(served, model))[-1]["type"] == "response.completed"  # the same once more
    assert len(upstream.seen[model]) == 5
    with client.responses.stream(
        model=rig.script(response_stream(texts=LOOP)), input="Hi"
    ) as stream:
        assert stream.get_final_response().output_text.endswith(CLOSING)


STRANGE = {
    "an item that is none": event("response.output_item.added", output_index=0, item=5, sequence_number=2),
    "an index that is none": event("response.output_text.delta", output_index="x", delta="a", sequence_number=2),
    "no response at the end": event("response.completed", sequence_number=2),
}  # fmt: skip


@pytest.mark.parametrize("strange", STRANGE.values(), ids=STRANGE)
def test_an_event_of_a_strange_shape_passes_as_it_came(rig, served, strange):
    script = [*response_stream(texts=PROSE)[:2], strange]
    assert post(served, rig.script(script)).content == b"".join(script)


def test_text_that_came_in_pieces_adds_up(rig, served):
    script = response_stream(message_item(TEXT))
    assert len(pieces_of(TEXT)) > 3
    assert post(served, rig.script(script)).content == b"".join(script)
