"""Bars: the window turn by turn, each turn a bar of what fills it, for the page of an x-ray and for the dashboard.

A token counts once, in the first of these that holds for it: system prompt, tool definitions, injected by Millgate,
made stale by a later edit, there already word for word, new in this turn, from earlier turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import floor, log10
from typing import Final, Literal

from millgate.sessions.xray.findings import Window

WIDTH, HEIGHT = 1000, 160  # of the frame of a plot
# Tops of an axis, times a power of ten: half of each is a whole number too, except of the first.
_TOPS: Final = (1, 2, 4, 6, 8, 10)
# that a frame has at least: the only turn of a session is a bar, and not the whole picture
COLUMNS = 12
# A window is drawn whole if it is at most this many times as long as what was used of it; else only what was used is.
# Chosen, not measured: two thirds of the picture at least show what fills the window.
WHOLE = 1.5

SEGMENTS: Final[Mapping[str, str]] = {
    "system": "system prompt",
    "tools": "tool definitions",
    "injected": "injected by Millgate",
    "earlier": "from earlier turns",
    "stale": "made stale by an edit",
    "repeated": "there already",
    "new": "new in this turn",
    "folded": "folded",
    "free": "free",
}
"""What a bar is made of, from below, and what a person reads for it."""

CACHE: Final[Mapping[str, str]] = {
    "cached": "read from the provider's cache",
    "written": "written to it",
    "fresh": "neither: paid in full",
}
"""What the input of a call was for its provider, from below, and what a person reads for it."""


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


def round_up(value: float) -> float:
    """The top of an axis for values up to this one: a number that is easily read."""
    if value <= 0:
        return 1.0
    power = 10.0 ** floor(log10(value))
    return next((top * power for top in _TOPS if top * power >= value), 10 * power)


def height_of(share: float) -> float:
    """The height of a share of the frame; a share beyond 0..1 is drawn on the edge."""
    return HEIGHT * (1 - min(1.0, max(0.0, share)))


def _box(at: int, count: int, low: float, high: float) -> str:
    column = WIDTH / count
    wide, tall = column * 0.88, HEIGHT * high
    return f"M{at * column:.1f} {height_of(low):.1f}v{-tall:.1f}h{wide:.1f}v{tall:.1f}z"


def list_segments(windows: Sequence[Window]) -> list[dict[str, int]]:
    """The tokens of each segment of the windows of a session."""
    return [segments(now, last) for last, now in zip((None, *windows), windows, strict=False)]


def segments(window: Window, before: Window | None = None) -> dict[str, int]:
    """The tokens of each segment of a window; `before` is the window of the turn before it."""
    repeated_now = window.repeated - (before.repeated if before else 0)
    sizes = (
        ("system", window.by_kind.get("system", 0)),
        ("tools", window.tools),
        ("injected", window.injected),
        ("stale", window.stale),
        ("repeated", window.repeated),
        ("new", window.added - max(0, repeated_now)),
    )
    left, found = window.tokens, dict.fromkeys(SEGMENTS, 0)
    for name, size in sizes:
        found[name] = min(left, max(0, size))
        left -= found[name]
    free = max(0, window.length - window.tokens)
    return found | {"earlier": left, "folded": window.folded, "free": free}


def draw_window(bars: Sequence[Mapping[str, int]], length: int = 0, reported: int = 0) -> Plot:
    """A bar a turn of what fills the window, which is `length` tokens long, as high as what was used of it."""
    used = max((sum(bar.values()) - bar["free"] for bar in bars), default=0)
    is_whole = 0 < length <= WHOLE * used
    series = [
        Series(label, name, tuple(float(bar[name]) for bar in bars))
        for name, label in SEGMENTS.items()
        if (name != "free" or is_whole) and any(bar[name] for bar in bars)
    ]
    whole = max(sum(bar.values()) for bar in bars) if is_whole else round_up(max(used, reported))
    return draw_bars(series, top=whole, columns=COLUMNS)


def draw_cache(windows: Sequence[Window]) -> Plot | None:
    """What the provider read from its cache at each turn; None if it has none, or did not say."""
    if not any(window.read or window.written or window.broke for window in windows):
        return None
    counts = zip(*((window.read, window.written, window.fresh) for window in windows), strict=True)
    kinds = zip(CACHE.items(), counts, strict=True)
    series = [Series(label, name, tuple(map(float, some))) for (name, label), some in kinds]
    return draw_bars(series, columns=COLUMNS)
