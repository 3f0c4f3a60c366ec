"""Witness: one call beside the last one of its conversation: whether it only adds to it, and what the cache gave.

A request that shares no message with an earlier one begins a conversation, and breaks nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from millgate.sessions.conversation import Conversation
from millgate.sessions.prompt_cache.difference import Difference, compare
from millgate.sessions.prompt_cache.judgment import CacheCounts, Judgment, judge
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

    def judge(self, counts: CacheCounts | None, at: float) -> Judgment | None:
        """What the provider read at that time, and why not more; None if there is nothing to compare."""
        last = self.last
        if last is None or last.counts is None or counts is None:
            return None
        return judge(
            last.counts,
            counts,
            gap_s=at - last.at,
            ttl_s=last.sent.ttl_s,
            difference=self.difference,
            by_millgate=self.by_millgate,
        )


def observe(
    original: Prompt,
    last: Conversation | None,
    fields: Mapping[str, Any],
    *,
    betas: str = "",
    is_changed: bool = False,
) -> Observation:
    """Compare a request with the last one. `fields` are those of the request as it is sent, if Millgate changed it."""
    sent = read_prompt(fields, betas=betas, before=last.sent if last else None) if is_changed else original  # fmt: skip
    if last is None:
        return Observation(original, sent)
    difference = compare(last.sent, sent)
    if difference is not None and difference.line >= 0:
        now = quote_system_line(fields, difference.block, difference.line)
        difference = replace(difference, now=now)
    by_millgate = difference is not None and compare(last.original, original) is None
    return Observation(original, sent, last, difference, by_millgate)
