"""Requests: the last ones, live, with filters and search; and one of them, stage by stage and candidate by candidate.

Without a filter only the rows shown are read. With one, the newest five thousand are read and filtered here, which
takes about 60 ms; the page says so if there are more.

An answer that was cut is read from the trace of its call: what the client has and what was cut, laid end to end as the
model sent them. Its curves are the entropy of the last 64 characters, and the length of the repetition going on, on a
logarithmic scale.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log2
from typing import Annotated, Any, Final, Literal, NamedTuple

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.explain.describe import describe
from millgate.explain.passages import Passage, find_passages, mark
from millgate.gateway import Millgate
from millgate.guard.channels import CONTENT
from millgate.guard.profile import Profile
from millgate.service.dashboard.page import PageRoute, looped, render
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.call_trace import GAP
from millgate.service.routes.api import Id, ReadGate
from millgate.sessions.xray.bars import WIDTH, Plot, Series, draw
from millgate.stores.stored_trace import FULL
from millgate.types import Candidate, Step, Trace, TraceSummary
from millgate.types import Request as ContextRequest
from millgate.types.lengths import NAME_CHARS
from millgate.types.notes import Stage

router = APIRouter(prefix=f"{DASHBOARD}/requests", route_class=PageRoute)

ROWS = 50  # on one page
SEARCHED = 5_000  # rows that a filter looks through, newest first
CANDIDATES = 1000  # on one page

Kind = Literal["", "context", "call", "skipped", "degraded", "cut"]
KINDS: Final[Mapping[Kind, Callable[[TraceSummary], bool]]] = {
    "": lambda _: True,
    "context": lambda row: not row.outcome,
    "call": lambda row: bool(row.outcome),
    "skipped": lambda row: row.skip and not row.outcome,
    "degraded": lambda row: bool(row.degraded),
    "cut": looped,
}


class Filter(BaseModel):
    """What is asked for; empty fields let everything through."""

    q: str = Field("", max_length=NAME_CHARS)
    session: str = Field("", max_length=NAME_CHARS)
    collection: str = Field("", max_length=NAME_CHARS)
    kind: Kind = ""

    def matches(self, row: TraceSummary) -> bool:
        """Whether a row is asked for: every word of `q` stands in its query, id or session."""
        if self.session and row.session != self.session:
            return False
        if self.collection and self.collection not in row.collection.split(", "):
            return False
        text = f"{row.query} {row.id} {row.session}".casefold()
        return KINDS[self.kind](row) and all(word in text for word in self.q.casefold().split())


class Listing(Filter):
    """A filter, and which page of what it lets through."""

    page: int = Field(1, ge=1, le=10_000)


@router.get("")
def show_requests(
    request: Request, gate: ReadGate, listing: Annotated[Listing, Query()]
) -> Response:
    """The requests that a filter lets through, newest first."""
    asked = listing.model_dump(exclude={"page"})
    filtered = any(asked.values())
    last = ROWS * listing.page
    rows = gate.traces(limit=SEARCHED if filtered else last + 1)
    found = [row for row in rows if listing.matches(row)]
    return render(
        request,
        "requests.html",
        rows=found[last - ROWS : last],
        asked=asked,
        filtered=filtered,
        total=len(found),
        page=listing.page,
        more=len(found) > last,
        searched=SEARCHED if filtered and len(rows) == SEARCHED else 0,
    )


# One request

ChunkId = Annotated[str, Query(min_length=1, max_length=NAME_CHARS)]


@router.get("/{id}")
def show_request(request: Request, id: Id, gate: ReadGate) -> Response:
    """The request as a flow with its candidates; of a model call its answer, with what was cut from it."""
    trace = gate.trace(id)
    rows = sorted(trace.candidates, key=lambda row: row.dropped)
    most = max((max(step.received + step.added, step.kept) for step in trace.steps), default=0)
    parts = answer_parts(trace)
    return render(
        request,
        "request.html",
        trace=trace,
        most=most or 1,
        rows=rows[:CANDIDATES],
        left_out=max(0, len(rows) - CANDIDATES),
        kept=sum(not row.dropped for row in rows),
        full=FULL,
        call=trace.step(Stage.MODEL),
        is_cut=trace.step(Stage.CUT) is not None,
        parts=parts,
        curves=draw_curves(parts) if parts else None,
        done=describe(trace).done,
        sliders=sliders(trace.request, gate, {}),
        replayed=None,
    )


@router.get("/{id}/chunk")
def show_chunk(request: Request, id: Id, gate: ReadGate, chunk: ChunkId) -> Response:
    """What every stage did to one candidate, and which passage of the window it repeats."""
    trace = gate.trace(id)
    row = trace.find(chunk)
    if row is None:
        raise NotFound(f"{chunk!r} was not a candidate of this request", hint="ask why not")
    return render(request, "chunk.html", trace=trace, row=row, beside=side_by_side(row, trace))


@router.get("/{id}/why")
async def show_why(request: Request, id: Id, gate: ReadGate, chunk: ChunkId) -> Response:
    """Where a chunk fell, and the smallest change that admits it."""
    trace = await gate.atrace(id)
    return render(request, "why.html", trace=trace, why=await gate.awhy(trace, chunk))


AROUND = 240  # characters of the window shown around a passage

Pieces = Sequence[tuple[str, bool]]
"""A text in pieces, each with whether it is marked."""


class SideBySide(NamedTuple):
    """A chunk and the window blocks that hold words of it, by number."""

    chunk: Pieces
    blocks: Mapping[int, Pieces]


def side_by_side(candidate: Candidate, trace: Trace) -> SideBySide | None:
    """A chunk beside what of the window it repeats; None if the texts are not kept or nothing repeats."""
    text, blocks = candidate.chunk.text, trace.request.window.texts
    passages = find_passages(text, blocks)
    if not passages:
        return None
    of_blocks = {
        number: _excerpt(blocks[number], [p for p in passages if p.block == number])
        for number in sorted({p.block for p in passages})
    }
    return SideBySide(mark(text, ((p.start, p.end) for p in passages)), of_blocks)


def _excerpt(block: str, passages: Sequence[Passage]) -> Pieces:
    """A block of the window from a little before its first passage to a little behind the last."""
    low = max(0, min(p.block_start for p in passages) - AROUND)
    high = max(p.block_end for p in passages) + AROUND
    pieces = mark(block[low:high], ((p.block_start - low, p.block_end - low) for p in passages))
    before, after = low > 0, high < len(block)
    return [("… ", False)] * before + pieces + [(" …", False)] * after


# Replaying it with other numbers


class SliderRange(NamedTuple):
    """A number that a slider moves, by the name that a replay knows: what a person reads, its range and its step."""

    name: str
    label: str
    low: float
    high: float
    step: float


SLIDER_RANGES: Final = (
    SliderRange("budget", "budget, tokens", 0, 2000, 10),
    SliderRange("penalize.exponent", "penalty exponent", 0.1, 5, 0.05),
    SliderRange("gate.min_entropy", "entropy floor", 0, 1, 0.01),
    SliderRange("gate.min_ratio", "boilerplate floor", 0, 0.5, 0.01),
    SliderRange("grade.lower", "relevance floor of the answer", 0, 1, 0.01),
    SliderRange("grade.floor", "relevance floor of a chunk", 0, 0.5, 0.01),
)


class Slider(NamedTuple):
    """A number as the page shows it: its value in the request or the settings, and the value it was moved to."""

    bounds: SliderRange
    rest: float
    value: float

    @property
    def moved(self) -> bool:
        """Whether it stands elsewhere than at rest. Browsers round a value to the nearest step, which is not a move."""
        return self._steps(self.value) != self._steps(self.rest)

    def _steps(self, value: float) -> int:
        """How many steps a value is above the low end, rounded as browsers do: a half up."""
        return floor((value - self.bounds.low) / self.bounds.step + 0.5 + 1e-9)


@router.get("/{id}/replay")
async def show_replay(request: Request, id: Id, gate: ReadGate) -> Response:
    """What enters and what leaves when the sliders stand as the address says."""
    trace = await gate.atrace(id)
    placed = sliders(trace.request, gate, request.query_params)
    replayed = await gate.areplay(trace, changes_of(placed))
    titles = {c.chunk.id: c.chunk.title for c in trace.candidates}
    return render(request, "replay.html", trace=trace, sliders=placed, replayed=replayed, titles=titles)  # fmt: skip


def changes_of(placed: Iterable[Slider]) -> dict[str, Any]:
    """What was moved, by name, as a replay takes it."""
    moved = ((one.bounds, one.value) for one in placed if one.moved)
    return {b.name: floor(value + 0.5) if b.step >= 1 else value for b, value in moved}


def sliders(asked: ContextRequest, gate: Millgate, moved: Mapping[str, str]) -> list[Slider]:
    """The sliders for a request, moved as far as asked; each reaches twice as far as it stands."""
    found = []
    for bounds in SLIDER_RANGES:
        group, _, name = bounds.name.partition(".")
        rest = getattr(getattr(gate.settings, group), name) if name else getattr(asked, group)
        if rest is None:  # the part's own, which no number stands for
            rest = bounds.low
        wide = bounds._replace(low=min(bounds.low, rest), high=max(bounds.high, 2 * rest))
        try:
            value = min(wide.high, max(wide.low, float(moved[bounds.name])))
        except (KeyError, ValueError):
            value = rest
        found.append(Slider(wide, rest, value))
    return found


# The answer of a call

MAX_CHARS = 16_000  # that are measured
BITS = 6.0  # top of the entropy scale
RUN = 14.0  # top of the repetition scale: 2^14 characters


class AnswerPart(NamedTuple):
    """A part of the stream: what the client has, or what was cut and by which step."""

    text: str
    cut: Step | None = None


@dataclass(frozen=True, slots=True)
class Curves:
    """Two curves over the stream, each from 0 to the most that it can be, and the cuts as boxes (x, width)."""

    plot: Plot
    cuts: Sequence[tuple[float, float]]
    chars: int


def answer_parts(trace: Trace) -> list[AnswerPart]:
    """The stream in order; empty if nothing was cut or the text was not kept."""
    call = trace.step(Stage.MODEL)
    if call is None or not call.text:
        return []
    cuts = [s for s in trace.steps if s.stage is Stage.CUT and s.facts.get("channel") == CONTENT]
    parts = []
    for number, text in enumerate(call.text.split(GAP)):
        parts += [
            AnswerPart(text),
            *(AnswerPart(cut.text, cut) for cut in cuts[number : number + 1]),
        ]
    return [part for part in parts if part.text]


def draw_curves(parts: Sequence[AnswerPart]) -> Curves:
    """Entropy and repetition along the stream."""
    profile = Profile(every=4)
    profile.feed("".join(part.text for part in parts)[:MAX_CHARS])
    samples = profile.samples
    chars = max(1, samples[-1].position if samples else 1)
    boxes, at = [], 0
    for part in parts:
        if part.cut is not None and at < chars:
            boxes.append((WIDTH * at / chars, WIDTH * min(len(part.text), chars - at) / chars))
        at += len(part.text)
    plot = draw(
        "curves", "Entropy and repetition along the stream", "what was cut is marked", "",
        Series(f"entropy of 64 characters; the top is {BITS:g} bits", "new", [s.bits / BITS for s in samples]),
        Series("length of the repetition going on, logarithmic", "stale", [log2(s.run + 1) / RUN for s in samples]),
        Series("cut", "cut"),
        lines=True, top=1.0,
    )  # fmt: skip
    return Curves(plot, boxes, chars)
