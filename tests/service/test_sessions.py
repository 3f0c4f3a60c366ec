"""/v1/sessions: what was spent, and resuming what is paused, by those who may."""

import pytest
from tests.service.calls import MODEL, broken_session
from tests.service.clients import connected

from millgate.errors import PausedError
from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.settings import Settings
from millgate.types import Amount

KEPT = {"age_s": None}  # the traces are of a day that is long over
FUSE = {"caps": {"session": {"tokens": 100}, "tenant": {"tokens": 10_000}}}


@pytest.fixture
def gate():
    with Millgate.open(settings=Settings(store=":memory:", fuse=FUSE, trace=KEPT)) as gate:
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


@pytest.fixture
def traced(gate):
    for trace in broken_session():
        gate.save_trace(trace)
    for trace in broken_session(session="other/one", now=1_763_100_000.0, key="k2"):
        gate.save_trace(trace)


async def test_a_session_tells_what_it_read_what_broke_and_what_it_cost(client, traced):
    found = (await client.get("/v1/sessions/other/one")).json()
    total = found["total"]
    assert (total["calls"], total["breaks"]) == (11, 3)
    assert total["read"] == 381_100 - 800
    assert total["blamed"] == {"client": 2, "time": 1}
    assert found["models"] == {MODEL: total}
    assert [row["blame"] for row in found["breaks"]] == ["client", "time", "client"]
    first = found["breaks"][-1]
    assert first["reason"] == "message 4 (result of Read src/parser.py) was changed"
    assert first["cost"] == pytest.approx(first["lost"] * 5.75e-6)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("session", {"parser", "other/one"}),
        ("model", {MODEL}),
        ("key", {"k1", "k2"}),
        ("day", {"2025-11-13", "2025-11-14"}),
    ],
)
async def test_costs_are_added_up(client, traced, by, names):
    found = (await client.get("/v1/sessions/costs", params={"by": by})).json()["costs"]
    assert set(found) == names
    assert sum(one["calls"] for one in found.values()) == 22
    late = await client.get("/v1/sessions/costs", params={"by": by, "since": 1_763_099_999})
    assert sum(one["calls"] for one in late.json()["costs"].values()) == 11


async def test_a_session_without_calls_is_not_found(client, traced):
    assert (await client.get("/v1/sessions/nobody")).status_code == 404
