"""Witness: one call beside the last one of its conversation: whether it only adds to it, and what the cache gave.

A request that shares no message with an earlier one begins a conversation, and breaks nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from millgate.sessions.conversation import Conversation
from millgate.sessions.prompt_cache.difference import Difference, compare
from millgate.sessions.prompt_cache.judgment import LEAST_CACHED, CacheCounts, Judgment, judge
from millgate.sessions.prompt_cache.segments import Prompt, quote_system_line, read_prompt


@dataclass(frozen=True, slots=True)
class Observation:
    """A request beside the last one of its conversation."""

    original: Prompt
    sent: Prompt
    last: Conversation | None = None
    difference: Difference | None = None
    """Where it stops to be an extension of the last one; None if it only adds to it."""
    by_millgate: bool = False
    """Whether the client's own requests extend each other, so that the difference is ours."""

    @property
    def is_unmarked(self) -> bool:
        """Whether the request is large enough for a cache, and asks for none."""
        return self.sent.chars >= 4 * LEAST_CACHED and not self.sent.is_marked

    def judge(
        self, counts: CacheCounts | None, at: float, *, diagnosis: str = ""
    ) -> Judgment | None:
        """What the provider read at that time, and why not more; None if there is nothing to compare.

        `diagnosis` is what the provider itself says about a miss.
        """
        last = self.last
        if last is None or last.counts is None or counts is None:
            return None
        return judge(
            last.counts,
            counts,
            gap_s=at - last.at,
            ttl_s=last.sent.ttl_s,
            difference=self.difference,
            is_marked=self.sent.is_marked,
            by_millgate=self.by_millgate,
            diagnosis=diagnosis,
        )


def observe(
    original: Prompt,
    last: Conversation | None,
    fields: Mapping[str, Any],
    *,
    betas: str = "",
    is_changed: bool = False,
    is_compacted: bool = False,
) -> Observation:
    """Compare a request with the last one. `fields` are those of the request as it is sent, if Millgate changed it."""
    sent = read_prompt(fields, betas=betas, before=last.sent if last else None) if is_changed else original  # fmt: skip
    if last is None:
        return Observation(original, sent)
    difference = compare(last.sent, sent, is_compacted=is_compacted)
    if difference is not None and difference.line >= 0:
        now = quote_system_line(fields, difference.block, difference.line)
        difference = replace(difference, now=now)
    by_millgate = difference is not None and compare(last.original, original) is None
    return Observation(original, sent, last, difference, by_millgate)
