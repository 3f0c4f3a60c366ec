"""Fuzzing streams: whatever an upstream sends, in whatever parts, becomes an answer or an error of ours."""

import asyncio
import json
from contextlib import suppress

from tests.fuzz.cases import cut, damage, encoded, fuzz, fuzz_slow, mutate

from millgate.errors import MillgateError, UpstreamError
from millgate.guard.dialects import DIALECTS
from millgate.guard.dialects.usage import UsageSum
from millgate.guard.machine import StreamMachine
from millgate.models.grade import read_grade
from millgate.models.search import web_chunks
from millgate.service.observe.call_trace import window_step
from millgate.service.proxy.answer import guard_answer
from millgate.service.proxy.proxy import Proxy
from millgate.service.proxy.relay import Relay
from millgate.service.proxy.request import parse_request, session_of
from millgate.service.proxy.sse import Splitter, payload
from millgate.types.policy import ProxyPolicy, UpstreamPolicy

EVENTS = [
    {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi", "tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": None}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    {"id": "c", "choices": [{"index": 0, "text": "hi", "finish_reason": "stop"}]},
    {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}},
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
    {"type": "response.created", "response": {"id": "r", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"id": "i", "type": "message", "content": []}},
    {"type": "response.output_item.added", "output_index": 1, "item": {"id": "f", "type": "function_call", "name": "f", "arguments": ""}},
    {"type": "response.function_call_arguments.delta", "item_id": "f", "output_index": 1, "delta": "{}"},
    {"type": "response.content_part.added", "item_id": "i", "output_index": 0, "content_index": 0, "part": {"type": "output_text", "text": ""}},
    {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "hi"},
    {"type": "response.output_item.done", "output_index": 0, "item": {"id": "i", "type": "message", "content": [{"type": "output_text", "text": "hi"}]}},
    {"type": "response.completed", "response": {"id": "r", "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}], "usage": {"input_tokens": 1}}},
    {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1}},
    {"error": {"message": "no", "type": "x", "code": None}},
]  # fmt: skip
LOOP = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "and so on. " * 40}}]})
BODY = {"model": "m", "stream": True, "max_tokens": 5, "prompt": "p", "input": "q", "messages": [{"role": "user", "content": "hi"}], "metadata": {"user_id": "u"}, "tools": [{"type": "function", "function": {"name": "f"}}]}  # fmt: skip


def stream(rng):
    """The bytes of a stream of mutated events."""
    sent = [encoded(rng, rng.choice(EVENTS)) for _ in range(rng.randrange(6))]
    sent += [LOOP.encode()] * (rng.random() < 0.1)
    end = rng.choice([b"data: [DONE]\n\n", b"", b"data: {", b"event: x\n\n"])
    line = rng.choice([b"\n", b"\n", b"\r\n", b"\r"])
    return b"".join(b"data: " + event + line + line for event in sent) + end


class Response:
    """A response of an upstream: the same bytes in parts, for every call."""

    def __init__(self, status, kind, parts):
        self.status, self.headers, self._parts = status, [(b"content-type", kind)], parts
        self._left = list(parts)

    @property
    def is_complete(self):
        return not self._left

    async def send(self, request):
        return Response(self.status, self.headers[0][1], self._parts)

    async def peek(self):
        return self._left[0] if self._left else b""

    async def read(self, timeout_s=None):
        return self._left.pop(0) if self._left else b""

    async def close(self):
        pass


def run(coroutine):
    """Run what never really waits; without a loop of its own, which would take longer than the rest."""
    return asyncio.run(coroutine)


@fuzz
def test_any_stream_is_cut_into_events_without_losing_a_byte(rng):
    data, splitter = damage(rng, stream(rng)), Splitter()
    events = [event for part in cut(rng, data) for event in splitter.feed(part)]
    assert b"".join([*events, splitter.end()]) == data
    for event in events:
        payload(event)


@fuzz_slow
def test_any_stream_passes_the_guard_or_is_an_error_of_ours(rng):
    dialect = rng.choice(DIALECTS)()
    parts, written = cut(rng, stream(rng)), []

    async def relay():
        async def write(data):
            written.append(data)

        async def call_again(_):
            return Response(200, b"text/event-stream", parts)

        machine = StreamMachine(({"role": "user", "content": "hi"},))
        made = Relay(dialect, machine, BODY, policy=ProxyPolicy(), call_again=call_again, write=write)  # fmt: skip
        with suppress(MillgateError):
            await made.run(await call_again(None))

    run(relay())


