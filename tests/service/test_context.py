"""POST /v1/context and /v1/strategy: the library's answers over HTTP."""

import pytest


async def test_a_question_gets_its_context(client):
    answer = await client.post("/v1/context", json={"query": "how do refunds work?"})
    assert answer.status_code == 200
    told = answer.json()
    assert "within 14 days" in told["text"]
    assert told["chunks"][0]["id"] == "refunds"
    assert told["token_estimate"] <= 500
    assert len(answer.headers["x-request-id"]) == 32


async def test_the_callers_request_id_is_kept_where_it_is_one(client):
    kept = await client.get("/healthz", headers={"x-request-id": "abc-1"})
    made = await client.get("/healthz", headers={"x-request-id": "a b\tc"})
    assert kept.headers["x-request-id"] == "abc-1"
    assert len(made.headers["x-request-id"]) == 32


async def test_debug_adds_the_numbers_behind_each_chunk(client):
    told = (await client.post("/v1/context", json={"query": "refunds", "debug": True})).json()
    assert told["chunks"][0]["original_score"] >= told["chunks"][0]["adjusted_score"]
    assert told["expansion_triggered"] in (True, False)


async def test_a_full_window_asks_for_nothing(client):
    body = {"query": "refunds", "context_length": 1000, "used_tokens": 990}
    told = (await client.post("/v1/context", json=body)).json()
    assert told["text"] == ""


async def test_strategy_gives_the_librarys_verdict(client):
    body = {"query": "what is a refund?", "char_count": 4000}
    told = (await client.post("/v1/strategy", json=body)).json()
    assert told["strategy"] == "HYBRID"
    assert told["content_tokens"] == 1000
    assert told["tier"] == "STUFF"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
async def test_what_a_balancer_reads_is_open(client, path):
    assert (await client.get(path)).status_code == 200
