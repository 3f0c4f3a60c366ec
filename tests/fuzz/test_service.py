"""Fuzzing the service: any request is answered or refused, and never with a 500."""

import asyncio
import gc
import warnings
from contextlib import suppress
from urllib.parse import quote, urlencode

import pytest
from tests.fuzz.cases import encoded, fuzz, fuzz_slow, number, text
from tests.service.clients import connected

from millgate.errors import InputError, MillgateError
from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import Settings


@pytest.fixture(scope="module")
def gate():
    with Millgate.open(settings=Settings(store=":memory:", service={"log": False})) as gate:
        gate.add(
            [
                {"id": "a", "text": "Refunds are paid within 14 days."},
                {"id": "b", "text": "Parcels go by rail."},
            ]
        )
        yield gate


ASKED = {"query": "refunds?", "max_tokens": 200, "k_rag": 3, "collection": "main", "current_window_blocks": ["x", {"role": "user", "content": "y"}], "context_length": 1000, "used_tokens": 10, "task": "research", "detail": "whole"}  # fmt: skip
ROUTES = [
    ("/v1/context", ASKED),
    ("/v1/context", {"query": "q", "window": "some text", "session": "s", "order": "edges", "debug": True, "include_report": True}),
    ("/v1/fingerprint", {"current_window_blocks": ["x", {"role": "user", "content": [{"text": "y"}]}], "sketch": True}),
    ("/v1/strategy", {"query": "q", "char_count": 10}),
    ("/v1/documents", {"documents": [{"id": "z", "text": "t", "title": "x", "metadata": {"a": 1}}], "collection": "c"}),
    ("/v1/facts", {"content": "c", "tags": ["t"], "trust": 0.5}),
    ("/v1/turns", {"session": "s", "messages": [{"role": "user", "content": "hi", "time": 1.0, "salience": 0.5}]}),
    ("/v1/graph/edges", {"edges": [{"source": "a", "predicate": "uses", "target": "b", "weight": 1}]}),
]  # fmt: skip


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
    with (
        warnings.catch_warnings()
    ):  # the MCP library leaves one where a session ends as a message comes
        warnings.filterwarnings("ignore", "coroutine 'JSONRPCDispatcher")
        gc.collect()


@fuzz_slow
def test_a_request_body_is_answered_or_refused(call, rng):
    path, body = rng.choice(ROUTES)
    answer = call("POST", path, content=encoded(rng, body))
    assert answer.status_code in ANSWERS, answer.text[:300]


@fuzz_slow
def test_any_question_is_answered_or_refused(gate, rng):
    with suppress(InputError):
        gate.context(text(rng), budget=100)
        gate.facts.search(text(rng))


@fuzz
def test_any_place_in_the_graph_is_found_or_refused(gate, rng):
    with suppress(MillgateError):
        gate.graph.paths(text(rng))


PATHS = [
    "/v1/documents/{}", "/v1/facts/{}", "/v1/facts", "/v1/traces/{}", "/v1/traces/{}/why", "/v1/traces/{}/why/{}", "/v1/traces", "/v1/reviews/{}",
    "/v1/reviews", "/v1/sessions", "/v1/graph/edges", "/v1/graph/paths", "/v1/{}", "/{}", "/dashboard/{}",
    "/dashboard/requests", "/dashboard/requests/{}",
    "/dashboard/requests/{}/replay", "/dashboard/costs", "/dashboard/reviews/{}", "/dashboard/health", "/dashboard/static/{}",
]  # fmt: skip

PARAMETERS = ["limit", "collection", "query", "q", "node", "start", "direction", "max_hops", "max_results", "source", "predicate", "target", "id", "first", "second", "page", "after", "status", "budget", "chunk"]  # fmt: skip


def parameter(rng):
    strange = ["NaN", "1e400", "-inf", "٣", "0x10", "1_000", "../..", "9" * 5000]
    return rng.choice([text(rng), str(number(rng)), rng.choice(strange)])


@fuzz_slow
def test_any_address_is_answered_or_refused(call, rng):
    method = rng.choice(["GET", "GET", "DELETE", "POST", "PATCH", "PUT", "OPTIONS"])
    names = [quote(parameter(rng).encode("utf-8", "surrogatepass"), safe="") for _ in range(2)]
    some = rng.sample(PARAMETERS, rng.randrange(4))
    query = urlencode({name: parameter(rng).encode("utf-8", "surrogatepass") for name in some})
    answer = call(method, f"{rng.choice(PATHS).format(*names)}?{query}")
    assert answer.status_code in ANSWERS | {502}, answer.text[:300]


MESSAGE = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_context", "arguments": {"query": "refunds?", "budget": 100}, "_meta": {"progressToken": 1}}}  # fmt: skip
METHODS = ["tools/call", "tools/list", "resources/read", "resources/list", "prompts/get", "initialize", "ping", "notifications/cancelled", "x"]  # fmt: skip
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@fuzz_slow
def test_any_message_to_the_mcp_server_is_answered_or_refused(call, rng):
    sent = encoded(rng, {**MESSAGE, "method": rng.choice(METHODS)})
    answer = call("POST", "/mcp", content=sent, headers=ACCEPT)
    assert answer.status_code in ANSWERS | {202, 406}, answer.text[:300]
