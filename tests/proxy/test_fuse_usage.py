"""What a call spent: asked for where the client did not, hidden from it, estimated where nobody tells it."""

import json
import socket

import pytest
from tests.proxy import web
from tests.proxy.test_fuse import ASK, CAP, address, post, spent, trace_of, until  # noqa: F401
from tests.proxy.upstream import (
    DONE,
    LOOP,
    PROSE,
    RESET,
    Head,
    Pause,
    answer,
    chunk,
    completion_stream,
    json_head,
    response_stream,
    said,
    told,
    usage_chunk,
)
from tests.waiting import MOST_S

from millgate.gateway import Millgate
from millgate.guard.dialects.usage import estimate_prompt
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

ASKED = b',"stream_options":{"include_usage":true}'


@pytest.fixture
def gate(rig, tmp_path):
    upstreams = {
        "main": rig.at(),
        "late": rig.at(models=["late-*"], answer_s=0.2, idle_s=0.2),
        "gone": UpstreamPolicy(url="http://127.0.0.1:9/v1", models=["gone"]),
    }
    policy = ProxyPolicy(upstreams=upstreams)
    fuse = {"caps": {"session": {"tokens": 10_000_000}}}
    settings = Settings(store=str(tmp_path / "kb"), proxy=policy, fuse=fuse)
    with Millgate.open(settings=settings) as gate:
        yield gate


def send(address, body, *, path="/v1/chat/completions", headers=None):  # noqa: F811
    headers = {"content-type": "application/json", "x-millgate-session": "s", **(headers or {})}
    return web.post(address + path, content=body, headers=headers, timeout=MOST_S)


def step_of(gate, reply):
    return next(step.facts for step in trace_of(gate, reply).steps if step.stage == "model")


def with_nulls(events):
    """As OpenAI sends them where usage was asked for: each has one, and only the last tells something."""
    return [e.replace(b"}\n\n", b', "usage": null}\n\n') if b"choices" in e else e for e in events]


CHAT = said(*PROSE, 'a text with ,"usage":null in it')
TEXTS = completion_stream(*PROSE)
STREAMS = {
    "chat": ("/v1/chat/completions", CHAT, [*CHAT[:-1], usage_chunk(380, 20), DONE]),
    "chat with nulls": ("/v1/chat/completions", CHAT, [*with_nulls(CHAT[:-1]), usage_chunk(380, 20), DONE]),
    "completions": ("/v1/completions", TEXTS, [*with_nulls(TEXTS[:-1]), usage_chunk(380, 20), DONE]),
}  # fmt: skip


@pytest.mark.parametrize("guard", ["on", "off"])
@pytest.mark.parametrize(("path", "plain", "asked"), STREAMS.values(), ids=STREAMS)
def test_usage_is_asked_for_and_the_client_gets_the_bytes_it_would_have_got(
    rig, gate, address, upstream, path, plain, asked, guard  # noqa: F811
):  # fmt: skip
    model = rig.script(asked)
    body = b'{"messages": [{"role":"user","content":"h\\u00f6"}], "prompt": "Once", "model":"%b", "stream":true, "x": 1.0\n} ' % model.encode()  # fmt: skip
    reply = send(address, body, path=path, headers={"x-millgate-guard": guard})
    assert upstream.seen[model][0].body == body.rstrip()[:-1] + ASKED + b"}"
    assert reply.content == b"".join(plain)
    assert reply.headers["x-millgate-guard"] == guard
    assert spent(gate) == 400
    assert "estimated" not in step_of(gate, reply)


@pytest.mark.parametrize("guard", ["on", "off"])
def test_a_client_that_asks_for_usage_gets_it(rig, gate, address, upstream, guard):  # noqa: F811
    script = [*with_nulls(CHAT[:-1]), usage_chunk(380, 20), DONE]
    model = rig.script(script)
    body = json.dumps({"model": model, "messages": ASK, "stream": True, "stream_options": {"include_usage": True}}).encode()  # fmt: skip
    reply = send(address, body, headers={"x-millgate-guard": guard})
    assert upstream.seen[model][0].body == body
    assert reply.content == b"".join(script)
    assert spent(gate) == 400


