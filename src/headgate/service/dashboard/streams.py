"""Streams: guarded answers with what was cut from them, circles of tool calls as a ladder, and sessions with their
fuse.

An answer is read from the trace of its call: what the client has and what was cut, laid end to end as the model sent
them. Its curves are those of `headgate guard --plot`: entropy of the last 64 characters, and the length of the
repetition going on, on a logarithmic scale.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.interventions import interventions
from headgate.guard.channels import CONTENT
from headgate.guard.plot import BITS, RUN, Profile
from headgate.notes import Stage
from headgate.service.auth import require_scope
from headgate.service.dashboard.render import link, redirect, render
from headgate.service.dashboard.route import PageRoute, read_form
from headgate.service.dashboard.traces import read_traces
from headgate.service.parse import Id
from headgate.service.paths import DASHBOARD
from headgate.service.proxy.model_call import GAP
from headgate.service.request_state import Caller
from headgate.service.state import service_of
from headgate.types import Step, Trace
from headgate.types.lengths import NAME_CHARS

router = APIRouter(prefix=f"{DASHBOARD}/streams", route_class=PageRoute, include_in_schema=False)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Reviewer = Annotated[Caller, Depends(require_scope("review"))]

READ = 1000  # of the newest requests, in which calls are found
CALLS = 50  # shown
SPENDERS = 50


@dataclass(frozen=True, slots=True)
class CircleRow:
    """A circle of tool calls in a session: what was repeated, and the rungs that were reached at which copies."""

    what: str
    copies: int
    trace: str
    rungs: dict[str, int]


@dataclass(frozen=True, slots=True)
class GuardTotals:
    """What the guard did in some calls."""

    calls: int
    cuts: int
    rollbacks: int
    saved: int
    wasted: int


@router.get("")
async def show_streams(
    request: Request,
    caller: Reader,
    session: Annotated[str, Query(max_length=NAME_CHARS)] = "",
    only: Annotated[str, Query(max_length=3, pattern="^(cut)?$")] = "",
) -> Response:
    """The last model calls, of all sessions or one."""
    gate = service_of(request).gate_for(caller)
    rows = [row for row in await gate.atraces(limit=READ) if row.outcome]
    rows = [row for row in rows if not session or row.session == session]
    shown = [row for row in rows if not only or row.outcome in ("recovered", "failed")][:CALLS]
    traces, missing = await asyncio.to_thread(read_traces, gate, rows[:200] if session else shown)
    spends = await gate.spending.alist_spends("session", limit=SPENDERS)
    return render(
        request,
        "streams.html",
        rows=shown,
        calls={trace.id: _call(trace) for trace in traces},
        missing=missing,
        totals=add_up(traces),
        circles=find_circles(traces),
        rungs=sorted(gate.settings.circles.active),
        spends=[(s, r) for s, r in spends if not session or s.name == session],
        session=session,
        only=only,
    )


@router.post("/resume")
async def resume(request: Request, caller: Reviewer) -> Response:
    """Let a paused session go on."""
    name = (await read_form(request)).get("session", "")
    await service_of(request).gate_for(caller).spending.aresume(name)
    return redirect(link("/streams", session=name))


@router.get("/{id}")
async def show_stream(request: Request, id: Id, caller: Reader) -> Response:
    """One call: its answer with cuts marked, and what was measured along it."""
    trace = await service_of(request).gate_for(caller).atrace(id)
    parts = answer_parts(trace)
    return render(
        request,
        "stream.html",
        trace=trace,
        call=_call(trace),
        cuts=[step for step in trace.steps if step.stage is Stage.CUT],
        parts=parts,
        curves=draw_curves(parts) if parts else None,
        size=(WIDTH, HEIGHT),
        done=interventions(trace),
    )


def find_circles(traces: Sequence[Trace]) -> list[CircleRow]:
    """The circles among some calls (newest first): each as far as it went, with the rungs reached on the way."""
    found: dict[tuple[str, float | str], CircleRow] = {}
    for trace in reversed(traces):
        for step in trace.steps:
            if step.stage is Stage.CIRCLES:
                known = (trace.request.session, step.facts.get("first", 0))
                rungs = found[known].rungs if known in found else {}
                copies = _number(step, "copies")
                rungs = rungs | {str(step.facts.get("rung")): copies}
                found[known] = CircleRow(str(step.facts.get("reason", "")), copies, trace.id, rungs)
    return list(reversed(found.values()))


def add_up(traces: Sequence[Trace]) -> GuardTotals:
    """What the guard did in these calls, and what that saved."""
    calls = [step for step in map(_call, traces) if step is not None]
    return GuardTotals(
        len(calls),
        sum(step.stage is Stage.CUT for trace in traces for step in trace.steps),
        sum(_number(step, "rollbacks") for step in calls),
        sum(_number(step, "saved_tokens") for step in calls),
        sum(_number(step, "wasted_tokens") for step in calls),
    )


def _call(trace: Trace) -> Step | None:
    return next((step for step in trace.steps if step.stage is Stage.MODEL), None)


def _number(step: Step, name: str) -> int:
    value = step.facts.get(name, 0)
    return int(value) if isinstance(value, int | float) else 0


WIDTH, HEIGHT = 1000, 90
MAX_CHARS = 16_000  # that are measured


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of the stream: what the client has, or what was cut and by which step."""

    text: str
    cut: Step | None = None


@dataclass(frozen=True, slots=True)
class Curves:
    """Two curves over the stream as points of polylines, and the cuts as boxes (x, width)."""

    entropy: str
    repetition: str
    cuts: tuple[tuple[float, float], ...]
    chars: int


def answer_parts(trace: Trace) -> list[AnswerPart]:
    """The stream in order; empty if nothing was cut or the text was not kept."""
    call = next((step for step in trace.steps if step.stage is Stage.MODEL), None)
    if call is None or not call.text:
        return []
    kept = call.text.split(GAP)
    cuts = [s for s in trace.steps if s.stage is Stage.CUT and s.facts.get("channel") == CONTENT]
    parts = []
    for number, text in enumerate(kept):
        parts.append(AnswerPart(text))
        if number < len(cuts):
            parts.append(AnswerPart(cuts[number].text, cuts[number]))
    return [part for part in parts if part.text]


def draw_curves(parts: Sequence[AnswerPart]) -> Curves:
    """Entropy and repetition along the stream."""
    profile = Profile(every=4)
    profile.feed("".join(part.text for part in parts)[:MAX_CHARS])
    samples = profile.samples
    chars = max(1, samples[-1].position if samples else 1)
    return Curves(
        " ".join(_point(s.position / chars, s.bits / BITS) for s in samples),
        " ".join(_point(s.position / chars, log2(s.run + 1) / RUN) for s in samples),
        tuple(_boxes(parts, chars)),
        chars,
    )


def _point(x: float, y: float) -> str:
    return f"{WIDTH * x:.1f},{HEIGHT * (1 - min(1.0, y)):.1f}"


def _boxes(parts: Sequence[AnswerPart], chars: int) -> Iterator[tuple[float, float]]:
    at = 0
    for part in parts:
        if part.cut is not None and at < chars:
            yield WIDTH * at / chars, WIDTH * min(len(part.text), chars - at) / chars
        at += len(part.text)
