"""The first page: one session as a bar per turn, with what each turn added and what a compaction dropped."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.costs import Costs
from headgate.gateway import Headgate
from headgate.service.auth import require_scope
from headgate.service.dashboard.render import render
from headgate.service.dashboard.route import PageRoute
from headgate.service.dashboard.traces import ReadTraces, read_traces
from headgate.service.dashboard.turns import WindowTurn, turns_of, windows_of
from headgate.service.paths import HOME
from headgate.service.request_state import Caller
from headgate.service.state import service_of
from headgate.types import TraceSummary
from headgate.types.lengths import NAME_CHARS
from headgate.xray.bars import CACHE, SEGMENTS, draw, draw_cache, segments
from headgate.xray.summary import LABELS

router = APIRouter(route_class=PageRoute, include_in_schema=False)

READ = 1000  # of the newest requests, in which sessions are found
TURNS = 200  # of a session that are shown, the newest
WIDTH, HEIGHT = 1000, 260
CACHE_HEIGHT = 90
BLAMED = {
    "client": "The agent did it",
    "headgate": "Headgate did it: please report this",
    "provider": "The provider did not have it any more",
    "time": "The pause was too long",
    "unknown": "Nobody knows whose doing it was",
}
"""Whose doing a break was, in few words."""
NAMES = LABELS | {"tools": "tool definitions", "window": "the conversation", "injected": "injected by Headgate"}  # fmt: skip

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
    caller: Annotated[Caller, Depends(require_scope("read"))],
    session: Name = "",
    model: Name = "",
) -> Response:
    """The sessions, and one of them turn by turn."""
    gate = service_of(request).gate_for(caller)
    rows = await gate.atraces(limit=READ)
    sessions = list_sessions(rows)
    chosen = session or next((s.name for s in sessions if s.calls), sessions[0].name if sessions else "")  # fmt: skip
    traces, missing = await asyncio.to_thread(
        _read_session, gate, [row for row in rows if row.session == chosen]
    )
    by_model = turns_of(traces)
    model = model if model in by_model else max(by_model, key=lambda name: len(by_model[name]), default="")  # fmt: skip
    turns = by_model.get(model, [])
    windows = windows_of(turns)
    return render(
        request,
        "window.html",
        sessions=sessions,
        chosen=chosen,
        models=sorted(by_model),
        model=model,
        turns=turns,
        missing=missing,
        bars=[segments(now, before) for before, now in zip((None, *windows), windows, strict=False)],
        chart=draw(windows, WIDTH, HEIGHT),
        cache=draw_cache(windows, WIDTH, CACHE_HEIGHT),
        spent=_add_up(turns),
        breaks=[turn for turn in turns if turn.cost and turn.cost.blame],
        compactions=[turn for turn in turns if turn.compaction],
        blamed=BLAMED,
        labels=SEGMENTS,
        cache_labels=CACHE,
        names=NAMES,
        size=(WIDTH, HEIGHT),
        cache_height=CACHE_HEIGHT,
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
            calls=sum(bool(row.outcome) for row in some),
            contexts=sum(not row.outcome for row in some),
            last=some[0].created,
            query=some[-1].query,
        )
        for name, some in found.items()
    ]


def _read_session(gate: Headgate, rows: Sequence[TraceSummary]) -> ReadTraces:
    """The traces of a session: its model calls, or its requests for context if it has no calls."""
    calls = [row for row in rows if row.outcome] or list(rows)
    return read_traces(gate, reversed(calls[:TURNS]))
