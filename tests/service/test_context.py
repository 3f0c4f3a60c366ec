"""POST /v1/context and /v1/strategy: the library's answers over HTTP."""

import orjson
import pytest

from millgate.text.fingerprint import WindowFingerprint


async def test_a_question_gets_its_context(client):
    answer = await client.post("/v1/context", json={"query": "how do refunds work?"})
    assert answer.status_code == 200
    told = answer.json()
    assert "within 14 days" in told["text"]
    assert told["chunks"][0]["id"] == "refunds"
    assert told["token_estimate"] <= 500
    assert len(answer.headers["x-request-id"]) == 32


async def test_the_answer_tells_its_verdict_and_the_confidence_in_each_chunk(client):
    told = (await client.post("/v1/context", json={"query": "how are refunds paid?"})).json()
    assert told["verdict"] == "correct"
    assert told["confidences"].keys() == {chunk["id"] for chunk in told["chunks"]}
    assert told["confidences"]["refunds"] == max(told["confidences"].values())
    other = (await client.post("/v1/context", json={"query": "xylophone quartz lamps?"})).json()
    assert (other["verdict"], other["confidences"], other["text"]) == ("incorrect", {}, "")


async def test_a_floor_can_be_set_for_one_request(client):
    def shown(floor):
        body = {"query": "how are refunds paid within days?", "floor": floor}
        return client.post("/v1/context", json=body)

    whole, least = (await shown(0)).json(), (await shown(1)).json()
    assert {c["id"] for c in least["chunks"]} <= {c["id"] for c in whole["chunks"]}
    assert least["chunks"]
    assert (await shown(1.5)).status_code == 422


async def test_the_callers_request_id_is_kept_if_it_is_one(client):
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


async def test_the_answer_tells_limit_trust_and_skip(client):
    def body(used):
        return {"query": "refunds", "context_length": 1000, "used_tokens": used}

    plan = (await client.post("/v1/context", json=body(100))).json()["plan"]
    assert (plan["tier"], plan["limit"], plan["min_trust"], plan["skip"]) == (
        "stuff",
        15,
        0.2,
        False,
    )
    plan = (await client.post("/v1/context", json=body(990))).json()["plan"]
    assert (plan["limit"], plan["min_trust"], plan["skip"]) == (0, 1.0, True)
    plan = (await client.post("/v1/context", json={"query": "refunds"})).json()["plan"]
    assert (plan["limit"], plan["min_trust"], plan["skip"]) == (None, None, False)


async def test_strategy_tells_limit_trust_and_skip(client):
    body = {"query": "x", "model_context_length": 1000, "used_tokens": 800}
    told = (await client.post("/v1/strategy", json=body)).json()
    assert (told["tier"], told["limit"], told["min_trust"], told["skip"]) == (
        "SELECTIVE",
        2,
        0.5,
        False,
    )
    told = (await client.post("/v1/strategy", json={**body, "used_tokens": 990})).json()
    assert (told["limit"], told["min_trust"], told["skip"]) == (0, 1.0, True)


async def test_of_several_collections_those_that_hold_nothing_are_named(client):
    body = {"query": "how long do refunds take?", "collection": ["main", "mian", "x"]}
    told = (await client.post("/v1/context", json=body)).json()
    assert told["text"]
    assert told["fallback_reason"] == "nothing is in collection mian, x"
    told = (await client.post("/v1/context", json=body | {"collection": ["mian", "x"]})).json()
    assert told["fallback_reason"] == "nothing is in collection mian (did you mean main?), x"


async def test_what_is_injected_keeps_the_reserve_free(client, gate):
    codes = [" ".join(f"{n * 7919 + i * 104729:x}" for i in range(40)) for n in range(60)]
    gate.add([{"id": f"d{n}", "text": f"A refund is paid by {codes[n]}."} for n in range(60)])
    body = {"query": "how is a refund paid?", "max_tokens": 3000, "k_rag": 100, "floor": 0}
    window_size = {"context_length": 8000, "used_tokens": 5000}
    free = (await client.post("/v1/context", json=body)).json()["token_estimate"]
    told = (await client.post("/v1/context", json=body | window_size)).json()
    assert free > 2500
    assert 500 < told["token_estimate"] <= 1000
    assert told["plan"]["budget"] == 1000


