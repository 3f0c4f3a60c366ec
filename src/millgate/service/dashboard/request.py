"""One request: its flow through the stages, the fate of every candidate, and why one of them is not in the context."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.explain.describe import describe
from millgate.service.dashboard.fates import fate_row, fate_rows, side_by_side
from millgate.service.dashboard.render import render
from millgate.service.dashboard.replay import sliders
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import Id, ReadGate
from millgate.stores.stored_trace import FULL
from millgate.types import Step, Trace
from millgate.types.lengths import NAME_CHARS
from millgate.types.notes import Stage

router = APIRouter(prefix=f"{DASHBOARD}/requests/{{id}}", route_class=PageRoute, include_in_schema=False)  # fmt: skip

ChunkId = Annotated[str, Query(min_length=1, max_length=NAME_CHARS)]

ROWS = 1000  # candidates on one page


@dataclass(frozen=True, slots=True)
class FlowStep:
    """A stage in the picture: its step, and its share of all candidates."""

    step: Step
    kept_share: float


@router.get("")
async def show_request(request: Request, id: Id, gate: ReadGate) -> Response:
    """The request as a flow, and its candidates."""
    trace = await gate.atrace(id)
    rows = fate_rows(trace)
    return render(
        request,
        "request.html",
        trace=trace,
        flow=flow(trace),
        rows=rows[:ROWS],
        left_out=max(0, len(rows) - ROWS),
        kept=sum(row.kept for row in rows),
        full=FULL,
        call=trace.step(Stage.MODEL),
        done=describe(trace).done,
        sliders=sliders(trace.request, gate.settings, {}),
        replayed=None,
    )


@router.get("/chunk")
async def show_chunk(request: Request, id: Id, gate: ReadGate, chunk: ChunkId) -> Response:
    """What every stage did to one candidate, and which passage of the window it repeats."""
    trace = await gate.atrace(id)
    candidate = trace.find(chunk)
    if candidate is None:
        raise NotFound(f"{chunk!r} was not a candidate of this request", hint="ask why not")
    return render(
        request,
        "chunk.html",
        trace=trace,
        chunk=candidate.chunk,
        row=fate_row(candidate),
        beside=side_by_side(candidate, trace),
    )


@router.get("/why")
async def show_why(request: Request, id: Id, gate: ReadGate, chunk: ChunkId) -> Response:
    """Where a chunk fell, and the smallest change that admits it."""
    trace = await gate.atrace(id)
    return render(request, "why.html", trace=trace, why=await gate.awhy(trace, chunk))


def flow(trace: Trace) -> list[FlowStep]:
    """The steps of a request with their shares."""
    most = max((max(step.received + step.added, step.kept) for step in trace.steps), default=0)
    return [FlowStep(step, step.kept / most if most else 0.0) for step in trace.steps]