def test_other_options_of_a_stream_stay(rig, gate, address, upstream):  # noqa: F811
    model = rig.script(said(*PROSE))
    post(address, model, stream_options={"include_obfuscation": False})
    asked = upstream.seen[model][0].json["stream_options"]
    assert asked == {"include_obfuscation": False, "include_usage": True}


@pytest.mark.parametrize(
    ("path", "script", "more"),
    [
        ("/v1/messages", told(*PROSE, usage=(380, 20)), {}),
        ("/v1/responses", response_stream(texts=PROSE, usage=(380, 20)), {"input": "Hi"}),
        ("/v1/chat/completions", answer("Well.", usage=(380, 20)), {"stream": False}),
    ],
)
@pytest.mark.parametrize("guard", ["on", "off"])
def test_an_answer_that_tells_usage_anyway_is_not_asked_for_it(
    rig, gate, address, upstream, path, script, more, guard  # noqa: F811
):  # fmt: skip
    model = rig.script(script)
    body = json.dumps({"model": model, "messages": ASK, "stream": True, "max_tokens": 100, **more})
    send(address, body.encode(), path=path, headers={"x-millgate-guard": guard})
    assert upstream.seen[model][0].body == body.encode()
    assert spent(gate) == 400


def test_a_call_that_goes_on_asks_too_and_what_was_severed_is_estimated(rig, gate, address, upstream):  # noqa: F811  # fmt: skip
    model = rig.script(said(*LOOP), said("All is well.", id="b", usage=(380, 20)))
    reply = post(address, model)
    assert upstream.seen[model][1].json["stream_options"] == {"include_usage": True}
    assert "usage" not in reply.text
    assert reply.content.endswith(DONE)
    assert spent(gate) > 400 + 100
    assert step_of(gate, reply)["estimated"]


# Upstreams that do not know it

NAMES_IT = b'{"error": {"message": "Unrecognized request argument: stream_options"}}'


@pytest.mark.parametrize("refusal", [(400, NAMES_IT), (422, NAMES_IT), (400, b"Bad Request")])
def test_an_upstream_that_refuses_to_tell_is_asked_again_without_and_not_tempted_again(
    rig, gate, address, upstream, refusal  # noqa: F811
):  # fmt: skip
    status, words = refusal
    model = rig.script([json_head(status), words], CHAT)
    reply = post(address, model)
    assert (reply.status_code, reply.content) == (200, b"".join(CHAT))
    post(address, model)
    assert ["stream_options" in seen.json for seen in upstream.seen[model]] == [True, False, False]
    assert spent(gate) > 2 * estimate_prompt({"messages": ASK})


def test_an_upstream_that_refuses_something_else_is_asked_once(rig, gate, address, upstream):  # noqa: F811
    full = [json_head(400), b'{"error": {"message": "the prompt is too long"}}']
    model = rig.script(CHAT, full, [json_head(400), NAMES_IT], CHAT)
    assert post(address, model).status_code == 200
    refused = post(address, model)
    assert (refused.status_code, refused.content) == (400, full[1])
    assert len(upstream.seen[model]) == 2
    assert post(address, model).status_code == 200, "a new version of it knows the field no more"


def test_a_refusal_of_both_is_passed_on_and_costs_nothing(rig, gate, address):  # noqa: F811
    words = b'{"error": {"message": "the prompt is too long"}}'
    reply = post(address, rig.script([json_head(400), words]))
    assert (reply.status_code, reply.content) == (400, words)
    assert spent(gate) == 0


# Where the upstream tells nothing


