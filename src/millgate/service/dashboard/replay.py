"""Replay: a stored request again with other numbers, and two requests beside each other.

The sliders name what `explain.replay` names. Only what was moved is a change, so that a slider at rest stands for the
setting.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import floor
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import InputError
from millgate.service.dashboard.fates import FateRow, fate_row
from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import Id, Name, ReadGate
from millgate.types import Request as ContextRequest
from millgate.types import Trace

router = APIRouter(prefix=f"{DASHBOARD}/requests", route_class=PageRoute, include_in_schema=False)


class SliderRange(NamedTuple):
    """A number that a slider moves: its name, what a person reads, its range and its step.

    The low end of one that is optional stands for no number at all.
    """

    name: str
    label: str
    low: float
    high: float
    step: float
    is_optional: bool = False


SLIDER_RANGES: Final = (
    SliderRange("budget", "budget, tokens", 0, 2000, 10),
    SliderRange("k", "k, most chunks", 0, 50, 1, is_optional=True),
    SliderRange("penalize.exponent", "penalty exponent", 0.1, 5, 0.05),
    SliderRange("gate.min_entropy", "entropy floor", 0, 1, 0.01),
    SliderRange("gate.min_ratio", "boilerplate floor", 0, 0.5, 0.01),
    SliderRange("grade.lower", "relevance floor of the answer", 0, 1, 0.01),
    SliderRange("grade.floor", "relevance floor of a chunk", 0, 0.5, 0.01),
)


class Slider(NamedTuple):
    """A parameter as the page shows it: its stored value (None: the part's own) and the value it was moved to."""

    bounds: SliderRange
    rest: float | None
    value: float

    @property
    def moved(self) -> bool:
        """Whether it stands elsewhere than at rest. Browsers round a value to the nearest step, which is not a move."""
        rest = self.bounds.low if self.rest is None else self.rest
        return self._steps(self.value) != self._steps(rest)

    @property
    def is_set(self) -> bool:
        """Whether it stands for a number."""
        return not self.bounds.is_optional or self._steps(self.value) > 0

    def _steps(self, value: float) -> int:
        """How many steps a value is above the low end, rounded as browsers do: a half up."""
        return floor((value - self.bounds.low) / self.bounds.step + 0.5 + 1e-9)


@dataclass(frozen=True, slots=True)
class Pair:
    """A chunk in two requests; None if it was not a candidate."""

    id: str
    title: str
    first: FateRow | None
    second: FateRow | None


@router.get("/{id}/replay")
async def show_replay(request: Request, id: Id, gate: ReadGate) -> Response:
    """What enters and what leaves when the sliders stand as the address says."""
    trace = await gate.atrace(id)
    placed = sliders(trace.request, gate.settings, request.query_params)
    replayed = await gate.areplay(trace, changes_of(placed))
    titles = {c.chunk.id: c.chunk.title for c in trace.candidates}
    return render(request, "replay.html", trace=trace, sliders=placed, replayed=replayed, titles=titles)  # fmt: skip


@router.get("/compare")
async def show_compared(
    request: Request, gate: ReadGate, id: Annotated[list[Name], Query(max_length=2)] = []  # noqa: B006
) -> Response:  # fmt: skip
    """Two requests beside each other."""
    if len(id) != 2:
        raise InputError("two requests are needed", hint="tick two of them in the list of requests")
    first, second = [await gate.atrace(one) for one in id]
    return render(request, "compare.html", first=first, second=second, pairs=pairs(first, second))


def changes_of(sliders: Iterable[Slider]) -> dict[str, Any]:
    """What was moved, by name, as a replay takes it."""
    return {one.bounds.name: _plain(one) for one in sliders if one.moved}


def sliders(asked: ContextRequest, settings: object, moved: Mapping[str, str]) -> list[Slider]:
    """The sliders for a request, moved as far as asked."""
    found = []
    for bounds in SLIDER_RANGES:
        rest = _resting_value(bounds, asked, settings)
        at = bounds.low if rest is None else rest
        wide = bounds._replace(low=min(bounds.low, at), high=max(bounds.high, 2 * at))
        found.append(Slider(wide, rest, _number(moved.get(bounds.name), wide, rest)))
    return found


def pairs(first: Trace, second: Trace) -> list[Pair]:
    """All candidates of two requests, those whose fate differs first."""
    rows = [{c.chunk.id: fate_row(c) for c in trace.candidates} for trace in (first, second)]
    ids = dict.fromkeys((*rows[0], *rows[1]))
    found = [Pair(id, (rows[0].get(id) or rows[1][id]).title, rows[0].get(id), rows[1].get(id)) for id in ids]  # fmt: skip
    return sorted(found, key=lambda pair: (_is_kept(pair.first) == _is_kept(pair.second), not _is_kept(pair.first)))  # fmt: skip


def _is_kept(row: FateRow | None) -> bool:
    return row is not None and row.kept


def _resting_value(bounds: SliderRange, asked: ContextRequest, settings: object) -> float | None:
    """The value before it was moved, from the request or from the settings."""
    group, _, name = bounds.name.partition(".")
    value = getattr(getattr(settings, group), name) if name else getattr(asked, group)
    return None if value is None else float(value)


def _number(text: str | None, bounds: SliderRange, rest: float | None) -> float:
    where = bounds.low if rest is None else rest
    try:
        return where if not text else min(bounds.high, max(bounds.low, float(text)))
    except ValueError:
        return where


def _plain(slider: Slider) -> float | int | None:
    """The value, whole if the slider takes only whole numbers; None if it stands for no number."""
    if not slider.is_set:
        return None
    return floor(slider.value + 0.5) if slider.bounds.step >= 1 else slider.value
