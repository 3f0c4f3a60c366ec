"""The first page: one session as a bar per turn, with what each turn added and what a compaction dropped."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.explain.costs import Costs
from millgate.gateway import Millgate
from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.dashboard.traces import ReadTraces, read_traces
from millgate.service.dashboard.turns import WindowTurn, turns_of
from millgate.service.edge.paths import HOME
from millgate.service.routes.api import ReadGate
from millgate.sessions.xray.bars import SEGMENTS, draw_cache, draw_window, list_segments
from millgate.sessions.xray.summary import LABELS
from millgate.types import TraceSummary
from millgate.types.lengths import NAME_CHARS

router = APIRouter(route_class=PageRoute, include_in_schema=False)

READ = 1000  # of the newest requests, in which sessions are found
TURNS = 200  # of a session that are shown, the newest
BLAMED = {
    "client": "The agent did it",
    "millgate": "Millgate did it: please report this",
    "provider": "The provider did not have it any more",
    "time": "The pause was too long",
    "unknown": "Nobody knows whose doing it was",
}
"""Whose doing a break was, in few words."""
NAMES = LABELS | {"tools": "tool definitions", "window": "the conversation", "injected": "injected by Millgate"}  # fmt: skip

Name = Annotated[str, Query(max_length=NAME_CHARS)]


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in the list: how often it asked, when last, and what it asked first of what is read."""

    name: str
    calls: int
    contexts: int
    last: float
    query: str


@router.get(HOME)
async def show_window(
    request: Request,
    gate: ReadGate,
    session: Name = "",
    model: Name = "",
) -> Response:
    """The sessions, and one of them turn by turn."""
    rows = await gate.atraces(limit=READ)
    # questions without a session come one by one: they share no window
    sessions = [one for one in list_sessions(rows) if one.name or one.calls]
    chosen = session or next((s.name for s in sessions if s.calls), sessions[0].name if sessions else "")  # fmt: skip
    traces, missing = await asyncio.to_thread(
        _read_session, gate, [row for row in rows if row.session == chosen]
    )
    by_model = turns_of(traces)
    model = model if model in by_model else max(by_model, key=lambda name: len(by_model[name]), default="")  # fmt: skip
    turns = by_model.get(model, [])
    windows = [turn.window for turn in turns]
    bars = list_segments(windows)
    return render(
        request,
        "window.html",
        sessions=sessions,
        asked=len(rows),
        read=READ,
        chosen=chosen,
        models=sorted(by_model),
        model=model,
        turns=turns,
        missing=missing,
        bars=bars,
        chart=draw_window(bars, max((window.length for window in windows), default=0)),
        cache=draw_cache(windows),
        spent=_add_up(turns),
        breaks=[turn for turn in turns if turn.cost and turn.cost.blame],
        compactions=[turn for turn in turns if turn.compaction],
        blamed=BLAMED,
        labels={name: label for name, label in SEGMENTS.items() if any(bar[name] for bar in bars)},
        names=NAMES,
    )  # fmt: skip


def _add_up(turns: Sequence[WindowTurn]) -> Costs:
    """What the turns that are shown took and cost."""
    total = Costs()
    for turn in turns:
        if turn.cost is not None:
            total.add(turn.cost)
    return total


def list_sessions(rows: Sequence[TraceSummary]) -> list[SessionRow]:
    """The sessions among some requests (newest first), those used last first."""
    found: dict[str, list[TraceSummary]] = {}
    for row in rows:
        found.setdefault(row.session, []).append(row)
    return [
        SessionRow(
            name,
            calls=sum(row.is_model_call for row in some),
            contexts=sum(not row.outcome for row in some),
            last=some[0].created,
            query=some[-1].query,
        )
        for name, some in found.items()
    ]


def _read_session(gate: Millgate, rows: Sequence[TraceSummary]) -> ReadTraces:
    """The traces of a session: its model calls that had an answer, or its requests for context if it has none."""
    calls = [row for row in rows if row.outcome not in ("", "unanswered")] or list(rows)
    return read_traces(gate, reversed(calls[:TURNS]))
