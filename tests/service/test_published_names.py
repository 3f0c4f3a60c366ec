"""Names of the published design that clients, dashboards and scripts already use."""

from tests.service.clients import connected

from millgate.service.app import create
from millgate.text.fingerprint import WindowFingerprint

PUBLISHED = {
    "query": "how do refunds work?",
    "cwd": "/home/me/shop",
    "session_id": "s1",
    "max_tokens": 300,
    "k_rag": 2,
    "current_window_text": "Parcels are sent by rail within two days.",
    "current_window_blocks": None,
    "current_window_fingerprint": None,
    "enable_self_ref_penalty": True,
    "include_graph": True,
}


async def test_the_published_request_gets_the_published_answer(client):
    answer = await client.post("/v1/context", json=PUBLISHED | {"debug": True})
    assert answer.status_code == 200
    data = answer.json()
    for name in ("text", "chunks", "admissibility_token", "graph_context", "token_estimate"):
        assert name in data
    for name in ("sources", "latency_ms", "expansion_triggered"):
        assert name in data
    for name in ("self_ref_penalty_applied", "overlap_ratio", "original_score", "adjusted_score"):
        assert name in data["chunks"][0]


async def test_a_window_payload_without_a_version_is_read(client):
    payload = WindowFingerprint.of(["Refunds are paid within 14 days to the card."]).to_json()
    del payload["version"]
    body = {"query": "how do refunds work?", "current_window_fingerprint": payload}
    answer = await client.post("/v1/context", json=body)
    assert "refunds" not in [chunk["id"] for chunk in answer.json()["chunks"]]


async def test_reviews_are_found_under_their_published_name(gate):
    gate.reviews.ask("who founded the shop?", collection="main", grades={}, reason="asked")
    async with connected(create(gate)) as client:
        (listed,) = (await client.get("/v1/hitl_sessions")).json()["reviews"]
        assert (await client.get("/v1/reviews")).json()["reviews"] == [listed]
        path = f"/v1/hitl_sessions/{listed['id']}"
        assert (await client.get(path)).json() == listed
        decided = await client.post(path, json={"status": "answered", "answer": "Maria Lund."})
        assert decided.json()["review"]["status"] == "answered"


async def test_metrics_come_under_their_published_prefix(client):
    await client.post("/v1/context", json=PUBLISHED)
    ours = (await client.get("/metrics")).text
    published = (await client.get("/metrics", params={"prefix": "context_gateway"})).text
    assert "millgate_selfref_candidates_total" in ours
    assert "context_gateway_selfref_candidates_total" in published
    assert "# TYPE context_gateway_selfref_overlap_ratio histogram" in published
    assert "millgate_" not in published
    assert (await client.get("/metrics", params={"prefix": "x"})).status_code == 422
