"""Bad input gets a problem that says what, where and what to do; never a 500 or a traceback."""

import pytest
from tests.service.clients import connected
from tests.service.conftest import ROWS

from millgate.errors import AccessError, BusyError, InputError, StoreError
from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.edge.problems import refusal
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FailingStore

DEEP = b'{"query": "x", "current_window_fingerprint": ' + b'{"a": ' * 5000 + b"1" + b"}" * 5001


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b'{"query": ""}',
        b'{"query": "  \\t "}',
        b'{"query": 5}',
        b'{"query": "x", "nonsense": 1}',
        b'{"query": "x", "max_tokens": -1}',
        b'{"query": "x", "max_tokens": NaN}',
        b'{"query": "x", "max_tokens": 1e400}',
        b'{"query": "x", "max_tokens": "5"}',
        b'{"query": "x", "k_rag": true}',
        b'{"query": "\\ud800"}',
        b'{"query": "\xff\xfe"}',
        b'{"query": "x", "detail": "most"}',
        b'{"query": "x", "task": "juggling"}',
        b'{"query": "x", "context_length": -5}',
        b'{"query": "x", "current_window_blocks": [5]}',
        b"\x00\x01\x02",
        DEEP,
    ],
)
async def test_what_cannot_be_read_is_said(client, body):
    headers = {"content-type": "application/json"}
    answer = await client.post("/v1/context", content=body, headers=headers)
    assert answer.status_code == 422
    told = answer.json()
    assert told["status"] == 422
    assert told["detail"]
    assert told["hint"]
    assert told["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("path", "body", "where", "hint"),
    [
        ("/v1/context", {"query": "x", "budgt": 3}, "body.budgt", "did you mean budget?"),
        ("/v1/documents", {"documents": [{"text": "x", "titel": ""}]}, "body.documents.0.titel", "did you mean title?"),
        ("/v1/context", {"query": "x", "zzz": 3}, "body.zzz", "see /openapi.json"),
    ],
)  # fmt: skip
async def test_a_misspelt_field_is_told_which_was_meant(client, path, body, where, hint):
    told = (await client.post(path, json=body)).json()
    assert told["detail"] == f"{where}: there is no such field"
    assert told["hint"].startswith(hint)


async def test_a_header_of_ours_that_does_not_exist_is_named(client):
    sent = {"X-Millgate-Kay": "mg_x", "x-millgate-session": "a header of the proxy"}
    answer = await client.post("/v1/context", json={"query": "refunds"}, headers=sent)
    assert answer.status_code == 422
    assert "x-millgate-kay (did you mean x-millgate-key?)" in answer.json()["detail"]
    assert "session" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "query", ["\x00", "a\x00b", "\u202e\u2066", "🙂" * 100, "' OR 1=1 --", "<ref>", "e\u0301" * 50]
)
async def test_odd_queries_have_a_defined_answer(client, query):
    answer = await client.post("/v1/context", json={"query": query})
    assert answer.status_code == 200
    assert answer.json()["trace"]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"version": 99},
        {"version": 1, "global_sha256": 5, "spans": "x"},
        {"version": 1, "global_minhash128": [1, 2]},
    ],
)
async def test_a_broken_fingerprint_is_said(client, payload):
    body = {"query": "refunds", "current_window_fingerprint": payload}
    answer = await client.post("/v1/context", json=body)
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert any("penalize" in line for line in answer.json()["degraded"])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("PUT", "/v1/context", 405),
        ("GET", "/v1/documents/%00", 404),
        ("GET", "/v1/documents/%ED%A0%80", 404),
        ("GET", "/v1/traces/%2e%2e%2f", 404),
        ("GET", "/v1/facts/" + "x" * 3000, 422),
        ("GET", "/v1/traces?limit=0", 422),
        ("GET", "/v1/traces?limit=x", 422),
        ("GET", "/v1/graph/paths", 422),
        ("GET", "/v1/reviews?status=lost", 422),
    ],
)
async def test_odd_paths_are_problems(client, method, path, status):
    answer = await client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "row",
    [
        {"text": 5},
        {"id": "", "text": "x"},
        {"id": "x" * 2000, "text": "x"},
        {"text": "x", "more": 1},
    ],
)
async def test_a_document_that_is_none_is_refused_whole(client, row):
    body = {"documents": [{"id": "good", "text": "fine"}, row]}
    answer = await client.post("/v1/documents", json=body)
    assert answer.status_code == 422
    assert (await client.get("/v1/documents/good")).status_code == 404


