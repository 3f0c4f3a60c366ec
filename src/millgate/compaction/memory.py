"""WindowMemory: the last window of each conversation, for as long as a compaction of it may come.

A session may hold several conversations at once: an agent and its subagents. A request replaces the one that it goes
on from. What is held is the request as the client sent it, which is in memory anyway while it is served; no request is
held beyond MAX_BYTES of all together, and none is written anywhere.
"""

from dataclasses import dataclass
from threading import Lock

from millgate.compaction.account import Account
from millgate.compaction.items import Item
from millgate.compaction.notice import Compaction, least_lost
from millgate.compaction.policy import Mode
from millgate.compaction.window import count_compacted
from millgate.prompt_cache.segments import Prompt
from millgate.prompt_cache.witness import CONVERSATIONS, MAX_AGE_S, Seen, find_last
from millgate.text.cache import Cache

MAX_BYTES = 32 << 20  # of all requests: about 40 windows of 200 000 tokens
RECENT = 8  # sessions of one caller that a new conversation may go on from
MAX_CALLERS = 10_000


@dataclass(frozen=True, slots=True)
class Owed:
    """A compaction of which nothing was put back yet, and from which message on that may be done."""

    told: Account
    at: int


@dataclass(frozen=True, slots=True)
class Held:
    """A request that was sent: its session, its segments, its bytes, and which call of the session it was."""

    session: str
    seen: Seen
    body: bytes
    turn: int = 1
    owed: Owed | None = None
    """A compaction after which no person has spoken yet."""
    carried: tuple[Item, ...] = ()
    """Instructions and to-dos that compactions lost so far."""
    cleared: range | None = None
    """Which results of tools, counted from the oldest, the service cleared with its answer for the first time; None if
    it never cleared anything.
    """


@dataclass(slots=True)
class Noticed:
    """What is known of a request's window: what it goes on from, and the compaction before it if there was one."""

    prompt: Prompt
    mode: Mode
    last: Held | None = None
    turn: int = 1
    found: Compaction | None = None
    """The compaction before this very request ..."""
    told: Account | None = None
    """... and what left in it."""
    owed: Owed | None = None
    """A compaction, this or an earlier one, of which nothing was put back yet."""


class WindowMemory:
    """The windows of many sessions; a caller is a tenant and a key."""

    def __init__(self) -> None:
        self._windows: Cache[tuple[str, str], tuple[Held, ...]] = Cache(
            MAX_BYTES, _measure, max_age_s=MAX_AGE_S
        )
        self._recent: Cache[str, tuple[str, ...]] = Cache(1 << 20, max_entries=MAX_CALLERS)
        self._lock = Lock()

    def last(self, caller: str, session: str, prompt: Prompt) -> Held | None:
        """The request that this one goes on from, as far as the messages tell."""
        known = self._windows.get((caller, session)) or ()
        found = find_last(prompt, tuple(held.seen for held in known))
        return next((held for held in known if held.seen is found), None)

    def newest(self, caller: str, session: str) -> Held | None:
        """The last request of a session."""
        known = self._windows.get((caller, session)) or ()
        return known[-1] if known else None

    def find_shortened(
        self, caller: str, session: str, prompt: Prompt, body: bytes, last: Held | None
    ) -> list[Held]:
        """The windows of the session of which this request may be a compaction, the likeliest first."""
        known = (last,) if last is not None else self._windows.get((caller, session)) or ()
        compacted = count_compacted(body)
        return [
            held
            for held in reversed(known)
            if _has_lost(held.seen.original, prompt) or compacted > count_compacted(held.body)
        ]

    def elsewhere(self, caller: str, session: str) -> list[Held]:
        """The windows of the caller's other sessions, those used last first."""
        names = reversed(self._recent.get(caller) or ())
        sessions = (self._windows.get((caller, name)) or () for name in names if name != session)
        return [held for known in sessions for held in reversed(known)]

    def remember(self, caller: str, held: Held, last: Held | None) -> None:
        """Take in a request that was answered, in the place of the one that it goes on from."""
        key = caller, held.session
        with self._lock:
            known = [one for one in self._windows.get(key) or () if one is not last]
            self._windows.put(key, (*known, held)[-CONVERSATIONS:])
            names = [name for name in self._recent.get(caller) or () if name != held.session]
            self._recent.put(caller, (*names, held.session)[-RECENT:])


def _has_lost(old: Prompt, new: Prompt) -> bool:
    """Whether the later request lacks so much of the messages that it may be compacted."""
    kept = {segment.checksum for segment in new.segments if segment.kind == "message"}
    had = [segment for segment in old.segments if segment.kind == "message"]
    lost = sum(segment.chars for segment in had if segment.checksum not in kept)
    return lost > 0 and lost >= least_lost(sum(segment.chars for segment in had))


def _measure(key: tuple[str, str], known: tuple[Held, ...]) -> int:
    return sum(map(len, key)) + sum(len(held.body) + held.seen.original.bytes for held in known)
