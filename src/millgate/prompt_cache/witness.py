"""Witness: remembers the last requests of each session, and says why a call was not read from the cache.

A session may hold several conversations at once: an agent, its subagents, a small model that writes titles. A request
is compared with the remembered one that it shares most messages with. One that shares none begins a conversation, and
breaks nothing.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from millgate.prompt_cache.difference import Difference, common_messages, compare, same_beginning
from millgate.prompt_cache.judgment import CacheCounts, Judgment, judge
from millgate.prompt_cache.segments import Prompt, quote_system_line, read_prompt
from millgate.text.cache import Cache

CONVERSATIONS = 8  # remembered of one session: an agent and the subagents that work at once
# Bytes of all remembered requests together. A request of 200 000 tokens with 760 segments takes 0.2 MB, so this holds
# the last ones of some 150 such conversations.
MAX_BYTES = 32 << 20
MAX_AGE_S = 6 * 3600.0  # a cache lives for an hour at most; later nothing can be expected


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that was sent, and what the provider counted."""

    prompt: Prompt
    original: Prompt
    """The request as the client sent it; the same object if Millgate changed nothing."""
    at: float
    counts: CacheCounts | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One request beside the last one of its conversation; `finish` adds what the provider counted."""

    key: str
    seen: Seen
    last: Seen | None
    difference: Difference | None
    by_millgate: bool = False


class CacheWitness:
    """Watches the requests of many sessions."""

    def __init__(
        self, *, max_bytes: int = MAX_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._sessions: Cache[str, tuple[Seen, ...]] = Cache(
            max_bytes, _measure, max_age_s=MAX_AGE_S
        )
        self._lock = Lock()

    @property
    def bytes(self) -> int:
        """About how much memory the remembered requests take."""
        return self._sessions.bytes

    def observe(
        self,
        session: str,
        fields: Mapping[str, Any],
        *,
        sent: Mapping[str, Any] | None = None,
        betas: str = "",
        read: Prompt | None = None,
    ) -> Observation:
        """Read a request as the client wrote it, unless it is `read` already, and as it is `sent` if Millgate changed
        it.
        """
        known = self._sessions.get(session) or ()
        guess = known[-1] if known else None
        original = read or read_prompt(
            fields, betas=betas, before=guess.original if guess else None
        )
        prompt = original
        if sent is not None and sent is not fields:
            prompt = read_prompt(sent, betas=betas, before=guess.prompt if guess else None)
        last = find_last(original, known)
        difference = compare(last.prompt, prompt) if last else None
        if difference is not None and difference.line >= 0:
            now = quote_system_line(sent or fields, difference.block, difference.line)
            difference = replace(difference, now=now)
        by_millgate = (
            difference is not None and last is not None and compare(last.original, original) is None
        )
        seen = Seen(prompt, original, self._clock())
        return Observation(session, seen, last, difference, by_millgate)

    def find_sent(self, session: str, fields: Mapping[str, Any]) -> Prompt | None:
        """The last request of the conversation that this one goes on with, as it was sent; None if there is none."""
        known = self._sessions.get(session) or ()
        if not known:
            return None
        last = find_last(read_prompt(fields, before=known[-1].original), known)
        return last.prompt if last else None

    def finish(self, observation: Observation, counts: CacheCounts | None) -> Judgment | None:
        """Remember the request, and judge it by what the provider counted; None if there is nothing to compare."""
        seen = replace(observation.seen, counts=counts)
        last = observation.last
        with self._lock:
            known = [old for old in self._sessions.get(observation.key) or () if old is not last]
            self._sessions.put(observation.key, (*known, seen)[-CONVERSATIONS:])
        if last is None or last.counts is None or counts is None:
            return None
        return judge(
            last.counts,
            counts,
            gap_s=seen.at - last.at,
            ttl_s=last.prompt.ttl_s,
            difference=observation.difference,
            by_millgate=observation.by_millgate,
        )


def find_last(prompt: Prompt, known: tuple[Seen, ...]) -> Seen | None:
    """The last request of the same conversation: the one that shares most messages, the newest of equals.

    Another model may be asked about the first message of a conversation, for its title. It goes on with the
    conversation only if it shares more than that. If no message is shared, a compacted conversation still has the
    model, the tools and the system prompt of a longer one.
    """
    best, most = None, 0
    for seen in reversed(known):
        shared = common_messages(seen.original, prompt)
        if seen.original.model == prompt.model:
            shared *= 2  # of equals the same model
        elif shared < 2:
            continue
        if shared > most:
            best, most = seen, shared
    if best is not None:
        return best
    return next((seen for seen in reversed(known) if _goes_on(seen.original, prompt)), None)


def _goes_on(old: Prompt, new: Prompt) -> bool:
    """Whether a request whose first message is new goes on with the conversation: it holds most of the messages, or it
    is a compacted one.
    """
    if old.model != new.model or not same_beginning(old, new):
        return False
    mine, theirs = ({e.checksum for e in p.elements if e.kind == "message"} for p in (old, new))
    return 2 * len(mine & theirs) > min(len(mine), len(theirs)) or old.chars > new.chars


def _measure(key: str, value: tuple[Seen, ...]) -> int:
    """The bytes of the prompts. Those of one conversation share their elements, so the largest counts in full."""
    return len(key) + sum(seen.prompt.bytes for seen in value)
