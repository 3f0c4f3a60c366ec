"""/v1/sessions: what was spent, and resuming what is paused, by those who may."""

import pytest
from tests.service.clients import connected

from headgate.errors import PausedError
from headgate.gateway import Headgate
from headgate.service.app import create
from headgate.settings import Settings
from headgate.types import Amount

FUSE = {"caps": {"session": {"tokens": 100}, "tenant": {"tokens": 10_000}}}


@pytest.fixture
def gate():
    with Headgate.open(settings=Settings(store=":memory:", fuse=FUSE)) as gate:
        book = gate.spending
        for session in ("a", "b"):
            book.settle(book.hold(session, "", Amount(100)), Amount(60 if session == "a" else 120))
        assert isinstance(book.hold("b", "", Amount(1)).refusal, PausedError)
        yield gate


@pytest.fixture
def app(gate):
    return create(gate)


async def test_sessions_are_listed_with_their_reading(client):
    found = (await client.get("/v1/sessions", params={"scope": "session"})).json()["sessions"]
    states = {row["spend"]["name"]: row["reading"]["state"] for row in found}
    assert states == {"a": "open", "b": "paused"}
    everything = (await client.get("/v1/sessions")).json()["sessions"]
    assert sorted(row["spend"]["scope"] for row in everything) == ["session", "session", "tenant"]


async def test_a_paused_session_is_resumed(client, gate):
    reply = await client.post("/v1/sessions/resume", json={"name": "b"})
    assert reply.status_code == 200
    assert reply.json()["paused"] is None
    assert gate.spending.hold("b", "", Amount(1)).refusal is None


async def test_an_unknown_session_is_not_found(client):
    reply = await client.post("/v1/sessions/resume", json={"name": "nobody"})
    assert reply.status_code == 404
    assert "there is no session 'nobody'" in reply.json()["detail"]


async def test_resuming_needs_a_reviewer_of_the_same_tenant(gate, app):
    read = gate.keys.create(["read"]).token
    foreign = gate.for_tenant("u").keys.create(["review"]).token
    async with connected(app, key=read) as client:
        assert (await client.post("/v1/sessions/resume", json={"name": "b"})).status_code == 403
    async with connected(app, key=foreign) as client:
        assert (await client.post("/v1/sessions/resume", json={"name": "b"})).status_code == 404