@fuzz
def test_any_event_is_read_or_of_a_strange_shape(rng):
    dialect = rng.choice(DIALECTS)()
    usage, machine = UsageSum(), StreamMachine(({"role": "user", "content": "hi"},))
    machine.start()
    dialect.restart()
    for _ in range(rng.randrange(1, 5)):
        event = mutate(rng, rng.choice(EVENTS))
        if not isinstance(event, dict):
            continue
        try:
            dialect.is_error(event), dialect.event_name(event)
            usage.note(dialect.usage(event))
            pieces = dialect.read(event)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return  # what the relay makes a strange shape
        for piece in pieces:
            for ready in machine.feed(piece):
                with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
                    dialect.write(ready)
    usage.tokens(), usage.cached_input()


@fuzz
def test_any_whole_answer_is_passed_on_or_is_an_error_of_ours(rng):
    dialect = rng.choice(DIALECTS)()
    body = encoded(rng, rng.choice(EVENTS))

    async def answer():
        async def call_again(_):
            return encoded(rng, rng.choice(EVENTS))

        machine = StreamMachine(({"role": "user", "content": "hi"},))
        with suppress(MillgateError):
            await guard_answer(body, dialect, machine, UsageSum(), call_again, fields={})

    coroutine = answer()
    with suppress(StopIteration):
        coroutine.send(None)  # small answers never wait
    coroutine.close()


@fuzz
def test_any_header_and_conversation_is_read_or_refused(rng):
    names = rng.sample(["guard", "guard-detector", "guard-divergence-token", "context", "collection", "budget", "k", "window", "session", "upstream", "circles"], 3)  # fmt: skip
    raw = [(f"x-millgate-{name}".encode(), damage(rng, b"on 12 main")) for name in names]
    dialect = rng.choice(DIALECTS)()
    with suppress(MillgateError):
        request = parse_request(raw, encoded(rng, BODY), dialect, ProxyPolicy())
        session_of(raw, request.fields, request.messages)
        window_step(request.fields, 1000)
        dialect.is_structured(request.fields), dialect.token_limit(request.fields)
        dialect.remaining_limit(request.fields, 3), dialect.answer_now(request.fields)
        (
            dialect.sampling_overrides({"temperature": 0.9}, request.fields),
            dialect.preamble(request.fields),
        )
        [dialect.human_text(message) for message in request.messages]
        [dialect.add_block(message, "block") for message in request.messages]


@fuzz_slow
def test_what_an_upstream_sends_becomes_an_answer_or_a_502(rng):
    streamed, dialect = rng.random() < 0.5, rng.choice(DIALECTS)
    raw = stream(rng) if streamed else encoded(rng, rng.choice(EVENTS))
    status = rng.choice([200, 200, 200, 204, 304, 400, 429, 500, 99, 600, 999])
    kind = b"text/event-stream" if streamed else b"application/json"
    body = json.dumps({**BODY, "stream": streamed}).encode()
    got = run(_call(dialect, Response(status, kind, cut(rng, raw)), body))
    assert got[0]["status"] in {200, 204, 304, 400, 429, 500, 502, 504}
    assert got[0]["status"] != 500 or status == 500


async def _call(dialect, upstream, body):
    policy = ProxyPolicy(upstreams={"main": UpstreamPolicy(url="http://127.0.0.1:9/v1")})
    proxy = Proxy(policy)
    await proxy.upstreams.close()
    proxy.upstreams.transport = upstream
    got, waiting = [], [{"type": "http.request", "body": body}]

    async def receive():
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message):
        got.append(message)

    scope = {"type": "http", "method": "POST", "path": dialect.path, "raw_path": dialect.path.encode(), "query_string": b"", "headers": [(b"content-type", b"application/json")]}  # fmt: skip
    await proxy.app_for(dialect)(scope, receive, send)
    await proxy.close()
    return got


FOUND = {"results": [{"url": "https://a.test/x", "title": "t", "content": "c"}, {"link": "http://b", "snippet": "s"}]}  # fmt: skip
GRADE = {"choices": [{"message": {"content": '{"relevance": 7}'}}]}


@fuzz
def test_any_search_result_and_grade_is_read_or_refused(rng):
    found = mutate(rng, FOUND)
    results = found.get("results") if isinstance(found, dict) else None
    for chunk in web_chunks(results if isinstance(results, list) else [], 5):
        assert chunk.metadata["untrusted"]
        assert len(chunk.text) <= 4_000
    with suppress(UpstreamError):
        assert 0 <= read_grade(mutate(rng, GRADE)) <= 1
