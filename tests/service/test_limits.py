"""Every limit names itself; too much at once is 429 with the time to wait."""

import asyncio

import pytest
from tests.service.clients import connected

from millgate.errors import BusyError
from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.edge import limits as limits_module
from millgate.service.edge.limits import CallerLimits
from millgate.service.observe.request_state import Caller
from millgate.settings import Settings
from millgate.testing import FixedClock
from millgate.types.policy import ServicePolicy


def caller(key, tenant="t"):
    return Caller(tenant, frozenset({"read"}), key)


SMALL = {"query_chars": 50, "window_chars": 100, "window_blocks": 3, "budget": 200, "k": 10}


@pytest.fixture
async def small():
    settings = Settings(store=":memory:", limits=SMALL, service={"body_bytes": 5000})
    with Millgate.open(settings=settings) as gate:
        async with connected(create(gate)) as client:
            yield client


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({"query": "x" * 51}, "limits.query_chars"),
        ({"query": "x", "current_window_text": "y" * 101}, "limits.window_chars"),
        ({"query": "x", "current_window_blocks": ["y"] * 4}, "limits.window_blocks"),
        ({"query": "x", "max_tokens": 201}, "limits.budget"),
        ({"query": "x", "max_tokens": 100, "k_rag": 11}, "limits.k"),
        ({"query": "x" * 6000}, "service.body_bytes"),
    ],
)
async def test_each_limit_names_itself(small, body, limit):
    answer = await small.post("/v1/context", json=body)
    assert answer.status_code == 413
    assert limit in answer.json()["hint"]


async def test_a_body_without_a_length_is_counted_as_it_comes(small):
    async def endless():
        while True:
            yield b"x" * 1000

    answer = await small.post("/v1/context", content=endless())
    assert answer.status_code == 413


async def test_the_strategy_of_too_long_a_query_is_refused(small):
    answer = await small.post("/v1/strategy", json={"query": "x" * 51})
    assert (answer.status_code, answer.json()["hint"]) == (413, "the limit is set by limits.query_chars")  # fmt: skip


def test_the_description_tells_the_limits_in_force():
    with Millgate.open(settings=Settings(store=":memory:", limits=SMALL)) as gate:
        asked = create(gate).openapi()["components"]["schemas"]["ContextIn"]["properties"]
    assert asked["budget"]["maximum"] == 200
    assert asked["query"]["maxLength"] == 50


def test_a_bucket_fills_at_its_rate_up_to_its_burst():
    clock = FixedClock(0.0)
    limits = CallerLimits(ServicePolicy(rate=60, burst=2), clock=clock)

    def ask(key="a"):
        with limits.hold(caller(key)):
            pass

    ask(), ask(), ask("b")
    with pytest.raises(BusyError, match=r"service\.rate") as refused:
        ask()
    assert refused.value.retry_after == pytest.approx(1.0)
    clock.advance(1.0)
    ask()
    clock.advance(1000.0)
    ask(), ask()
    with pytest.raises(BusyError):
        ask()


def test_each_tenant_has_its_own_bucket_for_a_key_of_the_same_id():
    limits = CallerLimits(ServicePolicy(rate=60, burst=1), clock=FixedClock(0.0))
    with limits.hold(caller("a")):
        pass
    with pytest.raises(BusyError), limits.hold(caller("a")):
        pass
    with limits.hold(caller("a", tenant="u")):
        pass


def test_of_many_callers_those_that_asked_longest_ago_start_anew(monkeypatch):
    monkeypatch.setattr(limits_module, "MAX_BUCKETS", 2)
    limits = CallerLimits(ServicePolicy(rate=60, burst=1), clock=FixedClock(0.0))
    for key in ("a", "b", "c", "a"):
        with limits.hold(caller(key)):
            pass
    with pytest.raises(BusyError), limits.hold(caller("c")):
        pass


def test_callers_without_a_key_are_not_limited_by_rate():
    limits = CallerLimits(ServicePolicy(rate=1, burst=1), clock=FixedClock(0.0))
    for _ in range(5):
        with limits.hold(caller("")):
            pass


def test_what_is_under_way_is_counted_and_let_go():
    limits = CallerLimits(ServicePolicy(concurrency=1))
    with limits.hold(caller("a")), limits.hold(caller("b")):  # noqa: SIM117
        with pytest.raises(BusyError, match=r"service\.concurrency"), limits.hold(caller("a")):
            pass
    with limits.hold(caller("a")):
        pass


async def test_too_much_is_429_with_the_time_to_wait():
    settings = Settings(store=":memory:", service={"rate": 1, "burst": 1})
    with Millgate.open(settings=settings) as gate:
        made = gate.keys.create(["read"])
        async with connected(create(gate), key=made.token) as client:
            first, second = await asyncio.gather(
                client.get("/v1/documents"), client.get("/v1/documents")
            )
    assert sorted((first.status_code, second.status_code)) == [200, 429]
    refused = first if first.status_code == 429 else second
    assert 1 <= int(refused.headers["retry-after"]) <= 60


def test_streams_do_not_shut_the_services_own_routes():
    limits = CallerLimits(ServicePolicy(concurrency=1))
    caller = Caller("default", frozenset({"read"}))
    with limits.hold(caller, proxied=True), limits.hold(caller):
        with pytest.raises(BusyError), limits.hold(caller, proxied=True):
            pass
        with pytest.raises(BusyError), limits.hold(caller):
            pass


async def test_the_strategy_of_a_query_of_the_longest_length_is_given(small):
    assert (await small.post("/v1/strategy", json={"query": "x" * 50})).status_code == 200
    empty = await small.post("/v1/strategy", json={"query": "\x1c"})  # blank to Python alone
    assert (empty.status_code, empty.json()["detail"]) == (422, "body.query: it is blank")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/documents", {"documents": [{"text": "words"}]}),
        ("/v1/turns", {"session": "monday", "messages": ["words"]}),
    ],
)
async def test_a_collection_that_cannot_be_written_to_is_refused_whole(small, path, body):
    refused = await small.post(path, json={**body, "collection": "two\nlines"})
    assert refused.status_code == 422
    assert refused.json()["detail"] == "body.collection: it holds a control character"
