"""Reviews and health on little, on bad input, and for callers who may not: without a browser."""

import re

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        yield gate


@pytest.fixture
async def client(gate):
    async with connected(create(gate)) as client:
        yield client


async def form(client, path):
    """What a form of a page needs: its token, with the secret in the client's cookie."""
    page = await client.get(path)
    secret = re.search(r"millgate_csrf=[\w-]+", page.headers["set-cookie"])[0]
    kept = client.headers.get("cookie", "")
    client.headers["cookie"] = f"{kept}; {secret}" if kept else secret
    return re.search(r'name="csrf" value="(\w+)"', page.text)[1]


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("reviews", "No review is pending"),
        ("health", "No request yet"),
    ],
)
async def test_an_empty_store_says_so_on_every_page(client, path, says):
    answer = await client.get(f"/dashboard/{path}")
    assert answer.status_code == 200
    assert says in answer.text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("reviews/nobody", 404),
        ("reviews?status=other", 422),
        ("health?span=year", 422),
    ],
)
async def test_what_cannot_be_shown_is_a_page_that_says_why(gate, client, path, status):
    gate.add([{"id": "a", "text": "one"}])
    answer = await client.get(f"/dashboard/{path}")
    assert answer.status_code == status
    assert 'role="alert"' in answer.text


async def test_a_change_without_the_token_of_a_page_is_refused(gate, client):
    asked = gate.reviews.ask("who?", collection="main", grades={}, reason="unsure")
    answer = await client.post(f"/dashboard/reviews/{asked.id}", content="status=approved&csrf=guess")  # fmt: skip
    assert answer.status_code == 403
    assert gate.reviews.review(asked.id).status == "pending"


@pytest.mark.parametrize("fields", ["status=expired", "status=answered&answer=+"])
async def test_a_change_that_makes_no_sense_changes_nothing(gate, client, fields):
    asked = gate.reviews.ask("who?", collection="main", grades={}, reason="unsure")
    path = f"/dashboard/reviews/{asked.id}"
    token = await form(client, path)
    assert (await client.post(path, content=f"csrf={token}&{fields}")).status_code == 422
    assert gate.reviews.review(asked.id).status == "pending"


async def test_a_review_is_decided_once(gate, client):
    asked = gate.reviews.ask("who?", collection="main", grades={}, reason="unsure")
    path = f"/dashboard/reviews/{asked.id}"
    token = await form(client, path)
    assert (await client.post(path, content=f"csrf={token}&status=approved")).status_code == 303
    again = await client.post(path, content=f"csrf={token}&status=rejected")
    assert again.status_code == 422
    assert "already approved" in again.text


async def test_a_revoked_key_changes_nothing_and_leads_to_the_sign_in_page(gate):
    asked = gate.reviews.ask("who?", collection="main", grades={}, reason="unsure")
    gate.keys.create(["read"])
    made = gate.keys.create(["review"])
    app = create(gate)
    async with connected(app) as client:
        token = await app.state.service.auth.signed_in.begin(made.key.digest)
        gate.keys.revoke(made.key.id)
        client.headers["cookie"] = f"millgate_session={token}"
        answer = await client.post(f"/dashboard/reviews/{asked.id}", content="status=approved")
    assert answer.status_code == 401
    assert "API key" in answer.text
    assert gate.reviews.review(asked.id).status == "pending"


async def test_a_tenant_sees_and_decides_only_what_is_its_own(gate):
    asked = gate.reviews.ask("ours?", collection="main", grades={}, reason="unsure")
    gate.context("ours?", session="ours")
    made = gate.for_tenant("other").keys.create(["admin"])
    app = create(gate)
    async with connected(app) as client:
        token = await app.state.service.auth.signed_in.begin(made.key.digest)
        client.headers["cookie"] = f"millgate_session={token}"
        for path in ("", "requests", "costs", "reviews", "health"):
            answer = await client.get(f"/dashboard/{path}")
            assert answer.status_code == 200
            assert "ours" not in answer.text.lower().replace("hours", "")
        token = await form(client, "/dashboard/reviews")
        answer = await client.post(f"/dashboard/reviews/{asked.id}", content=f"csrf={token}&status=approved")  # fmt: skip
        assert answer.status_code == 404
    assert gate.reviews.review(asked.id).status == "pending"