async def test_a_document_that_cannot_be_stored_is_skipped_with_its_reason(client):
    body = {"documents": [{"id": "good", "text": "fine"}, {"id": "a\x00b", "text": "x"}]}
    told = (await client.post("/v1/documents", json=body)).json()
    assert (told["documents"], told["skips"]) == (1, 1)
    assert "control character" in told["skipped"][0]["reason"]


def over(stack, **failing):
    """A gate over a store that holds the rows and fails from then on."""
    store = TemporaryStore()
    stack.enter_context(Millgate.open(store=store)).add(ROWS)
    return stack.enter_context(Millgate.open(store=FailingStore(store, **failing)))


async def test_a_store_that_is_down_is_503_and_what_can_be_answered_is(stack):
    gate = over(stack)
    async with connected(create(gate)) as client:
        answer = await client.get("/v1/traces")
        ready = await client.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["retry-after"]
    assert ready.status_code == 503
    assert ready.json()["parts"]["store"] == "cannot serve; the service's log says why"


async def test_a_lost_trace_does_not_lose_the_answer(stack):
    gate = over(stack, methods=["save_trace"])
    async with connected(create(gate)) as client:
        await client.post("/v1/context", json={"query": "refunds"})
        gate.traces()  # waits for what is written behind the answer
        answer = await client.post("/v1/context", json={"query": "refunds"})
    assert answer.status_code == 200
    assert answer.json()["chunks"]
    assert any(line.startswith("trace: not stored") for line in answer.json()["degraded"])


async def test_what_was_not_foreseen_says_nothing_of_the_inside(stack):
    gate = over(stack, error=KeyError("secret inside"))
    async with connected(create(gate), raising=False) as client:
        answer = await client.get("/v1/documents")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.json()["request_id"]


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "detail", "hint"),
    [
        ("GET", "/v1/contxt", b"", "", "there is no route /v1/contxt", "/openapi.json"),
        ("GET", "/v1/context", b"", "", "/v1/context does not take GET", "use POST"),
        ("POST", "/v1/context", b'{"query": "x"', "application/json", "not valid JSON", "one JSON object"),
        ("POST", "/v1/context", b'{"query": "x"}', "text/plain", "not marked as JSON", "application/json"),
    ],
)  # fmt: skip
async def test_a_request_that_misses_its_route_is_told_which_to_take(
    client, method, path, body, kind, detail, hint
):
    headers = {"content-type": kind} if kind else {}
    answer = await client.request(method, path, content=body, headers=headers)
    assert answer.status_code in (404, 405, 422)
    told = answer.json()
    assert detail in told["detail"]
    assert hint in told["hint"]


@pytest.mark.parametrize(
    ("method", "path", "detail", "hint"),
    [
        ("GET", "/nothing", "there is no route /nothing", "see /openapi.json for all routes"),
        ("PUT", "/v1/context", "/v1/context does not take PUT", "use POST"),
    ],
)
async def test_a_wrong_address_or_method_says_which_is_right(client, method, path, detail, hint):
    told = (await client.request(method, path)).json()
    assert (told["detail"], told["hint"]) == (detail, hint)
    assert "errors" not in told


async def test_a_body_that_is_not_marked_as_json_is_told_so_and_broken_json_where_it_breaks(client):
    plain = await client.post("/v1/context", content=b'{"query": "x"}')
    assert plain.json()["detail"] == "the body is not marked as JSON"
    marked = {"content-type": "application/json"}
    broken = (await client.post("/v1/context", content=b'{"query": ', headers=marked)).json()
    assert broken["detail"].startswith("the body is not valid JSON, from character ")
    assert broken["hint"] == "send one JSON object"
    half = (
        await client.post("/v1/context", content=b'{"query": "\\ud800"}', headers=marked)
    ).json()
    assert half["detail"].endswith("from character 11 on: half a character (a lone surrogate)")
    other = (await client.post("/v1/context", content=b"[1]", headers=marked)).json()
    assert "not marked" not in other["detail"]
    missing = (await client.post("/v1/context", json={})).json()
    assert missing["detail"].startswith("body.query: ")


@pytest.mark.parametrize(
    ("error", "header", "value"),
    [
        (BusyError("busy", retry_after=2.1), "retry-after", "3"),
        (BusyError("busy", retry_after=0.0), "retry-after", "1"),
        (AccessError("no key"), "www-authenticate", "Bearer"),
        (StoreError("gone"), "retry-after", "5"),
    ],
)
def test_a_refusal_says_when_to_come_back_or_how_to_sign_in(error, header, value):
    reply = refusal(error, "r1")
    assert reply.headers[header] == value
    assert len({"retry-after", "www-authenticate"} & set(reply.headers)) == 1
    assert not {"retry-after", "www-authenticate"} & set(refusal(InputError("no"), "r").headers)
