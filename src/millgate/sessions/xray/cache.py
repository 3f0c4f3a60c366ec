"""Cache: what a recorded session read from its provider's prompt cache, and what broke it.

The provider's own counts are the yardstick: a call should read what the last one read and wrote. A transcript holds no
requests, so the cause is told from what it does hold: a compaction, the clock, or how much was still read. A log of
requests holds them, and then the first difference is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from millgate.sessions.prompt_cache.difference import Difference, compare
from millgate.sessions.prompt_cache.judgment import HIT, judge
from millgate.sessions.prompt_cache.segments import LONG_TTL_S, TTL_S, Prompt, read_prompt
from millgate.sessions.xray.findings import CacheBreak, CacheUse, add
from millgate.sessions.xray.usage import CallUsage
from millgate.spending.prices import Price, Prices

MOST_BREAKS = 200  # of one session that are kept, the first; all are counted
_COMPACTED = Difference("compacted", "its first message")


@dataclass(slots=True)
class _Call:
    usage: CallUsage
    at: float | None
    prompt: Prompt | None


@dataclass
class CacheFollower:
    """Follows the calls of one session; a model that is asked on the side has a conversation of its own."""

    prices: Prices = field(default_factory=Prices)
    use: CacheUse = field(default_factory=CacheUse)
    _last: dict[str, _Call] = field(default_factory=dict)
    _compacted: set[str] = field(default_factory=set)
    _seen: str = ""

    def note_compaction(self) -> None:
        """The window was compacted: the next call of each model cannot read its messages."""
        self._compacted = set(self._last)

    def note_call(
        self, usage: CallUsage, *, turn: int, time: str, request: Mapping[str, Any] | None = None
    ) -> None:
        """Take in a call. The lines of one answer report the same call, and only its output grows."""
        if usage.id and usage.id == self._seen:
            self._grow(usage)
            return
        self._seen = usage.id
        at = read_time(time)
        last = self._last.get(usage.model) or self._find_switched(usage)
        before = last.prompt if last else None
        prompt = None if request is None else read_prompt(request, before=before)
        self._last.pop(usage.model, None)  # the newest stands last
        self._last[usage.model] = _Call(usage, at, prompt)
        self._add(usage)
        if last is not None:
            self._judge(last, self._last[usage.model], turn, time)
        self._compacted.discard(usage.model)

    def _find_switched(self, usage: CallUsage) -> _Call | None:
        """The last call, if a model that is new takes over its window: one that is asked on the side gets less."""
        last = next(reversed(self._last.values()), None)
        return last if last and usage.counts.total >= HIT * last.usage.counts.total else None

    def _judge(self, last: _Call, now: _Call, turn: int, time: str) -> None:
        usage, before = now.usage, last.usage.model
        is_compacted = usage.model in self._compacted
        difference = _COMPACTED if is_compacted else None
        if before != usage.model:
            difference = Difference("model", f"the model ({before} to {usage.model})")
        elif last.prompt is not None and now.prompt is not None:
            difference = compare(last.prompt, now.prompt, is_compacted=is_compacted)
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
        cost = judged.cost(self._price(usage), long=usage.is_long)
        broke = CacheBreak(turn, time, judged.blame, judged.reason, judged.lost, cost)
        listed = (broke,) if len(self.use.breaks) < MOST_BREAKS else ()
        self.use = add(self.use, CacheUse(breaks=listed, lost=judged.lost, lost_cost=cost))

    def _add(self, usage: CallUsage) -> None:
        counts, price = usage.counts, self._price(usage)
        cost = None
        if price is not None:
            hour = counts.written if usage.is_long else 0
            cost = price.cost(
                fresh=counts.fresh, read=counts.read, written=counts.written, hour=hour, output=usage.output,
            )  # fmt: skip
        use = CacheUse(1, counts.read, counts.written, counts.fresh, usage.output, cost)
        self.use = add(self.use, use)

    def _grow(self, usage: CallUsage) -> None:
        """A further line of the same answer: what it gave out is more by now."""
        last = self._last.get(usage.model)
        more = usage.output - last.usage.output if last else 0
        if last is None or more <= 0:
            return
        last.usage = replace(last.usage, output=usage.output)
        price = self._price(usage)
        cost = price.cost(output=more) if price else None
        self.use = add(self.use, CacheUse(output=more, cost=cost))

    def _price(self, usage: CallUsage) -> Price | None:
        return self.prices.find(usage.model, input_tokens=usage.counts.total)


def read_time(text: str) -> float | None:
    """A moment as ISO 8601 writes it, in seconds; None if it is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
