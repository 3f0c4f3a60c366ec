"""Plots: series as SVG shapes in a frame of fixed size. The macro `plot` draws every one of them, with its axes.

The frame has a column for each bucket of time, or for each turn. A column without a value is a gap in the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import floor, log10
from typing import Final, Literal

WIDTH, HEIGHT = 1000, 160
# Tops of an axis, times a power of ten: half of each is a whole number too, except of the first.
_TOPS: Final = (1, 2, 4, 6, 8, 10)

Unit = Literal["count", "tokens", "ms", "share", "money", ""]
"""What the numbers of a plot are; those without a unit are not written at its axis."""


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn: its name for people, its color (a class of the stylesheet), and a value for each column."""

    name: str
    color: str
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """A series as drawn: the data of an SVG path, and whether it is filled, a line, or dots."""

    color: str
    path: str
    style: Literal["filled", "line", "dots"] = "line"


@dataclass(frozen=True, slots=True)
class Plot:
    """Shapes in the frame, the value at its top, and what they were drawn from."""

    shapes: tuple[Shape, ...]
    top: float
    series: tuple[Series, ...]

    @property
    def columns(self) -> int:
        """How many columns the frame has."""
        return max((len(one.values) for one in self.series), default=0)


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot with its heading, what it shows, and the unit of its numbers."""

    id: str
    heading: str
    about: str
    plot: Plot
    unit: Unit


def draw_lines(series: Sequence[Series], *, top: float | None = None) -> Plot:
    """Each series as a line over the columns."""
    highest = top or round_up(max((v for one in series for v in one.values if v), default=0.0))
    shapes = (shape for one in series for shape in _line(one, highest))
    return Plot(tuple(shape for shape in shapes if shape.path), highest, tuple(series))


def draw_bars(series: Sequence[Series], *, top: float | None = None, columns: int = 0) -> Plot:
    """The series on top of each other, as one bar for each column; the frame has at least so many columns."""
    count = max((columns, *(len(one.values) for one in series)))
    series = [
        replace(one, values=one.values + (None,) * (count - len(one.values))) for one in series
    ]
    sums = [sum(one.values[at] or 0 for one in series) for at in range(count)]
    top = top or round_up(max(sums, default=0.0))
    under = [0.0] * count
    shapes = []
    for one in series:
        path = ""
        for at, value in enumerate(one.values):
            if value:
                path += _box(at, count, under[at] / top, value / top)
                under[at] += value
        if path:
            shapes.append(Shape(one.color, path, style="filled"))
    return Plot(tuple(shapes), top, tuple(series))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that a share of the values does not exceed; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def round_up(value: float) -> float:
    """The top of an axis for values up to this one: a number that is easily read."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((top * power for top in _TOPS if top * power >= value), 10 * power)


def _line(series: Series, top: float) -> tuple[Shape, Shape]:
    """A series as a line, and as dots the values that have no neighbor to be joined with."""
    column = WIDTH / max(1, len(series.values))
    placed = [None if v is None else ((at + 0.5) * column, _y(v / top)) for at, v in enumerate(series.values)]  # fmt: skip
    path = dots = ""
    for before, now, after in zip((None, *placed), placed, (*placed[1:], None), strict=False):
        if now is None:
            continue
        x, y = now
        if before is None and after is None:
            dots += f"M{x:.1f} {y:.1f}h0"  # the ends of a line are round, and this one is all ends
        else:
            path += f"{'M' if before is None else 'L'}{x:.1f} {y:.1f}"
    return Shape(series.color, path), Shape(series.color, dots, "dots")


def _box(at: int, count: int, low: float, high: float) -> str:
    column = WIDTH / count
    wide, tall = column * 0.88, HEIGHT * high
    return f"M{at * column:.1f} {_y(low):.1f}v{-tall:.1f}h{wide:.1f}v{tall:.1f}z"


def _y(share: float) -> float:
    """The height of a share of the frame; a share beyond 0..1 is drawn on the edge."""
    return HEIGHT * (1 - min(1.0, max(0.0, share)))


def bucket_edges(start: float, end: float, count: int) -> list[tuple[float, float]]:
    """A span of time in buckets of equal length; the last one includes its end."""
    step = max(end - start, 1e-9) / count
    edges = [start + step * at for at in range(count)] + [end]
    return list(pairwise(edges))