@pytest.mark.parametrize(
    ("path", "script"),
    [
        ("/v1/chat/completions", said(*PROSE)),
        ("/v1/chat/completions", [json_head(), b'{"choices": [{"message": {"content": "Well."}}]}']),
        ("/v1/completions", completion_stream(*PROSE)),
        ("/v1/messages", [e.replace(b'"input_tokens": 10, ', b"") for e in told(*PROSE)]),
        ("/v1/responses", response_stream(texts=PROSE, usage=None)),
    ],
)  # fmt: skip
def test_a_prompt_that_nobody_told_the_size_of_is_estimated(rig, gate, address, path, script):  # noqa: F811
    text = " ".join(str(n * n) for n in range(25_000))  # 200 kB
    asked = {"prompt": text} if path.endswith("/completions") and "chat" not in path else {}
    messages = [{"role": "user", "content": text}]
    reply = post(address, rig.script(script), path=path, messages=messages, input=text, **asked)
    assert reply.status_code == 200
    assert spent(gate) > 50_000
    facts = step_of(gate, reply)
    assert facts["estimated"]
    assert facts["input_tokens"] > 50_000
    assert facts["output_tokens"] >= 1


def test_the_tokens_of_tool_calls_are_estimated_too(rig, gate, address):  # noqa: F811
    text = json.dumps({"text": " ".join(str(n * n) for n in range(800))})
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "write", "arguments": text}}  # fmt: skip
    script = [chunk({"tool_calls": [call]}), chunk({}, finish="tool_calls"), DONE]
    assert step_of(gate, post(address, rig.script(script)))["output_tokens"] > 1_500


def test_a_cap_holds_if_the_upstream_tells_nothing(rig, tmp_path):
    from millgate.service.app import create

    policy = ProxyPolicy(upstreams={"main": rig.at()})
    fuse = {"caps": {"session": {"tokens": CAP}}}
    settings = Settings(store=str(tmp_path / "kb"), proxy=policy, fuse=fuse)
    model = rig.script(said(*PROSE))
    prompt = [{"role": "user", "content": " ".join(str(n) for n in range(60))}]
    with Millgate.open(settings=settings) as gate:
        url, stop = rig.app(create(gate))
        try:
            replies = [post(url, model, messages=prompt, max_tokens=60) for _ in range(9)]
            assert spent(gate) < 2 * CAP
        finally:
            stop()
    passed = [reply for reply in replies if reply.status_code == 200]
    assert 2 < len(passed) < 7
    assert replies[-1].status_code == 402


# Where there is no answer


def test_a_client_that_leaves_before_the_head_is_booked_with_its_prompt(rig, gate, address, upstream):  # noqa: F811  # fmt: skip
    model = rig.script([Pause(), *CHAT])
    host, port = address.removeprefix("http://").split(":")
    fields = {"model": model, "messages": ASK, "stream": True, "max_tokens": 100}
    body = json.dumps(fields).encode()
    with socket.create_connection((host, int(port))) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nx-millgate-session: s\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"  # fmt: skip
        client.sendall(head.encode() + body)
        until(lambda: upstream.seen[model] or None)
    assert until(lambda: spent(gate) or None) == estimate_prompt(fields)


@pytest.mark.parametrize("guard", ["on", "off"])
@pytest.mark.parametrize("script", [[Pause(), *CHAT], [Head(), Pause()]], ids=["head", "body"])
def test_an_upstream_that_answers_too_late_is_booked_with_the_prompt(rig, gate, address, upstream, script, guard):  # noqa: F811  # fmt: skip
    model = f"late-{rig.name()}"
    upstream.script(model, script)
    fields = {"model": model, "messages": ASK, "stream": True, "max_tokens": 100}
    reply = send(address, json.dumps(fields).encode(), headers={"x-millgate-guard": guard})
    assert reply.status_code == 504
    assert spent(gate) >= estimate_prompt(fields)


@pytest.mark.parametrize("model", ["gone", "broken"])
def test_an_upstream_that_got_nothing_or_broke_costs_nothing(rig, gate, address, upstream, model):  # noqa: F811
    upstream.script("broken", [RESET])
    assert post(address, model).status_code == 502
    assert spent(gate) == 0
