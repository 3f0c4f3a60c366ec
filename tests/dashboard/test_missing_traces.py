"""A trace that is gone or damaged costs its row in a list, and not the page."""

import sqlite3
import time
from dataclasses import replace

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.stores.sqlite.store import FILE
from millgate.stores.temporary import TemporaryStore
from millgate.testing.samples import trace as sample
from millgate.types import Step
from millgate.types.notes import Stage

LISTS = ["/requests", "/", "/?session=s"]


class PrunedAfterListing(TemporaryStore):
    """A store in which all but the newest trace go between the list and the reading."""

    def traces(self, tenant, *, limit=100):
        rows = super().traces(tenant, limit=limit)
        self.prune_traces(keep=1)
        return rows


def call(id, created):
    """The trace of a model call in the session s."""
    made = sample(id, tenant="default", created=created)
    steps = (
        Step(Stage.WINDOW, 0.0, facts={"tokens": 90, "user": 90}),
        Step(Stage.MODEL, 0.1, facts={"model": "small", "guard": "clean"}),
    )
    request = replace(made.request, session="s", query=f"question {id}")
    return replace(made, request=request, steps=steps)


def add_calls(gate):
    now = time.time()
    for n in range(3):
        gate.save_trace(call(f"call{n}", now + n))


async def page(gate, address):
    async with connected(create(gate)) as client:
        return await client.get(f"/dashboard{address}")


async def test_a_trace_pruned_after_it_was_listed_costs_its_row():
    for address in LISTS:
        with Millgate.open(store=PrunedAfterListing()) as gate:
            add_calls(gate)
            answer = await page(gate, address)
        assert answer.status_code == 200, (address, answer.text)
        assert "question call2" in answer.text, address
    assert "2 requests cannot be shown: no longer stored." in answer.text
    assert "1 turn of small" in answer.text


@pytest.mark.parametrize("column", ["body", "summary"])
async def test_one_damaged_trace_costs_its_row(tmp_path, column):
    with Millgate.open(tmp_path) as gate:
        add_calls(gate)
        assert len(gate.traces()) == 3
        raw = sqlite3.connect(tmp_path / FILE, isolation_level=None)
        raw.execute(f"UPDATE traces SET {column} = x'7b' WHERE id = 'call1'")
        raw.close()
        answers = {address: await page(gate, address) for address in LISTS}
        health = await page(gate, "/health")
        rows = gate.traces()
    assert health.status_code == 200
    for address, answer in answers.items():
        assert answer.status_code == 200, (address, answer.text)
        assert "question call2" in answer.text, address
    assert [row.id for row in rows] == ["call2", "call1", "call0"]
    shown = answers["/" if column == "body" else "/requests"].text
    assert shown.count("cannot be read") == 1
