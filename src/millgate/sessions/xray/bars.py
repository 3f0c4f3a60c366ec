"""Bars: the window turn by turn, each turn a bar of what fills it, for the page of an x-ray and for the dashboard; and
what draws every plot of both, as SVG shapes in a frame of fixed size.

A token counts once, in the first of these that holds for it: system prompt, tool definitions, injected by Millgate,
made stale by a later edit, there already word for word, new in this turn, from earlier turns.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final, Literal, NamedTuple

from millgate.sessions.xray.findings import Window
from millgate.text.table import count_of

WIDTH, HEIGHT = 1000, 160  # of the frame of a plot
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
                x, y = WIDTH * (at + 0.5) / columns, height_of(value / top)
                # a line begins with a dash, which is all of a value that has no neighbors
                path += f"M{x:.1f} {y:.1f}h6" if before is None else f"L{x:.1f} {y:.1f}"
            elif not lines and value:
                x, y = WIDTH * at / columns, height_of(under[at] / top)
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


def height_of(share: float) -> float:
    """The height of a share of the frame; a share beyond 0..1 is drawn on the edge."""
    return HEIGHT * (1 - min(1.0, max(0.0, share)))


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
        Series(label, name, [bar[name] for bar in bars])
        for name, label in SEGMENTS.items()
        if (name != "free" or is_whole) and any(bar[name] for bar in bars)
    ]
    top = max(sum(bar.values()) for bar in bars) if is_whole else round_up(max(used, reported))
    heading = f"The window in {count_of(len(bars), 'turn')}"
    about = "the tokens that fill it; the table below has the numbers"
    return draw("bars", heading, about, "tokens", *series, top=top, columns=COLUMNS)


def draw_cache(windows: Sequence[Window]) -> Plot | None:
    """What the provider read from its cache at each turn; None if it has none, or did not say."""
    if not any(window.read or window.written or window.broke for window in windows):
        return None
    counts = zip(*((window.read, window.written, window.fresh) for window in windows), strict=True)
    kinds = zip(CACHE.items(), counts, strict=True)
    series = [Series(label, name, some) for (name, label), some in kinds]
    heading = f"The provider's cache in {count_of(len(windows), 'turn')}"
    about = count_of(sum(bool(window.broke) for window in windows), "break")
    return draw("cache", heading, about, "tokens", *series, columns=COLUMNS)
