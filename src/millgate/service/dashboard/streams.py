"""Streams: guarded answers with what was cut from them, circles of tool calls as a ladder, and sessions with their
fuse.

An answer is read from the trace of its call: what the client has and what was cut, laid end to end as the model sent
them. Its curves are the entropy of the last 64 characters, and the length of the repetition going on, on a
logarithmic scale.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.explain.describe import describe
from millgate.guard.channels import CONTENT
from millgate.guard.profile import Profile
from millgate.service.dashboard.ranges import Span, read_range
from millgate.service.dashboard.render import link, redirect, render
from millgate.service.dashboard.route import PageRoute, read_form
from millgate.service.dashboard.traces import read_traces
from millgate.service.dashboard.words import kept_looping, looped
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.call_trace import GAP
from millgate.service.routes.api import Id, ReadGate, ReviewGate
from millgate.sessions.xray.bars import HEIGHT, WIDTH, Plot, Series, Shape
from millgate.types import Step, Trace
from millgate.types.lengths import NAME_CHARS
from millgate.types.notes import Stage

router = APIRouter(prefix=f"{DASHBOARD}/streams", route_class=PageRoute, include_in_schema=False)


CALLS = 50  # shown
SPENDERS = 50


@dataclass(frozen=True, slots=True)
class CircleRow:
    """A circle of tool calls in a session: what was repeated, and the rungs that were reached at which copies."""

    what: str
    copies: int
    trace: str
    rungs: dict[str, int]


@router.get("")
async def show_streams(
    request: Request,
    gate: ReadGate,
    session: Annotated[str, Query(max_length=NAME_CHARS)] = "",
    only: Annotated[str, Query(max_length=3, pattern="^(cut)?$")] = "",
    span: Span = "",
) -> Response:
    """The model calls of a range, of all sessions or one: totals over all of them, and the last ones."""
    within = await read_range(gate, span)
    rows = [row for row in within.rows if row.outcome and session in ("", row.session)]
    shown = [row for row in rows if not only or looped(row)][:CALLS]
    traces, missing = await asyncio.to_thread(read_traces, gate, rows[:200] if session else shown)
    spends = await gate.spending.alist_spends("session", limit=SPENDERS)
    return render(
        request,
        "streams.html",
        range=within,
        rows=shown,
        total=len(rows),
        calls=sum(row.is_model_call for row in rows),
        loops=sum(map(looped, rows)),
        lost=sum(map(kept_looping, rows)),
        saved=sum(row.saved for row in rows),
        missing=missing,
        circles=find_circles(traces),
        rungs=sorted(gate.settings.circles.active),
        spends=[(s, r) for s, r in spends if not session or s.name == session],
        session=session,
        only=only,
    )


@router.post("/resume")
async def resume(request: Request, gate: ReviewGate) -> Response:
    """Let a paused session go on."""
    name = (await read_form(request)).get("session", "")
    await gate.spending.aresume(name)
    return redirect(link("/streams", session=name))


@router.get("/{id}")
async def show_stream(request: Request, id: Id, gate: ReadGate) -> Response:
    """One call: its answer with cuts marked, and what was measured along it."""
    trace = await gate.atrace(id)
    parts = answer_parts(trace)
    return render(
        request,
        "stream.html",
        trace=trace,
        call=trace.step(Stage.MODEL),
        cuts=[step for step in trace.steps if step.stage is Stage.CUT],
        parts=parts,
        curves=draw_curves(parts) if parts else None,
        done=describe(trace).done,
    )


def find_circles(traces: Sequence[Trace]) -> list[CircleRow]:
    """The circles among some calls (newest first): each as far as it went, with the rungs reached on the way."""
    found: dict[tuple[str, float | str], CircleRow] = {}
    for trace in reversed(traces):
        for step in trace.steps:
            if step.stage is Stage.CIRCLES:
                known = (trace.request.session, step.facts.get("first", 0))
                rungs = found[known].rungs if known in found else {}
                copies = int(step.number("copies") or 0)
                rungs = {
                    str(step.facts.get("rung")): copies
                } | rungs  # the copies at which it was reached
                found[known] = CircleRow(str(step.facts.get("reason", "")), copies, trace.id, rungs)
    return list(reversed(found.values()))


MAX_CHARS = 16_000  # that are measured
BITS = 6.0  # top of the entropy scale
RUN = 14.0  # top of the repetition scale: 2^14 characters


@dataclass(frozen=True, slots=True)
class AnswerPart:
    """A part of the stream: what the client has, or what was cut and by which step."""

    text: str
    cut: Step | None = None


@dataclass(frozen=True, slots=True)
class Curves:
    """Two curves over the stream, each from 0 to the most that it can be, and the cuts as boxes (x, width)."""

    plot: Plot
    cuts: tuple[tuple[float, float], ...]
    chars: int


def answer_parts(trace: Trace) -> list[AnswerPart]:
    """The stream in order; empty if nothing was cut or the text was not kept."""
    call = trace.step(Stage.MODEL)
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
    entropy = [(s.position / chars, s.bits / BITS) for s in samples]
    repetition = [(s.position / chars, log2(s.run + 1) / RUN) for s in samples]
    shapes = (Shape("new", _line(entropy)), Shape("stale", _line(repetition)))
    series = (
        Series(f"entropy of 64 characters; the top is {BITS:g} bits", "new"),
        Series("length of the repetition going on, logarithmic", "stale"),
        Series("cut", "cut"),
    )
    return Curves(Plot(shapes, 1.0, series), tuple(_boxes(parts, chars)), chars)


def _line(points: Sequence[tuple[float, float]]) -> str:
    placed = (f"{WIDTH * x:.1f} {HEIGHT * (1 - min(1.0, y)):.1f}" for x, y in points)
    return "".join(f"{'L' if at else 'M'}{point}" for at, point in enumerate(placed))


def _boxes(parts: Sequence[AnswerPart], chars: int) -> Iterator[tuple[float, float]]:
    at = 0
    for part in parts:
        if part.cut is not None and at < chars:
            yield WIDTH * at / chars, WIDTH * min(len(part.text), chars - at) / chars
        at += len(part.text)
