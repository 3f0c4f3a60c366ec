"""Lists of the dashboard page by page: requests through a filter, chunks in reading order, and health by time."""

import re
import time

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.dashboard import requests, store
from millgate.service.dashboard.requests import Filter
from millgate.service.dashboard.store import _browse, _search
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


@pytest.mark.parametrize("few", [100, 0])
def test_chunks_are_browsed_in_reading_order_from_the_store_or_the_index(monkeypatch, few):
    monkeypatch.setattr(store, "ROWS", 2)
    monkeypatch.setattr(store, "FEW", few)
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": f"r{n}", "text": f"Row {n} tells of the harbor."} for n in range(4)])
        gate.index()
        listings = [_browse(gate, "main", start) for start in (0, 2, 4)]
    assert [[chunk.id for chunk in one.chunks] for one in listings] == [["r0", "r1"], ["r2", "r3"], []]  # fmt: skip
    assert [one.more for one in listings] == [True, False, False]


def test_an_id_that_is_pasted_in_stands_first_and_once(monkeypatch):
    monkeypatch.setattr(store, "ROWS", 2)
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": f"harbor{n}", "text": f"Row {n} tells of harbor{n} and the harbor."} for n in range(4)])  # fmt: skip
        found = _search(gate, "main", " harbor2 ", wait=True)
        words = _search(gate, "main", "the harbor", wait=True)
    assert (found.chunks[0].id, found.scores[0]) == ("harbor2", 1.0)
    assert [chunk.id for chunk in found.chunks].count("harbor2") == 1
    assert len(found.chunks) <= 2
    assert len(words.chunks) == len(words.scores) == 2
