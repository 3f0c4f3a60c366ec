"""Plots: series over time as SVG shapes in a frame of fixed size. A template draws them, with the same numbers in a
table.

Time runs in buckets of equal length; a bucket without a value is a gap in the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 1000, 160
DOT = 3.0  # the radius of a value that has no neighbor to be joined with


@dataclass(frozen=True, slots=True)
class Series:
    """What is drawn: its name for people, its color (a class of the stylesheet), and a value for each bucket."""

    name: str
    color: str
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """A series as drawn: the data of an SVG path, and whether it is filled."""

    color: str
    path: str
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Shapes in the frame, the value at its top, and what they were drawn from."""

    shapes: tuple[Shape, ...]
    top: float
    series: tuple[Series, ...]


def draw_lines(series: Sequence[Series], *, top: float | None = None) -> Plot:
    """Each series as a line over the buckets."""
    highest = top or _highest(series)
    shapes = [Shape(one.color, _line(one.values, highest)) for one in series]
    return Plot(tuple(shape for shape in shapes if shape.path), highest, tuple(series))


def draw_bars(series: Sequence[Series]) -> Plot:
    """The series on top of each other, as one bar for each bucket."""
    count = max((len(one.values) for one in series), default=0)
    sums = [sum(one.values[at] or 0 for one in series) for at in range(count)]
    top = max([*sums, 0]) or 1.0
    under = [0.0] * count
    shapes = []
    for one in series:
        path = ""
        for at, value in enumerate(one.values):
            if value:
                path += _box(at, count, under[at] / top, value / top)
                under[at] += value
        if path:
            shapes.append(Shape(one.color, path, filled=True))
    return Plot(tuple(shapes), top, tuple(series))


def draw_steps(series: Series, points: Sequence[tuple[float, float]], *, top: float) -> Plot:
    """A value that holds until it changes; the points are (when, value), oldest first."""
    start, end = points[0][0], points[-1][0]
    span = (end - start) or 1.0
    placed = [(WIDTH * (when - start) / span, _y(value / top)) for when, value in points]
    path = f"M{placed[0][0]:.1f} {placed[0][1]:.1f}"
    path += "".join(f"H{x:.1f}V{y:.1f}" for x, y in placed[1:])
    values = tuple(value for _, value in points)
    return Plot((Shape(series.color, path),), top, (Series(series.name, series.color, values),))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that a share of the values does not exceed; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _highest(series: Sequence[Series]) -> float:
    return max((v for one in series for v in one.values if v is not None), default=0.0) or 1.0


def _line(values: Sequence[float | None], top: float) -> str:
    column = WIDTH / max(1, len(values))
    placed = [None if v is None else ((at + 0.5) * column, _y(v / top)) for at, v in enumerate(values)]  # fmt: skip
    path = ""
    for before, now, after in zip((None, *placed), placed, (*placed[1:], None), strict=False):
        if now is None:
            continue
        x, y = now
        if before is None and after is None:
            path += f"M{x - DOT:.1f} {y:.1f}h{2 * DOT:.1f}"
        else:
            path += f"{'M' if before is None else 'L'}{x:.1f} {y:.1f}"
    return path


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
