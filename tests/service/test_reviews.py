"""/v1/reviews: who decided, which decision, and how many are listed."""

import pytest
from tests.service.clients import connected

from millgate.service.app import create


@pytest.fixture
def asked(gate):
    return [gate.reviews.ask(f"why {n}?", collection="main", grades={}, reason="a test").id for n in range(3)]  # fmt: skip


async def test_a_decision_is_signed_by_who_is_named_else_by_the_key(gate, asked):
    made = gate.keys.create(["review"])
    async with connected(create(gate), key=made.token) as client:
        named = (await client.post(f"/v1/reviews/{asked[0]}", json={"status": "rejected", "who": "ann"})).json()  # fmt: skip
        keyed = (await client.post(f"/v1/reviews/{asked[1]}", json={"status": "approved"})).json()
    assert (named["review"]["who"], named["review"]["status"]) == ("ann", "rejected")
    assert (keyed["review"]["who"], keyed["review"]["status"]) == (made.key.id, "approved")


async def test_the_list_has_a_limit_and_can_show_one_status(client, gate, asked):
    gate.reviews.reject(asked[0], who="ann")
    listed = (await client.get("/v1/reviews", params={"limit": 2})).json()["reviews"]
    assert [row["id"] for row in listed] == asked[:2]
    waiting = (await client.get("/v1/reviews", params={"status": "pending"})).json()["reviews"]
    assert [row["id"] for row in waiting] == asked[1:]


async def test_an_answer_becomes_a_fact_that_can_be_seen_first(client, gate, asked):
    draft = (await client.post(f"/v1/reviews/{asked[2]}/draft", json={"answer": "Since it is so."})).json()  # fmt: skip
    assert "Since it is so." in draft["content"]
    assert gate.facts.all() == []
    done = (await client.post(f"/v1/reviews/{asked[2]}", json={"status": "answered", "answer": "Since it is so."})).json()  # fmt: skip
    assert done["review"]["status"] == "answered"
    assert len(gate.facts.all()) == 1
