"""Folded text on the dashboard: how much of a window it was, and the text one click away."""

import pytest
from tests.service.clients import connected

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.dashboard.window import turns_of
from millgate.sessions.xray.bars import segments
from millgate.settings import Settings
from millgate.types import Plan, Request, Step, Strategy, Tier, Trace
from millgate.types.notes import Stage

PLAN = Plan(skip=True, tier=Tier.STUFF, strategy=Strategy.STUFF, budget=0, reasoning="")
TRACE = Trace(
    "t1",
    Request("Fix it.", session="s"),
    PLAN,
    (
        Step(Stage.MODEL, 0.1, facts={"model": "m", "guard": "clean"}),
        Step(Stage.WINDOW, 0.0, facts={"tokens": 900, "human": 900}),
        Step(Stage.FOLD, 0.0, facts={"group": "on", "folds": 1, "folded": 1200}),
        Step(
            Stage.FOLD,
            0.0,
            facts={"lines": 60, "tokens": 1200, "source": "the result of your call Read(a.py)", "stale": 1},
            text="value_1 = <load>",
        ),
        Step(Stage.FOLD, 0.0, facts={"lines": 20, "tokens": 300}),  # not stale, and its source is not kept
    ),
    created=1.0,
)  # fmt: skip


@pytest.fixture
async def client():
    with Millgate.open(settings=Settings(store=":memory:", trace={"age_s": None})) as gate:
        gate.save_trace(TRACE)
        async with connected(create(gate)) as client:
            yield client


def test_a_bar_shows_what_was_folded_beside_what_stands_in_the_window():
    (turn,) = turns_of([TRACE])["m"]
    bar = segments(turn.window)
    assert bar["folded"] == 1200
    assert sum(bar.values()) == 900 + 1200


async def test_the_folded_text_is_one_click_away(client):
    page = (await client.get("/dashboard/")).text
    assert "<summary>folded 60 lines, 1,200 tokens</summary>" in page
    assert "They stand in the result of your call Read(a.py); the file was edited since" in page
    assert "<pre>value_1 = &lt;load&gt;</pre>" in page
