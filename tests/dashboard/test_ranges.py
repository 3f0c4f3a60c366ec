"""The requests of a range in buckets of time, and what is said if there are more."""

import time

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
def test_without_a_choice_it_is_the_shortest_range_that_has_a_request(gate, ages, span):
    save(gate, *ages)
    shown = read_range(gate, "", NOW)
    assert shown.span == span
    assert bool(shown.rows) is bool(ages)


@pytest.mark.parametrize(("span", "found"), [("hour", 1), ("day", 2), ("week", 3), ("all", 4)])
def test_a_range_holds_its_requests_and_counts_each_once(gate, span, found):
    save(gate, 60, 7200, 200_000, 900_000)
    shown = read_range(gate, span, NOW)
    assert len(shown.rows) == sum(map(len, shown.split())) == found
    assert shown.filled
    assert shown.begins[0] <= shown.rows[-1].created <= NOW <= shown.end
    assert (shown.moments[0], shown.moments[-1]) == (shown.begins[0], shown.end)


async def test_a_range_with_more_requests_than_are_read_says_so(gate, monkeypatch):
    monkeypatch.setattr(ranges, "READ", 3)
    save(gate, 1, 2, 3, 4, 7200)
    async with connected(create(gate)) as client:
        page = (await client.get("/dashboard/health?span=hour")).text
    assert "Only the newest 3 requests are counted" in page
