"""Fuzzing: whatever comes in, what comes out is a result or one of our own errors.

A few cases of each on every run; `make fuzz CASES=100000` for more. What asks a whole service
gets a tenth of the cases: it takes a hundred times as long.
"""

import asyncio
import json
import os
from contextlib import suppress
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.service.clients import connected

from headgate.errors import ConfigError, HeadgateError, InputError
from headgate.gateway import Headgate
from headgate.guard import RepeatDetector
from headgate.guard.dialects import DIALECTS
from headgate.ingest import html
from headgate.ingest.chunk import split_text
from headgate.ingest.decode import Undecodable, decode
from headgate.ingest.policy import ChunkPolicy
from headgate.ingest.readers import read
from headgate.ingest.rows import Skip, Text
from headgate.ingest.walk import SourceFile
from headgate.keys import is_well_formed
from headgate.policy import ProxyPolicy, UpstreamPolicy
from headgate.service.app import create
from headgate.service.proxy.proxy import Proxy
from headgate.service.proxy.request import parse_request
from headgate.service.proxy.sessions import session_of
from headgate.settings import Settings, load
from headgate.stores.open import folder_of
from headgate.stores.postgres.address import parse_address
from headgate.text.fence import quote as fence
from headgate.text.fingerprint import WindowFingerprint
from headgate.text.nfkc import nfkc
from headgate.text.redact import redact
from headgate.text.tokens import estimate_tokens
from headgate.xray.analyze import analyze
from headgate.xray.page import page

