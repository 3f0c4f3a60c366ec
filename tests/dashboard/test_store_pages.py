"""The pages of the store on little, on bad input, and for callers who may not: without a browser."""

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
        ("store", "Nothing is stored yet"),
        ("store/facts", "No fact is remembered yet"),
        ("store/graph", "no edges yet"),
        ("store/graph?node=nobody", "No edge touches nobody"),
        ("store/reviews", "No review is pending"),
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
        ("store/collection?name=nobody", 404),
        ("store/collection", 422),
        ("store/collection?name=main&page=0", 422),
        ("store/document?collection=main&id=nobody", 404),
        ("store/remove?collection=main&chunk=nobody", 404),
        ("store/facts/nobody", 404),
        ("store/facts/nobody/forget", 404),
        ("store/reviews/nobody", 404),
        ("store/reviews?status=other", 422),
        ("store/graph?node=x&hops=9", 422),
        ("health?span=year", 422),
    ],
)
async def test_what_cannot_be_shown_is_a_page_that_says_why(gate, client, path, status):
    gate.add([{"id": "a", "text": "one"}])
    answer = await client.get(f"/dashboard/{path}")
    assert answer.status_code == status
    assert 'role="alert"' in answer.text


@pytest.mark.parametrize(("page", "first", "last", "more"), [(1, 0, 49, True), (2, 50, 99, True), (3, 100, 119, False)])  # fmt: skip
async def test_a_long_document_is_shown_a_page_at_a_time(gate, client, page, first, last, more):
    log = "".join(f"user: turn number {n}\n" for n in range(120))
    gate.add([{"id": "log", "title": "The log", "text": log}])
    answer = await client.get(f"/dashboard/store/document?collection=main&id=log&page={page}")
    shown = [int(n) for n in re.findall(r"turn number (\d+)", answer.text)]
    assert shown == list(range(first, last + 1))
    assert "<h1>The log</h1>" in answer.text
    assert "120 chunks, 2,410 characters" in answer.text
    assert (f"page={page + 1}" in answer.text) is more


async def test_a_removal_names_how_many_chunks_go_and_shows_the_first(gate, client):
    log = "".join(f"user: turn number {n}\n" for n in range(120))
    gate.add([{"id": "log", "text": log}, {"id": "other", "text": "nothing"}])
    for named, count in (("&document=log", "120 chunks"), ("&chunk=other", "1 chunk"), ("", "121 chunks")):  # fmt: skip
        answer = await client.get(f"/dashboard/store/remove?collection=main{named}")
        assert f"will be gone: {count}." in answer.text
        assert ("turn number 0" in answer.text) is ("log" in named)
    missing = await client.get("/dashboard/store/remove?collection=main&document=nobody")
    assert missing.status_code == 404


@pytest.mark.parametrize("path", ["remove", "facts/f/feedback", "facts/f/forget", "reviews/r"])
async def test_a_change_without_the_token_of_a_page_is_refused(gate, client, path):
    gate.add([{"id": "a", "text": "one"}])
    answer = await client.post(f"/dashboard/store/{path}", content="collection=main&csrf=guess")
    assert answer.status_code == 403
    assert gate.collections()["main"].chunks == 1


async def test_a_change_that_makes_no_sense_changes_nothing(gate, client):
    fact = gate.remember("Refunds take 14 days.").fact
    asked = gate.reviews.ask("who?", collection="main", grades={}, reason="unsure")
    token = await form(client, "/dashboard/store/facts")
    sent = {
        f"facts/{fact.id}/feedback": "opinion=perhaps",
        f"reviews/{asked.id}": "status=expired",
        "remove": "collection=nobody",
    }
    for path, fields in sent.items():
        answer = await client.post(f"/dashboard/store/{path}", content=f"csrf={token}&{fields}")
        assert answer.status_code in (404, 422), path
    empty = await client.post(f"/dashboard/store/reviews/{asked.id}", content=f"csrf={token}&status=answered&answer=+")  # fmt: skip
    assert empty.status_code == 422
    assert gate.facts.get(fact.id).trust == fact.trust
    assert gate.reviews.review(asked.id).status == "pending"


async def test_a_review_is_decided_once(gate, client):
    asked = gate.reviews.ask("who?", collection="main", grades={}, reason="unsure")
    path = f"/dashboard/store/reviews/{asked.id}"
    token = await form(client, path)
    assert (await client.post(path, content=f"csrf={token}&status=approved")).status_code == 303
    again = await client.post(path, content=f"csrf={token}&status=rejected")
    assert again.status_code == 422
    assert "already approved" in again.text


async def test_a_revoked_key_changes_nothing_and_leads_to_the_sign_in_page(gate):
    gate.add([{"id": "a", "text": "one"}])
    gate.keys.create(["read"])
    made = gate.keys.create(["read", "write"])
    app = create(gate)
    async with connected(app) as client:
        token = await app.state.service.auth.signed_in.begin(made.key.digest)
        gate.keys.revoke(made.key.id)
        client.headers["cookie"] = f"millgate_session={token}"
        answer = await client.post("/dashboard/store/remove", content="collection=main")
    assert answer.status_code == 401
    assert "API key" in answer.text
    assert gate.collections()["main"].chunks == 1


async def test_a_tenant_sees_and_removes_only_what_is_its_own(gate):
    gate.add([{"id": "a", "text": "ours alone"}])
    fact = gate.remember("Ours alone.").fact
    asked = gate.reviews.ask("ours?", collection="main", grades={}, reason="unsure")
    made = gate.for_tenant("other").keys.create(["admin"])
    app = create(gate)
    async with connected(app) as client:
        token = await app.state.service.auth.signed_in.begin(made.key.digest)
        client.headers["cookie"] = f"millgate_session={token}"
        for path in ("store", "store/facts", "store/reviews", "store/graph", "health"):
            answer = await client.get(f"/dashboard/{path}")
            assert answer.status_code == 200
            assert "ours" not in answer.text.lower()
        token = await form(client, "/dashboard/store")
        for path in ("remove", f"facts/{fact.id}/forget", f"reviews/{asked.id}"):
            answer = await client.post(f"/dashboard/store/{path}", content=f"csrf={token}&collection=main&status=approved")  # fmt: skip
            assert answer.status_code == 404, path
    assert gate.document("a")
    assert gate.facts.get(fact.id)
    assert gate.reviews.review(asked.id).status == "pending"