async def test_the_eviction_report_comes_when_asked_for_with_each_reason_once(client, gate):
    gate.add(
        [{"id": f"document-{n:04}", "text": f"Refund {n} goes to card {n}."} for n in range(80)]
    )
    body = {"query": "how are refunds paid?", "k": 5}
    assert "report" not in (await client.post("/v1/context", json=body)).json()
    answer = await client.post("/v1/context", json=body | {"include_report": True})
    report = answer.json()["report"]
    evicted = [id for ids in report["evicted_by"].values() for id in ids]
    assert len(evicted) == len(set(evicted)) == report["evicted"] > 50
    assert sorted(evicted) == sorted(report["evicted_ids"]) == sorted(report["reasons"])
    assert len(orjson.dumps(report)) < 130 * report["evicted"] + 300


MESSAGES = [
    {"role": "user", "content": "My sister Ann moved to Lisbon last spring, to the old town."},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "How does Ann like Lisbon so far?"}],
    },
    {"role": "user", "content": "She likes the trams of Lisbon, and the food."},
]


async def test_turns_are_kept_and_not_said_again_to_who_has_them(client):
    body = {"session_id": "monday", "messages": MESSAGES}
    added = (await client.post("/v1/turns", json=body)).json()
    assert (added["new"], len(added["ids"])) == (3, 3)
    assert (await client.post("/v1/turns", json=body)).json()["new"] == 0
    asked = {"query": "where did Ann move, to Lisbon?", "collection": "turns"}
    assert "old town" in (await client.post("/v1/context", json=asked)).json()["text"]
    seen = asked | {"current_window_blocks": MESSAGES}
    told = (await client.post("/v1/context", json=seen)).json()
    assert (told["text"], told["token_estimate"]) == ("", 0)


@pytest.mark.parametrize(
    "body", [{}, {"session_id": " ", "messages": []}, {"session_id": "s", "messages": [1]}]
)
async def test_turns_that_cannot_be_read_are_refused(client, body):
    assert (await client.post("/v1/turns", json=body)).status_code == 422


async def test_a_window_is_fingerprinted_and_the_fingerprint_serves_as_the_window(client):
    text = "Refunds are paid within 14 days to the card."
    made = await client.post("/v1/fingerprint", json={"current_window_text": text})
    assert made.json() == WindowFingerprint.of([text]).to_json()
    blocks = {"current_window_blocks": [{"role": "user", "content": text}, "more"], "sketch": False}
    plain = (await client.post("/v1/fingerprint", json=blocks)).json()
    assert plain == WindowFingerprint.of([text, "more"], sketch=False).to_json()
    for payload in (made.json(), plain, {k: v for k, v in plain.items() if k != "version"}):
        body = {"query": "how do refunds work?", "current_window_fingerprint": payload}
        told = (await client.post("/v1/context", json=body)).json()
        assert told["degraded"] == []
        assert "refunds" not in [chunk["id"] for chunk in told["chunks"]]


async def test_facts_are_changed(client, gate):
    fact = gate.remember("The build runs on Python 3.11.", tags=["ci"]).fact
    changes = {"content": "The build runs on Python 3.12.", "trust": 0.8, "category": "build"}
    told = (await client.patch(f"/v1/facts/{fact.id}", json=changes)).json()
    assert (told["content"], told["trust"], told["category"]) == (
        *list(changes.values())[:2],
        "build",
    )
    assert told["tags"] == ["ci"]
    assert (await client.patch("/v1/facts/nobody", json={"trust": 0.1})).status_code == 404
    assert (await client.patch(f"/v1/facts/{fact.id}", json={"trust": 2})).status_code == 422


async def test_facts_below_the_trust_floor_are_hidden(client, gate):
    gate.remember("The staging server is called Heron.", trust=0.9)
    gate.remember("The staging server is called Osprey.", trust=0.1)
    for path in ("/v1/facts", "/v1/facts?query=staging%20server"):

        def names(suffix="", path=path):
            return client.get(path + suffix)

        shown = (await names()).json()["facts"]
        assert [hit["fact"]["trust"] for hit in shown] == [0.9]
        joined = "&" if "?" in path else "?"
        every = (await names(f"{joined}min_trust=0")).json()["facts"]
        assert [hit["fact"]["trust"] for hit in every] == [0.9, 0.1]
