"""The context as the model gets it: the block with its citations, and the budget as a bar.

The block itself is not stored: the request runs again, as `replay` without a change. What has changed in the store
since is said.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from headgate.explain.replay import Replay
from headgate.notes import Stage
from headgate.service.auth import require_scope
from headgate.service.dashboard.render import render
from headgate.service.dashboard.route import PageRoute
from headgate.service.parse import Id
from headgate.service.paths import DASHBOARD
from headgate.service.request_state import Caller
from headgate.service.state import service_of
from headgate.types import SIDE_SHARE, SIDE_SOURCES, Trace

router = APIRouter(prefix=f"{DASHBOARD}/requests/{{id}}", route_class=PageRoute, include_in_schema=False)  # fmt: skip

WIDTH = 1000
NAMES = {"document": "documents", "turn": "conversation", "memory": "facts", "graph": "graph paths", "web": "search", "framing": "framing", "unused": "unused"}  # fmt: skip
_CITED = re.compile(r"\[(\d{1,4})\] ")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the budget: what it is for, its tokens, and where it stands on the bar."""

    name: str
    tokens: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the block; `chunk` is what its citation stands for."""

    text: str
    number: str = ""
    chunk: str = ""


@router.get("/context")
async def show_context(
    request: Request, id: Id, caller: Annotated[Caller, Depends(require_scope("read"))]
) -> Response:
    """The block that the model gets for a request."""
    gate = service_of(request).gate_for(caller)
    trace = await gate.atrace(id)
    replayed = await gate.areplay(trace, {})
    return render(
        request,
        "context.html",
        trace=trace,
        replayed=replayed,
        lines=list(read_lines(replayed)),
        sections=sections(trace, replayed),
        names=NAMES,
        width=WIDTH,
        reserve=SIDE_SHARE,
    )


def read_lines(replayed: Replay) -> Iterator[Line]:
    """The lines of the block. Text inside a piece cannot pose as a citation: the fence quotes it."""
    for line in replayed.text.splitlines():
        found = _CITED.match(line)
        number = int(found[1]) if found else 0
        if found and 0 < number <= len(replayed.after.kept):
            yield Line(line[found.end() :], found[1], replayed.after.kept[number - 1])
        else:
            yield Line(line)


def sections(trace: Trace, replayed: Replay) -> list[Section]:
    """The budget by what it was spent on; pieces by the kind of their source."""
    sizes: dict[str, int] = {}
    for candidate in trace.candidates:
        if candidate.chunk.id in replayed.after.kept:
            cost = candidate.number(Stage.COMPOSE, "tokens") or 0
            sizes[candidate.chunk.source] = sizes.get(candidate.chunk.source, 0) + int(cost)
    used = replayed.after.tokens
    sizes["framing"] = max(0, used - sum(sizes.values()))
    budget = max(trace.plan.budget, used, 1)
    sizes["unused"] = budget - used
    # what is sure of its share stands at the end of the bar, as it stands at the end of the block
    order = sorted(
        sizes, key=lambda name: (name == "unused", name == "framing", name in SIDE_SOURCES)
    )
    return list(_place([(name, sizes[name]) for name in order if sizes[name]], budget))


def _place(sizes: Sequence[tuple[str, int]], whole: int) -> Iterator[Section]:
    at = 0.0
    for name, tokens in sizes:
        width = WIDTH * tokens / whole
        yield Section(name, tokens, at, width)
        at += width
