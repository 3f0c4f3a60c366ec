"""Cache: what a recorded session read from its provider's prompt cache, and what broke it.

The provider's own counts are the yardstick: a call should read what the last one read and wrote. A transcript holds no
requests, so the cause is told from what it does hold: a compaction, the clock, or how much was still read. A log of
requests holds them, and then the first difference is named. A model that is asked on the side has a conversation of its
own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from millgate.sessions.prompt_cache.difference import Difference, compare
from millgate.sessions.prompt_cache.judgment import HIT, judge
from millgate.sessions.prompt_cache.segments import LONG_TTL_S, TTL_S, Prompt, read_prompt
from millgate.sessions.xray.findings import CacheBreak, CacheUse, add
from millgate.sessions.xray.formats import CallUsage
from millgate.spending.prices import Price, Prices

MOST_BREAKS = 200  # of one session that are kept, the first; all are counted


@dataclass(slots=True)
class _Call:
    usage: CallUsage
    at: float | None
    prompt: Prompt | None
    price: Price | None
    is_compacted: bool = False
    """Whether the window was compacted since."""


class CacheFollower:
    """Follows the calls of one session."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._calls: dict[str, _Call] = {}  # the last one of each model, the newest last
        self.use = CacheUse()

    def note_compaction(self) -> None:
        """The window was compacted: the next call of each model cannot read its messages."""
        for call in self._calls.values():
            call.is_compacted = True

    def grow(self, usage: CallUsage) -> None:
        """A further line of the same answer: what it gave out is more by now."""
        call = self._calls[usage.model]
        more = usage.output - call.usage.output
        if more > 0:
            call.usage = usage
            cost = call.price.cost(output=more) if call.price else None
            self.use = add(self.use, CacheUse(output=more, cost=cost))

    def add(
        self, usage: CallUsage, *, turn: int, time: str, request: Mapping[str, Any] | None = None
    ) -> Price | None:
        """Take in a call; its price, if the model has one."""
        counts, newest = usage.counts, next(reversed(self._calls.values()), None)
        # a model that is new takes over a window of the same size; one that is asked on the side gets less
        is_switch = newest and counts.total >= HIT * newest.usage.counts.total
        last = self._calls.pop(usage.model, newest if is_switch else None)
        prompt = read_prompt(request, before=last.prompt if last else None) if request else None
        price = self._prices.find(usage.model, input_tokens=counts.total)
        now = self._calls[usage.model] = _Call(usage, read_time(time), prompt, price)
        cost = None
        if price is not None:
            hour = counts.written if usage.is_long else 0
            cost = price.cost(fresh=counts.fresh, read=counts.read, written=counts.written, hour=hour, output=usage.output)  # fmt: skip
        use = CacheUse(1, counts.read, counts.written, counts.fresh, usage.output, cost)
        self.use = add(self.use, use)
        if last is not None:
            self._judge(last, now, turn, time)
        return price

    def _judge(self, last: _Call, now: _Call, turn: int, time: str) -> None:
        usage, before = now.usage, last.usage.model
        difference = Difference("compacted", "its first message") if last.is_compacted else None
        if before != usage.model:
            difference = Difference("model", f"the model ({before} to {usage.model})")
        elif last.prompt is not None and now.prompt is not None:
            difference = compare(last.prompt, now.prompt, is_compacted=last.is_compacted)
        judged = judge(
            last.usage.counts,
            usage.counts,
            gap_s=None if last.at is None or now.at is None else max(0.0, now.at - last.at),
            ttl_s=LONG_TTL_S if last.usage.is_long else TTL_S,
            difference=difference,
            is_known=now.prompt is not None,
            is_marked=now.prompt is None or now.prompt.is_marked,
        )
        if not judged.is_break:
            return
        cost = judged.cost(now.price, long=usage.is_long)
        broke = CacheBreak(turn, time, judged.blame, judged.reason, judged.lost, cost)
        listed = (broke,) if len(self.use.breaks) < MOST_BREAKS else ()
        self.use = add(self.use, CacheUse(breaks=listed, lost=judged.lost, lost_cost=cost))


def read_time(text: str) -> float | None:
    """A moment as ISO 8601 writes it, in seconds; None if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
