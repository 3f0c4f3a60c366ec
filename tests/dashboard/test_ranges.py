"""The requests of a range: which are read, into which buckets they fall, and what is said if there are more."""

import time
from dataclasses import replace

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.dashboard import ranges
from millgate.service.dashboard.ranges import read_range
from millgate.testing.samples import trace as sample

NOW = time.time()


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        yield gate


def save(gate, *ages):
    for number, age in enumerate(sorted(ages, reverse=True)):
        gate.save_trace(sample(f"t{number}", tenant="default", created=NOW - age))


@pytest.mark.parametrize(
    ("ages", "span"),
    [((), "all"), ((5,), "hour"), ((7200,), "day"), ((200_000, 900_000), "week"), ((900_000,), "all")],
)  # fmt: skip
async def test_without_a_choice_it_is_the_shortest_range_that_has_a_request(gate, ages, span):
    save(gate, *ages)
    shown = await read_range(gate, "", NOW)
    assert shown.span == span
    assert bool(shown.rows) is bool(ages)


@pytest.mark.parametrize(("span", "found"), [("hour", 1), ("day", 2), ("week", 3), ("all", 4)])
async def test_a_range_holds_its_requests_and_counts_each_once(gate, span, found):
    save(gate, 60, 7200, 200_000, 900_000)
    shown = await read_range(gate, span, NOW)
    assert len(shown.rows) == sum(map(len, shown.split())) == found
    assert shown.filled
    assert shown.edges[0][0] <= shown.rows[-1].created <= NOW <= shown.edges[-1][1]
    assert (shown.moments[0], shown.moments[-1]) == (shown.edges[0][0], shown.edges[-1][1])


async def test_few_rows_are_read_at_first_and_more_only_while_they_are_of_the_range(
    gate, monkeypatch
):
    monkeypatch.setattr(ranges, "_FIRST", 2)
    monkeypatch.setattr(ranges, "_MORE", 2)
    save(gate, 1, 2, 3, 4, 7200)
    asked = []
    read = gate.atraces

    async def noted(*, limit):
        asked.append(limit)
        return await read(limit=limit)

    monkeypatch.setattr(type(gate), "atraces", lambda _, **given: noted(**given))
    assert len((await read_range(gate, "hour", NOW)).rows) == 4
    assert asked == [2, 4, 8]


async def test_a_range_with_more_requests_than_are_read_says_so(gate, monkeypatch):
    monkeypatch.setattr(ranges, "READ", 3)
    monkeypatch.setattr(ranges, "_FIRST", 3)
    save(gate, 1, 2, 3, 4, 7200)
    assert (await read_range(gate, "hour", NOW)).cut
    async with connected(create(gate)) as client:
        page = (await client.get("/dashboard/health?span=hour")).text
    assert "Only the newest 3 requests are counted" in page


async def test_totals_of_streams_are_over_the_range_and_not_over_the_calls_shown(gate, monkeypatch):
    from tests.service.calls import broken_session

    from millgate.service.dashboard import streams

    monkeypatch.setattr(streams, "CALLS", 2)
    calls = list(broken_session(now=NOW - 600))
    for call in calls:
        gate.save_trace(replace(call, created=NOW - 60))
    async with connected(create(gate)) as client:
        page = (await client.get("/dashboard/streams")).text
    assert f"<dt>model calls</dt><dd>{len(calls)}</dd>" in page
    assert f"The last 2 of {len(calls)}" in page
