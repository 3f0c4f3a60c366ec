"""Ranges: the requests of the last hour, day or week, in buckets of time, and totals over all of them.

Only the rows of traces are read, at most ten thousand of the newest, which is what a tenant keeps by default. That
takes about 120 ms. A short range reads fewer.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, Literal, NamedTuple

from millgate.gateway import Millgate
from millgate.service.dashboard.plots import bucket_edges
from millgate.types import TraceSummary

READ: Final = 10_000
_FIRST = 500  # rows that are read before it is known whether they reach back far enough
_MORE = 5  # times as many, if they do not

Span = Literal["", "hour", "day", "week", "all"]


class SpanLength(NamedTuple):
    """The length of a range and of its buckets, in seconds; 0 if that follows from what is kept."""

    seconds: float
    bucket: float


SPANS: Final[Mapping[Span, SpanLength]] = {
    "hour": SpanLength(3600.0, 60.0),
    "day": SpanLength(86_400.0, 1800.0),
    "week": SpanLength(604_800.0, 10_800.0),
    "all": SpanLength(0.0, 0.0),
}
_BUCKETS = 50  # of a range without a length of its own


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The requests of a range, newest first, and its buckets; `cut` if there may be more than were read."""

    span: Span
    rows: Sequence[TraceSummary]
    edges: Sequence[tuple[float, float]]
    cut: bool

    @property
    def moments(self) -> list[float]:
        """Five moments from its begin to its end, for an axis."""
        start, end = self.edges[0][0], self.edges[-1][1]
        return [start + (end - start) * at / 4 for at in range(5)]

    @property
    def filled(self) -> list[int]:
        """The buckets that have a request, by number."""
        return [at for at, some in enumerate(self.split()) if some]

    def split(self) -> list[list[TraceSummary]]:
        """The requests by bucket."""
        start, end = self.edges[0][0], self.edges[-1][1]
        step = (end - start) / len(self.edges) or 1.0
        found: list[list[TraceSummary]] = [[] for _ in self.edges]
        for row in self.rows:
            found[min(len(found) - 1, max(0, int((row.created - start) / step)))].append(row)
        return found


async def read_range(gate: Millgate, span: Span, now: float | None = None) -> TimeRange:
    """The requests of a range; of the shortest that has any, if none is asked for."""
    now = time.time() if now is None else now
    limit = _FIRST
    rows = await gate.atraces(limit=limit)
    if not span:
        age = now - rows[0].created if rows else inf
        span = next((name for name, length in SPANS.items() if age < length.seconds), "all")
    edges = _round_edges(SPANS[span], now)
    since = edges[0][0] if edges else 0.0
    while len(rows) == limit < READ and rows[-1].created >= since:
        limit = min(READ, limit * _MORE)
        rows = await gate.atraces(limit=limit)
    cut = len(rows) == READ and rows[-1].created >= since
    rows = [row for row in rows if row.created >= since]
    start = min((row.created for row in rows), default=now)
    edges = edges or bucket_edges(start, max(now, start + 1.0), _BUCKETS)
    return TimeRange(span, rows, edges, cut)


def _round_edges(length: SpanLength, now: float) -> list[tuple[float, float]]:
    """Buckets that end with the one of now and begin at round times; none if the range has no length."""
    if not length.bucket:
        return []
    end = (now // length.bucket + 1) * length.bucket
    return bucket_edges(end - length.seconds, end, round(length.seconds / length.bucket))
