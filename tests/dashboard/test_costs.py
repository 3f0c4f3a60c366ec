"""Costs and breaks of the cache on the dashboard: what they cost, and why, in words that a newcomer understands."""

import time

import pytest
from tests.service.calls import MODEL, broken_session
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.dashboard.costs import BROKEN, OTHERS, draw_costs
from millgate.service.dashboard.ranges import TimeRange
from millgate.settings import Settings
from millgate.types import CallCost, TraceSummary


@pytest.fixture
def gate():
    with Millgate.open(settings=Settings(store=":memory:")) as gate:
        for trace in broken_session(now=time.time() - 1_500):
            gate.save_trace(trace)
        yield gate


@pytest.fixture
async def client(gate):
    async with connected(create(gate)) as client:
        yield client


async def test_the_window_marks_each_break_with_its_reason(client):
    page = (await client.get("/dashboard/")).text
    assert "The cache broke 3 times:</strong> 138,500 tokens were paid in full again, about $0.80" in page  # fmt: skip
    assert page.count('class="break"') == 3
    assert "message 4 (result of Read src/parser.py) was changed. <span" in page
    assert "The pause was too long; 53,900 tokens paid again" in page


@pytest.mark.parametrize("span", ["hour", "day", "week", "all", ""])
async def test_costs_are_shown_for_each_span(client, span):
    page = (await client.get("/dashboard/costs", params={"span": span})).text
    assert "$1.56" in page
    assert MODEL in page
    assert BROKEN in page


async def test_an_hour_without_calls_says_so(client, gate):
    assert gate.traces()  # all are written
    gate.store.prune_traces(keep=0)
    page = (await client.get("/dashboard/costs")).text
    assert "No model call has come through yet" in page
    assert "export OPENAI_BASE_URL=http://localhost/v1" in page


def row(model, at, cost=None, **more):
    call = CallCost(model, cost=cost, **more)
    return TraceSummary(f"{model}{at}", at, "", "s", "", "", "", 0.0, False, 0, 0, 0, 0.0, cost=call)  # fmt: skip


def test_the_dearest_models_have_a_color_and_the_others_share_one():
    rows = [row(f"m{n}", 10.0 * n, cost=10.0 - n, lost=5, lost_cost=1.0) for n in range(6)]
    chart = draw_costs(TimeRange("all", rows, [1.5 * at for at in range(40)], 60.0))
    assert [one.name for one in chart.series] == ["m0", "m1", "m2", "m3", OTHERS, BROKEN]
    assert sum(sum(one.values) for one in chart.series) == pytest.approx(45.0)
    assert all(len(one.values) == 40 for one in chart.series)
    assert chart.unit == "money"


def test_tokens_are_drawn_if_no_model_has_a_price():
    rows = [row("own", 5.0, read=90, fresh=10, output=7)]
    chart = draw_costs(TimeRange("all", rows, [0.0, 2.5, 5.0, 7.5], 10.0))
    assert chart.unit == "tokens"
    assert [sum(one.values) for one in chart.series] == [107]
