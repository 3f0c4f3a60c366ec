"""Lists of the dashboard page by page: requests through a filter, and sessions."""

import re
import time

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.dashboard import requests
from millgate.service.dashboard.requests import Filter
from millgate.service.dashboard.window import list_sessions
from millgate.testing.samples import trace as sample
from millgate.types import TraceSummary


def row(id="t1", **more):
    made = TraceSummary.of(sample(id))
    return type(made)(**({name: getattr(made, name) for name in made.__slots__} | more))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, True),
        ({"q": "WHO T1"}, True),
        ({"q": "who nobody"}, False),
        ({"session": "s"}, True),
        ({"session": "other"}, False),
        ({"collection": "docs"}, True),
        ({"collection": "doc"}, False),
        ({"kind": "call"}, False),
        ({"kind": "context"}, True),
        ({"kind": "degraded"}, False),
        ({"kind": "skipped"}, False),
        ({"kind": "cut"}, False),
    ],
)
def test_a_filter_lets_through_what_it_names(asked, found):
    assert Filter(**asked).matches(row(session="s", collection="main, docs")) is found


@pytest.mark.parametrize(("kind", "more"), [("call", {"outcome": "clean"}), ("cut", {"outcome": "recovered"}), ("skipped", {"skip": True}), ("degraded", {"degraded": ("late",)})])  # fmt: skip
def test_each_kind_has_rows_of_its_own(kind, more):
    assert Filter(kind=kind).matches(row(**more))
    assert Filter(kind="context").matches(row(**more)) is ("outcome" not in more)


def test_sessions_count_their_calls_and_contexts_and_begin_with_the_first_question():
    rows = [row("c", session="s", created=3.0, outcome="clean"), row("e", session="s", created=2.5, outcome="ended"), row("b", session="s", created=2.0), row("a", session="s", query="first?", created=1.0), row("x", session="t", created=0.5)]  # fmt: skip
    first, second = list_sessions(rows)
    assert (first.name, first.calls, first.contexts, first.last, first.query) == ("s", 1, 2, 3.0, "first?")  # fmt: skip
    assert (second.name, second.calls, second.contexts) == ("t", 0, 1)


async def page(gate, address):
    async with connected(create(gate)) as client:
        return (await client.get(f"/dashboard{address}")).text


async def test_requests_are_shown_page_by_page(monkeypatch):
    monkeypatch.setattr(requests, "ROWS", 2)
    now = time.time()
    with Millgate.open(":memory:") as gate:
        for n in range(5):
            gate.save_trace(sample(f"trace{n}", tenant="default", created=now + n))
        pages = [await page(gate, f"/requests?page={n}") for n in (1, 2, 3)]
        four = await page(gate, "/requests?page=2&q=trace&kind=context")
    shown = [sorted(set(re.findall(r"trace\d", one))) for one in pages]
    assert shown == [["trace3", "trace4"], ["trace1", "trace2"], ["trace0"]]
    assert [("Newer" in one, "Older" in one) for one in pages] == [(False, True), (True, True), (True, False)]  # fmt: skip
    assert "5 found" in four
