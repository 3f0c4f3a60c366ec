"""Bars: the window turn by turn, each turn a bar of what fills it. The page of an x-ray and the dashboard draw the
same.

A token counts once, in the first of these that holds for it: system prompt, tool definitions, injected by Millgate,
made stale by a later edit, there already word for word, new in this turn, from earlier turns.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from millgate.sessions.xray.findings import Window

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

GAP = 0.12  # of a column
COLUMNS = (
    12  # that a frame has at least: the only turn of a session is a bar, and not the whole picture
)


class Shape(NamedTuple):
    """All parts of one segment, as the data of an SVG path."""

    segment: str
    path: str


class Chart(NamedTuple):
    """Bars in a frame of some size: their shapes, the width of a column, the tokens at the top, and a line."""

    shapes: tuple[Shape, ...]
    column: float
    top: int
    reported: str
    """Points of a polyline: what the provider counted; empty if it did not say."""


class BreakMark(NamedTuple):
    """Where the cache broke: the turn, the middle of its column, and why."""

    turn: int
    x: float
    reason: str


class CacheChart(NamedTuple):
    """The cache row under the bars: its shapes, the tokens at the top, and a mark at each break."""

    shapes: tuple[Shape, ...]
    top: int
    marks: tuple[BreakMark, ...]


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
    return found | {
        "earlier": left,
        "folded": window.folded,
        "free": max(0, window.length - window.tokens),
    }


def draw(windows: Sequence[Window], width: int, height: int) -> Chart:
    """The bars of a session, side by side, in a frame."""
    bars = [segments(now, before) for before, now in zip((None, *windows), windows, strict=False)]
    top = max([1, *(sum(bar.values()) for bar in bars), *(w.reported for w in windows)])
    column = width / max(COLUMNS, len(bars))
    under = [0] * len(bars)
    shapes = []
    for name in SEGMENTS:
        parts = (
            (at, low, bar[name]) for at, (low, bar) in enumerate(zip(under, bars, strict=True))
        )
        if path := _path(parts, column, height / top, height):
            shapes.append(Shape(name, path))
        under = [low + bar[name] for low, bar in zip(under, bars, strict=True)]
    reported = ""
    if any(window.reported for window in windows):
        reported = " ".join(
            f"{(at + 0.5) * column:.1f},{height * (1 - window.reported / top):.1f}"
            for at, window in enumerate(windows)
        )
    return Chart(tuple(shapes), column, top, reported)


def draw_cache(windows: Sequence[Window], width: int, height: int) -> CacheChart | None:
    """What the provider read from its cache at each turn; None if it did not say."""
    counts = [(w.read, w.written, w.fresh) for w in windows]
    top = max(map(sum, counts), default=0)
    if not top:
        return None
    column = width / max(COLUMNS, len(counts))
    shapes = []
    for at, name in enumerate(CACHE):
        parts = ((n, sum(c[:at]), c[at]) for n, c in enumerate(counts))
        if path := _path(parts, column, height / top, height):
            shapes.append(Shape(name, path))
    wide = column * (1 - GAP)
    marks = (
        BreakMark(w.turn, at * column + wide / 2, w.broke)
        for at, w in enumerate(windows)
        if w.broke
    )
    return CacheChart(tuple(shapes), top, tuple(marks))


def _path(parts: Iterable[tuple[int, int, int]], column: float, scale: float, height: int) -> str:
    """Boxes as one SVG path; each part is (column, tokens below, tokens)."""
    wide = column * (1 - GAP)
    return "".join(
        f"M{at * column:.1f} {height - low * scale:.1f}v{-size * scale:.1f}h{wide:.1f}v{size * scale:.1f}z"
        for at, low, size in parts
        if size
    )
