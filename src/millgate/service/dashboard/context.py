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

from millgate.service.dashboard.plots import WIDTH
from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.auth import require_scope
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.request_state import Caller
from millgate.service.routes.parse import Id
from millgate.service.state import service_of
from millgate.types import SIDE_SOURCES, Trace
from millgate.types.notes import Stage

router = APIRouter(prefix=f"{DASHBOARD}/requests/{{id}}", route_class=PageRoute, include_in_schema=False)  # fmt: skip

NAMES = {"document": "documents", "turn": "conversation", "memory": "facts", "graph": "graph paths", "web": "search", "framing": "framing", "unused": "unused"}  # fmt: skip
_CITED = re.compile(r"\[(\d{1,4})\] ")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the budget: the kind of its source and what a person reads for it, its tokens, its place on the bar."""

    name: str
    label: str
    tokens: int
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the block; `chunk` is what its citation stands for."""

    text: str
    number: str = ""
    chunk: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """A context as a page shows it: its lines, the budget in sections, and its tokens."""

    lines: tuple[Line, ...]
    sections: tuple[Section, ...]
    tokens: int
    budget: int


@router.get("/context")
async def show_context(
    request: Request, id: Id, caller: Annotated[Caller, Depends(require_scope("read"))]
) -> Response:
    """The block that the model gets for a request."""
    gate = service_of(request).gate_for(caller)
    trace = await gate.atrace(id)
    replayed = await gate.areplay(trace, {})
    block = read_block(trace, replayed.text, replayed.after.kept, replayed.after.tokens)
    return render(request, "context.html", trace=trace, replayed=replayed, block=block)


def read_block(trace: Trace, text: str, kept: Sequence[str], tokens: int) -> Block:
    """What a page shows of a context: its text, the ids of the chunks in it in order, and its tokens."""
    lines = tuple(_read_lines(text, kept))
    return Block(lines, tuple(sections(trace, kept, tokens)), tokens, max(trace.budget, tokens))


def _read_lines(text: str, kept: Sequence[str]) -> Iterator[Line]:
    """The lines of the block. Text inside a piece cannot pose as a citation: the fence quotes it."""
    for line in text.splitlines():
        found = _CITED.match(line)
        number = int(found[1]) if found else 0
        if found and 0 < number <= len(kept):
            yield Line(line[found.end() :], found[1], kept[number - 1])
        else:
            yield Line(line)


def sections(trace: Trace, kept: Sequence[str], used: int) -> list[Section]:
    """The budget by what it was spent on; pieces by the kind of their source."""
    sizes: dict[str, int] = {}
    for candidate in trace.candidates:
        if candidate.chunk.id in kept:
            cost = candidate.number(Stage.COMPOSE, "tokens") or 0
            sizes[candidate.chunk.source] = sizes.get(candidate.chunk.source, 0) + int(cost)
    sizes["framing"] = max(0, used - sum(sizes.values()))
    budget = max(trace.budget, used, 1)
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
        yield Section(name, NAMES.get(name, name), tokens, at, width)
        at += width
