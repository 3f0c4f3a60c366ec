"""Plots: numbers in columns as SVG shapes in a frame of fixed size, which the macro `plot` draws with its axes.

A column is a bucket of time, or a turn. The requests of the last hour, day or week fall into buckets (`TimeRange`).
Only the rows of their traces are read, at most ten thousand of the newest, which is what a tenant keeps by default.
That takes about 120 ms.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final, Literal, NamedTuple

from millgate.gateway import Millgate
from millgate.types import TraceSummary

WIDTH, HEIGHT = 1000, 160

Unit = Literal["count", "tokens", "ms", "share", "money", ""]
"""What the numbers of a plot are; those without a unit are not written at its axis."""


class Series(NamedTuple):
    """What is drawn: its name for people, its color (a class of the stylesheet), and a value for each column."""

    name: str
    color: str
    values: Sequence[float | None] = ()


class Shape(NamedTuple):
    """A series as drawn: the data of an SVG path, and whether it is filled."""

    color: str
    path: str
    style: Literal["filled", "line"]


@dataclass(frozen=True, slots=True)
class Plot:
    """Shapes in the frame, what they were drawn from, the number at the top, and words for people."""

    id: str
    heading: str
    about: str
    unit: Unit
    series: Sequence[Series]
    shapes: Sequence[Shape]
    top: float
    columns: int


def draw(
    id: str,
    heading: str,
    about: str,
    unit: Unit,
    *series: Series,
    lines: bool = False,
    top: float = 0.0,
    columns: int = 1,
) -> Plot:
    """The series on top of each other, as one bar for each column, or each as a line, in which no value is a gap.

    The frame has at least so many columns, and reaches to a number that is easily read if no `top` is given.
    """
    columns = max((columns, *(len(one.values) for one in series)))
    under = [0.0] * columns
    if not top:
        rows = (one.values for one in series)
        highest = [value or 0.0 for row in rows for value in row] if lines else _sums(series)
        top = round_up(max(highest, default=0.0))
    shapes = []
    for one in series:
        path, before = "", None
        for at, value in enumerate(one.values):
            if lines and value is not None:
                x, y = WIDTH * (at + 0.5) / columns, HEIGHT * (1 - min(1.0, value / top))
                # a line begins with a dash, which is all of a value that has no neighbors
                path += f"M{x:.1f} {y:.1f}h6" if before is None else f"L{x:.1f} {y:.1f}"
            elif not lines and value:
                x, y = WIDTH * at / columns, HEIGHT * (1 - under[at] / top)
                wide, tall = 0.88 * WIDTH / columns, HEIGHT * value / top
                path += f"M{x:.1f} {y:.1f}v{-tall:.1f}h{wide:.1f}v{tall:.1f}z"
                under[at] += value
            before = value
        if path:
            shapes.append(Shape(one.color, path, "line" if lines else "filled"))
    return Plot(id, heading, about, unit, series, shapes, top, columns)


def _sums(series: Sequence[Series]) -> list[float]:
    most = max((len(one.values) for one in series), default=0)
    return [
        sum(one.values[at] or 0.0 for one in series if at < len(one.values)) for at in range(most)
    ]


def round_up(value: float) -> float:
    """The top of an axis for values up to this one: a number that is easily read, and so is half of it."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((top * power for top in (1, 2, 4, 6, 8) if top * power >= value), 10 * power)


# Requests over time

READ: Final = 10_000

Span = Literal["", "hour", "day", "week", "all"]
# Seconds of a range, and of each of its buckets; those of "all" follow from what is kept.
SPANS: Final[Mapping[Span, tuple[float, float]]] = {
    "hour": (3600.0, 60.0),
    "day": (86_400.0, 1800.0),
    "week": (604_800.0, 10_800.0),
}


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The requests of a range, newest first, and when its buckets begin; `cut` if there may be more than were read."""

    span: Span
    rows: Sequence[TraceSummary]
    begins: Sequence[float]
    end: float
    cut: bool = False

    @property
    def moments(self) -> list[float]:
        """Five moments from its begin to its end, for an axis."""
        start = self.begins[0]
        return [start + (self.end - start) * at / 4 for at in range(5)]

    @property
    def filled(self) -> list[int]:
        """The buckets that have a request, by number."""
        return [at for at, some in enumerate(self.split()) if some]

    def split(self) -> list[list[TraceSummary]]:
        """The requests by bucket."""
        start = self.begins[0]
        step = (self.end - start) / len(self.begins)
        found: list[list[TraceSummary]] = [[] for _ in self.begins]
        for row in self.rows:
            found[min(len(found) - 1, max(0, int((row.created - start) / step)))].append(row)
        return found

    def measure(self, value: Callable[[list[TraceSummary]], float | None]) -> list[float | None]:
        """A value for each bucket."""
        return [value(some) for some in self.split()]


def read_range(gate: Millgate, span: Span, now: float | None = None) -> TimeRange:
    """The requests of a range; of the shortest that has any, if none is asked for."""
    now = time.time() if now is None else now
    rows = gate.traces(limit=READ)
    if not span:
        age = now - rows[0].created if rows else now
        span = next((name for name, (length, _) in SPANS.items() if age < length), "all")
    if span in SPANS:
        length, step = SPANS[span]
        end = (now // step + 1) * step
        buckets = round(length / step)
    else:
        start = min((row.created for row in rows), default=now)
        end, buckets = max(now, start + 1.0), 50
        length, step = end - start, (end - start) / buckets
    since = end - length
    kept = [row for row in rows if row.created >= since]
    begins = [since + step * at for at in range(buckets)]
    return TimeRange(span, kept, begins, end, cut=len(kept) == READ)
