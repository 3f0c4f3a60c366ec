"""Plots: series as SVG shapes in a frame of fixed size. The macro `plot` draws every one of them, with its axes.

The frame has a column for each bucket of time, or for each turn. A column without a value is a gap in the line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from millgate.sessions.xray.bars import WIDTH, Plot, Series, Shape, height_of, round_up

Unit = Literal["count", "tokens", "ms", "share", "money", ""]
"""What the numbers of a plot are; those without a unit are not written at its axis."""


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


def percentile(values: Sequence[float], share: float) -> float | None:
    """The value that a share of the values does not exceed; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _line(series: Series, top: float) -> tuple[Shape, Shape]:
    """A series as a line, and as dots the values that have no neighbor to be joined with."""
    column = WIDTH / max(1, len(series.values))
    placed = [None if v is None else ((at + 0.5) * column, height_of(v / top)) for at, v in enumerate(series.values)]  # fmt: skip
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


def bucket_edges(start: float, end: float, count: int) -> list[tuple[float, float]]:
    """A span of time in buckets of equal length; the last one includes its end."""
    step = max(end - start, 1e-9) / count
    edges = [start + step * at for at in range(count)] + [end]
    return list(pairwise(edges))
