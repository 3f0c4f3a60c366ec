"""The cache witness in the proxy: what broke the prompt cache is told in a header and in the trace of the call."""

import pytest
from tests.proxy import web
from tests.proxy.upstream import PROSE, said, told

from headgate.notes import Stage
from headgate.service.proxy.model_call import call_trace

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}


def chat_stream(read, fresh):
    """A stream of chat completions that reports its usage."""
    usage = (
        b'{"prompt_tokens":%d,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":%d}}'
    )
    counted = b'data: {"choices":[],"usage":' + usage % (read + fresh, read) + b"}\n\n"
    *events, done = said(*PROSE)
    return [*events, counted, done]


def messages_stream(read, written):
    """A stream of Anthropic's API that reports what it read and wrote."""
    usage = b'"usage":{"input_tokens":3,"output_tokens":1,"cache_read_input_tokens":%d,"cache_creation_input_tokens":%d}'
    first, *events = told(*PROSE)
    start = b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","role":"assistant","content":[],'
    assert b"message_start" in first
    return [start + usage % (read, written) + b"}}\n\n", *events]


STREAMS = {"chat": chat_stream, "messages": messages_stream}


def ask(served, api, model, messages, system="Be brief."):
    body = {"model": model, "stream": True, "max_tokens": 100, "messages": messages}
    if api == "messages":
        body["system"] = system
    else:
        body["messages"] = [{"role": "system", "content": system}, *messages]
    reply = web.post(served.url + PATHS[api], json=body, timeout=20, headers={"x-headgate-session": model})  # fmt: skip
    assert reply.status_code == 200
    return reply


def cache_step(served):
    trace = call_trace(served.calls[-1], tenant="default", now=0.0)
    return next((step.facts for step in trace.steps if step.stage is Stage.CACHE), None)


@pytest.mark.parametrize("api", PATHS)
def test_a_changed_system_prompt_is_named_with_what_it_cost(rig, served, api):
    write = STREAMS[api]
    model = rig.script(write(0, 9_000), write(9_000, 200), write(0, 9_400))
    said = [{"role": "user", "content": "Mend the parser."}]
    first = ask(served, api, model, said)
    assert "x-headgate-cache" not in first.headers
    said += [{"role": "assistant", "content": "Which one?"}, {"role": "user", "content": "Yours."}]
    second = ask(served, api, model, said)
    assert second.headers["x-headgate-cache"] == "extends the last request"
    assert "blame" not in cache_step(served)
    said += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    third = ask(served, api, model, said, system="Be brief. It is 14:32.")
    assert third.headers["x-headgate-cache"].startswith("broken: system block 1 (")
    facts = cache_step(served)
    assert facts["blame"] == "client"
    assert facts["change"] == "system changed"
    assert (facts["read"], facts["lost"]) == (0, 9_200)