CASES = int(os.environ.get("FUZZ_CASES", "50"))
# A long run looks for new cases and keeps none; a short one tries those that failed before.
HOW = {} if CASES <= 1_000 else {"phases": [Phase.generate], "database": None}
fuzz = settings(max_examples=CASES, suppress_health_check=list(HealthCheck), deadline=None, **HOW)
fuzz_service = settings(fuzz, max_examples=max(20, CASES // 10))

SPICE = st.sampled_from(
    ["", "\x00", "\u0300" * 40, "<ref>", "[1] ", "</s>", "```\n", "|a|b|\n", "# ", "漢字", "👩‍👧", "\u202e", "'\"", "OR 1=1 --", "*" * 30, "a" * 300]
)  # fmt: skip
TEXT = st.lists(st.text(max_size=40) | SPICE, max_size=8).map("".join)
NUMBER = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.sampled_from(
    [0, -1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**30, 1e308, -1e308, 5e-324, -0.0, 9007199254740993.0]
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


def mutate(draw, value):
    """A JSON value with some of its parts replaced by others."""
    if draw(st.integers(0, 7)) == 0:
        return draw(JSON)
    if isinstance(value, dict):
        return {key: mutate(draw, inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [mutate(draw, inner) for inner in value]
    return value


@pytest.fixture(scope="module")
def gate():
    with Headgate.open(settings=Settings(store=":memory:", service={"log": False})) as gate:
        gate.add(
            [
                {"id": "a", "text": "Refunds are paid within 14 days."},
                {"id": "b", "text": "Parcels go by rail."},
            ]
        )
        yield gate


ASKED = {"query": "refunds?", "max_tokens": 200, "k_rag": 3, "collection": "main", "current_window_blocks": ["x", {"role": "user", "content": "y"}], "context_length": 1000, "used_tokens": 10, "task": "research", "detail": "whole"}  # fmt: skip
ROUTES = [("/v1/context", ASKED), ("/v1/strategy", {"query": "q", "char_count": 10}), ("/v1/documents", {"documents": [{"id": "z", "text": "t", "metadata": {"a": 1}}]}), ("/v1/facts", {"content": "c", "tags": ["t"], "trust": 0.5}), ("/v1/graph/edges", {"edges": [{"source": "a", "predicate": "uses", "target": "b", "weight": 1}]})]  # fmt: skip


REFUSALS = {400, 401, 403, 404, 405, 413, 415, 422, 429}
ANSWERS = {200, 201, 204, 303, 307, 308} | REFUSALS


@pytest.fixture(scope="module")
def call(gate):
    """Sends requests to one service, and returns its answers."""
    app = create(gate)
    with asyncio.Runner() as runner:

        def send(method, path, **options):
            async def sent():
                async with connected(app) as client:
                    return await client.request(method, path, **options)

            return runner.run(sent())

        yield send


@fuzz_service
@given(st.data(), st.sampled_from(ROUTES))
def test_a_request_body_is_answered_or_refused(call, data, route):
    path, body = route
    sent = json.dumps(mutate(data.draw, body), ensure_ascii=True)
    assert call("POST", path, content=sent).status_code in ANSWERS


class Upstream:
    """A transport whose every answer is the same bytes, in parts."""

    def __init__(self, status, kind, parts):
        self.status, self.headers, self._parts = status, [(b"content-type", kind)], parts

    async def send(self, request):
        self._left = list(self._parts)
        return self

    async def read(self, timeout_s=None):
        return self._left.pop(0) if self._left else b""

    async def close(self):
        pass


EVENTS = [
    {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hi", "tool_calls": [{"index": 0, "id": "t", "function": {"name": "f", "arguments": "{}"}}]}, "finish_reason": None}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
    {"id": "c", "choices": [{"index": 0, "text": "hi", "finish_reason": "stop"}]},
    {"id": "c", "object": "chat.completion", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}},
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
    {"type": "response.created", "response": {"id": "r", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"id": "i", "type": "message", "content": []}},
    {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": "hi"},
    {"type": "response.completed", "response": {"id": "r", "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}], "usage": {"input_tokens": 1}}},
    {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 1}},
]  # fmt: skip


@fuzz_service
@given(st.data(), st.sampled_from(DIALECTS), st.booleans())
def test_what_an_upstream_sends_becomes_an_answer_or_a_502(data, dialect, streamed):
    events = data.draw(st.lists(st.sampled_from(EVENTS), max_size=5))
    sent = [json.dumps(mutate(data.draw, event)).encode() for event in events]
    if streamed:
        ends = st.sampled_from([b"data: [DONE]\n\n", b"", b"data: {", b"event: x\n\n"])
        raw = b"".join(b"data: " + event + b"\n\n" for event in sent) + data.draw(ends)
    else:
        raw = (sent or [data.draw(st.binary(max_size=20))])[0]
    cut = data.draw(st.integers(1, 60))
    parts = [raw[at : at + cut] for at in range(0, len(raw), cut)]
    status = data.draw(st.sampled_from([200, 200, 200, 204, 304, 400, 429, 500, 99, 600, 999]))
    kind = b"text/event-stream" if streamed else b"application/json"
    body = {"model": "m", "stream": streamed, "max_tokens": 5, "prompt": "p", "input": "q", "messages": [{"role": "user", "content": "hi"}]}  # fmt: skip
    got = asyncio.run(_call(dialect, Upstream(status, kind, parts), json.dumps(body).encode()))
    assert got[0]["status"] in {200, 204, 304, 400, 429, 500, 502, 504}
    assert got[0]["status"] != 500 or status == 500


async def _call(dialect, upstream, body):
    policy = ProxyPolicy(upstreams={"main": UpstreamPolicy(url="http://127.0.0.1:9/v1")})
    proxy = Proxy(policy)
    await proxy.upstreams.close()
    proxy.upstreams._transport = upstream
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


@fuzz
@given(TEXT, st.sampled_from(["markdown", "text", "code"]))
def test_any_text_can_be_cut(text, kind):
    policy = ChunkPolicy(target=20, maximum=40)
    joined = "".join(passage.text for passage in split_text(text * 5, policy, kind=kind))
    assert sorted("".join(joined.split())) == sorted("".join((text * 5).split()))


@fuzz_service
@given(st.binary(max_size=400) | TEXT.map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_can_be_added(gate, data):
    gate.add_stream(data, id="fuzzed", collection="fuzz")
    with suppress(Undecodable):
        html.extract(decode(data))


@fuzz
@given(st.data())
def test_any_fingerprint_is_read_or_refused(data):
    good = WindowFingerprint.of(["one two three four five six"]).to_json()
    payload = {name: mutate(data.draw, value) for name, value in good.items()}
    with suppress(InputError):
        WindowFingerprint.from_json(payload).overlap(["one two three"])


@fuzz
@given(TEXT)
def test_any_text_can_be_quoted_folded_counted_and_redacted(text):
    assert len(nfkc(text, 1000)) <= 1000
    assert redact(redact(text)) == redact(text)
    assert estimate_tokens(fence(text)) >= 0
    assert not is_well_formed(text)


@fuzz_service
@given(TEXT)
def test_any_question_is_answered_or_refused(gate, query):
    with suppress(InputError):
        gate.context(query, budget=100)
        gate.facts.search(query)


@fuzz
@given(st.dictionaries(st.sampled_from(["HEADGATE_GATE__ORDER", "HEADGATE_PROXY__UPSTREAMS", "HEADGATE_LIMITS__K", "HEADGATE_STORE__X", "HEADGATE_X__Y", "HEADGATE_TENANT", "HEADGATE_TRACE__AGE_S"]), TEXT))  # fmt: skip
def test_any_environment_is_read_or_refused(environ):
    with suppress(ConfigError):
        load(environ=environ)


@fuzz
@given(st.lists(TEXT, min_size=1, max_size=6), st.integers(1, 30))
def test_a_loop_is_seen_however_the_stream_is_cut(parts, size):
    text = "".join(parts) + "so it goes on and on. " * 30
    whole, cut = RepeatDetector(), RepeatDetector()
    seen = [stall for char in text if (stall := whole.feed(char))][:1]
    pieces = (text[at : at + size] for at in range(0, len(text), size))
    found = [stall for piece in pieces if (stall := cut.feed(piece))][:1]
    assert [stall.onset for stall in seen] == [stall.onset for stall in found]


@fuzz
@given(st.data())
def test_any_edge_and_slice_is_taken_or_refused(gate, data):
    with suppress(HeadgateError):
        gate.graph.paths(data.draw(TEXT))


PATHS = [
    "/v1/documents/{}", "/v1/facts/{}", "/v1/facts", "/v1/traces/{}", "/v1/traces/{}/why", "/v1/traces/{}/why/{}", "/v1/traces", "/v1/reviews/{}",
    "/v1/reviews", "/v1/sessions", "/v1/graph/edges", "/v1/graph/paths", "/v1/{}", "/{}", "/dashboard/{}", "/dashboard/store/collection",
    "/dashboard/store/document", "/dashboard/facts", "/dashboard/facts/{}", "/dashboard/graph", "/dashboard/requests", "/dashboard/requests/{}",
    "/dashboard/requests/{}/replay", "/dashboard/requests/compare", "/dashboard/streams/{}", "/dashboard/reviews/{}", "/dashboard/health", "/dashboard/static/{}",
]  # fmt: skip
PARAMETERS = st.sampled_from(
    ["limit", "collection", "query", "q", "node", "start", "direction", "max_hops", "max_results", "source", "predicate", "target", "id", "first", "second", "page", "after", "status", "budget", "chunk"]
)  # fmt: skip
VALUE = TEXT | NUMBER.map(str) | st.sampled_from(["NaN", "1e400", "-inf", "٣", "0x10", "1_000", "../..", "9" * 5000])  # fmt: skip


@fuzz_service
@given(st.sampled_from(["GET", "GET", "DELETE", "POST", "PATCH", "PUT", "OPTIONS"]), st.sampled_from(PATHS), VALUE, VALUE, st.dictionaries(PARAMETERS, VALUE, max_size=3))  # fmt: skip
def test_any_address_is_answered_or_refused(call, method, path, one, two, params):
    names = [quote(name.encode("utf-8", "surrogatepass"), safe="") for name in (one, two)]
    query = urlencode({name: value.encode("utf-8", "surrogatepass") for name, value in params.items()})  # fmt: skip
    answer = call(method, f"{path.format(*names)}?{query}")
    assert answer.status_code in ANSWERS | {502}, answer.text[:300]


OURS = ["guard", "guard-detector", "guard-window", "guard-min-bits", "guard-max-drop", "guard-divergence-token", "context", "collection", "budget", "k", "window", "session", "upstream", "circles"]  # fmt: skip
HEADER = VALUE.map(lambda text: "".join(c for c in text if c.isprintable()).encode("utf-8", "replace"))  # fmt: skip


@fuzz
@given(st.dictionaries(st.sampled_from(OURS), HEADER, max_size=4), st.data())
def test_any_header_and_conversation_is_read_or_refused(headers, data):
    raw = [(f"x-headgate-{name}".encode(), value) for name, value in headers.items()]
    body = mutate(data.draw, {"model": "m", "messages": [{"role": "user", "content": "hi"}], "input": "q", "prompt": "p", "metadata": {"user_id": "u"}})  # fmt: skip
    dialect = data.draw(st.sampled_from(DIALECTS))()
    with suppress(HeadgateError):
        request = parse_request(raw, json.dumps(body).encode(), dialect, ProxyPolicy())
        session_of(raw, request.fields, request.messages)


MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_context", "arguments": {"query": "refunds?", "budget": 100}, "_meta": {"progressToken": 1}}}  # fmt: skip
METHODS = st.sampled_from(["tools/call", "tools/list", "resources/read", "resources/list", "prompts/get", "initialize", "ping", "notifications/cancelled", "x"])  # fmt: skip
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@fuzz_service
@given(st.data(), METHODS)
def test_any_message_to_the_mcp_server_is_answered_or_refused(call, data, method):
    sent = mutate(data.draw, {**MESSAGE, "method": method})
    answer = call("POST", "/mcp", content=json.dumps(sent), headers=ACCEPT)
    assert answer.status_code in ANSWERS | {202, 406}, answer.text[:300]


LINE = {"type": "assistant", "sessionId": "s", "uuid": "u", "timestamp": "2026-01-01T00:00:00Z", "message": {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "/a"}}, {"type": "tool_result", "tool_use_id": "t", "content": "x"}], "usage": {"input_tokens": 1, "output_tokens": 2}}, "payload": {"type": "message", "content": [{"text": "x"}]}}  # fmt: skip


@fuzz
@given(st.data())
def test_any_recorded_session_is_read(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "session.jsonl"
    lines = [json.dumps(mutate(data.draw, LINE)).encode() for _ in range(data.draw(st.integers(1, 3)))]  # fmt: skip
    file.write_bytes(b"\n".join([*lines, data.draw(st.binary(max_size=40))]))
    assert "<html" in page(analyze([file]))


@fuzz
@given(st.data(), st.sampled_from([".csv", ".tsv", ".jsonl", ".json", ".md", ".html", ".txt", ".py"]))  # fmt: skip
def test_any_file_is_read_or_skipped(tmp_path_factory, data, suffix):
    file = tmp_path_factory.getbasetemp() / f"file{suffix}"
    row = {"id": "a", "text": "t", "title": "x", "metadata": {"k": 1}}
    some = st.binary(max_size=200) | TEXT.map(lambda text: text.encode("utf-8", "replace"))
    file.write_bytes(data.draw(some | st.just(json.dumps(mutate(data.draw, row)).encode())))
    for item in read(SourceFile(file, f"file{suffix}"), collection="main", max_bytes=10_000):
        assert isinstance(item, Text | Skip)


@fuzz
@given(TEXT | st.lists(st.sampled_from(["postgresql://", "u:p@", "h", ":5432", "/db", "?", "cache=", "&", "%", "..", "a=b", "//", "pool=", "1e400", "\0"]), max_size=8).map("".join))  # fmt: skip
def test_any_address_of_a_store_is_read_or_refused(text):
    with suppress(HeadgateError):
        folder_of(text)
    with suppress(HeadgateError):
        parse_address(text)
