"""The ladder in the proxy: noted, listed and ended on three APIs, read by the real SDKs, under the prefix law."""

import json

import anthropic
import openai
import pytest
from bench.fixtures.sessions import MadeCall, Turn, render
from tests.proxy import web
from tests.proxy.upstream import PROSE, response_stream, said, told
from tests.waiting import MOST_S

from millgate.circles.policy import CirclesPolicy
from millgate.service.observe.call_trace import call_trace
from millgate.service.observe.metrics import Metrics
from millgate.types import TraceSummary

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
STREAMS = {
    "chat": said(*PROSE),
    "messages": told(*PROSE),
    "responses": response_stream(texts=PROSE),
}
STOPPED = "read was called 8 times with the same arguments and the same result"


def conversation(api, copies, *more):
    turn = Turn(calls=(MadeCall("read", {"path": "a"}, "no such file"),))
    return render([Turn(human="Read a."), *[turn] * copies, *more], api)


def post(served, api, model, messages, headers=None, **more):
    body = {"model": model, "stream": True, "max_tokens": 100, **more}
    body |= {"input" if api == "responses" else "messages": messages}
    return web.post(served.url + PATHS[api], json=body, headers=headers, timeout=MOST_S)


def sent(upstream, model, api):
    """What reached the model, message by message."""
    name = "input" if api == "responses" else "messages"
    return [json.dumps(message) for message in upstream.seen[model][-1].json[name]]


@pytest.mark.parametrize("api", PATHS)
def test_a_turn_that_we_end_is_no_model_call_and_a_persons_word_goes_to_the_model(
    rig, served, upstream, api
):
    model = rig.script(STREAMS[api])
    post(served, api, model, conversation(api, 8))
    counted = Metrics()
    counted.count_call(served.calls[-1])
    assert "millgate_model_calls_total{" not in counted.text()
    assert TraceSummary.of(call_trace(served.calls[-1], tenant="default", now=0.0)).cost is None
    lifted = post(served, api, model, conversation(api, 8, Turn(human="Read b.")))
    assert "x-millgate-circles" not in lifted.headers
    assert len(upstream.seen[model]) == 1


@pytest.mark.parametrize("api", PATHS)
def test_a_note_stands_at_the_same_place_in_every_later_request(rig, served, upstream, api):
    model, before = rig.script(STREAMS[api]), []
    for copies in range(1, 8):
        post(served, api, model, conversation(api, copies))
        now = sent(upstream, model, api)
        assert now[: len(before)] == before
        before = now


def test_a_request_without_a_circle_passes_byte_for_byte(rig, served, upstream):
    model = rig.script(STREAMS["chat"])
    body = json.dumps(
        {"model": model, "messages": conversation("chat", 2), "stream": True}, indent=1
    )
    headers = {"content-type": "application/json"}
    web.post(served.url + PATHS["chat"], content=body, headers=headers, timeout=MOST_S)
    assert upstream.seen[model][-1].body == body.encode()


def test_the_header_moves_rungs_and_switches_them_off(rig, served, upstream):
    model = rig.script(STREAMS["chat"])

    def ask(value, copies):
        headers = {"x-millgate-circles": value}
        return post(served, "chat", model, conversation("chat", copies), headers)

    assert "x-millgate-circles" not in ask("off", 9).headers
    assert ask("note=2", 2).headers["x-millgate-circles"] == "note 2"
    assert STOPPED.replace("8", "3") in ask("end=3", 3).text
    for bad in ("maybe", "note=x", "nod=3", "note", "note=-1", "note=3=4"):
        refused = ask(bad, 1)
        assert refused.status_code == 400
        assert "x-millgate-circles" in refused.json()["error"]["message"]


def test_a_key_and_the_settings_have_their_say(rig, upstream):
    policy = CirclesPolicy(rungs={"end": 2}, by_key={"trusted": {}})
    model, messages = rig.script(STREAMS["chat"]), conversation("chat", 2)
    trusted = rig.serve(circles=policy, key="trusted")
    assert "x-millgate-circles" not in post(trusted, "chat", model, messages).headers
    other = rig.serve(circles=policy, key="other")
    assert post(other, "chat", model, messages).headers["x-millgate-circles"] == "end 2"


@pytest.mark.parametrize("stream", [True, False])
def test_the_openai_sdk_reads_the_ending(rig, served, stream):
    model = rig.script(STREAMS["chat"])
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="sk-test", max_retries=0) as client:
        messages = conversation("chat", 8)
        options = {"stream_options": {"include_usage": True}} if stream else {}
        got = client.chat.completions.create(
            model=model, messages=messages, stream=stream, **options
        )
        if stream:
            chunks = list(got)
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert chunks[-2].choices[0].finish_reason == "stop"
            assert chunks[-1].usage.total_tokens == 0
        else:
            text = got.choices[0].message.content
            assert got.choices[0].finish_reason == "stop"
        assert STOPPED in text
        items = conversation("responses", 8)
        got = client.responses.create(model=model, input=items, stream=stream)
        if stream:
            events = list(got)
            assert [event.sequence_number for event in events] == list(range(len(events)))
            got = events[-1].response
            assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == got.output_text  # fmt: skip
        assert got.status == "completed"
        assert STOPPED in got.output_text


@pytest.mark.parametrize("stream", [True, False])
def test_the_anthropic_sdk_reads_the_ending(rig, served, stream):
    model = rig.script(STREAMS["messages"])
    with anthropic.Anthropic(base_url=served.url, api_key="sk-test", max_retries=0) as client:
        asked = {"model": model, "max_tokens": 100, "messages": conversation("messages", 8)}
        if stream:
            with client.messages.stream(**asked) as got:
                message = got.get_final_message()
        else:
            message = client.messages.create(**asked)
    assert message.stop_reason == "end_turn"
    assert STOPPED in message.content[0].text


def test_a_hostile_conversation_passes(rig, served, upstream):
    model = rig.script(STREAMS["chat"])
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [None, {"function": 3}, {"id": [], "function": {"name": {}, "arguments": []}}]},
        {"role": "tool", "tool_call_id": {}, "content": [None, {"type": []}, "x"]},
    ]  # fmt: skip
    assert post(served, "chat", model, messages * 4).status_code == 200
    assert upstream.seen[model][-1].json["messages"] == messages * 4
