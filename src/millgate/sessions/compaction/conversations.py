"""Conversations: what each conversation of a session held when it was last seen, for whoever has its messages in hand.

The proxy has requests, and compares their segments before it reads a text (`memory.py`). A framework's hook has the
messages alone. A session may hold several conversations: a window replaces the one with which it shares most.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from millgate.sessions.compaction.account import Account, account
from millgate.sessions.compaction.items import Item
from millgate.sessions.compaction.notice import Compaction, notice
from millgate.sessions.compaction.window import Window, read_window
from millgate.text.cache import Cache
from millgate.text.fence import without_fences
from millgate.transcript.parts import read

MAX_CHARS = 32 << 20  # of all windows together, as the proxy holds
MAX_CONVERSATIONS = 8  # of one session: an agent and its subagents


@dataclass(slots=True)
class Conversation:
    """A conversation as it was last seen."""

    session: str
    window: Window
    turn: int = 0
    found: Compaction | None = None
    """The compaction since the time before; None if the window only grew."""
    owed: Account | None = None
    """A compaction of which nothing was put back yet."""
    carried: tuple[Item, ...] = ()
    """Instructions and to-dos that its compactions lost so far."""


class Conversations:
    """The conversations of many sessions; those seen longest ago are forgotten."""

    def __init__(self) -> None:
        self._sessions: Cache[str, tuple[Conversation, ...]] = Cache(MAX_CHARS, _measure)
        self._lock = Lock()

    def observe(
        self, session: str, messages: Iterable[Mapping[str, Any]], preamble: Sequence[str] = ()
    ) -> Conversation:
        """Read a conversation, and compare it with what it was when it was last seen."""
        messages = list(messages)
        window = read_window(messages, preamble)
        with self._lock:
            known = self._sessions.get(session) or ()
            last, found = _find_last(known, window)
            now = Conversation(session, window, window.turns, found)
            if last is not None:
                now.owed, now.carried = last.owed, last.carried
            if last is not None and found is not None:
                blocks = [fence for message in messages for fence in _fences(message)]
                now.owed = account(found, window, turn=last.turn, carried=last.carried, shown=blocks)  # fmt: skip
                now.carried = now.owed.owed
            others = [one for one in known if one is not last]
            self._sessions.put(session, (*others, now)[-MAX_CONVERSATIONS:])
        return now


def _find_last(
    known: Sequence[Conversation], window: Window
) -> tuple[Conversation | None, Compaction | None]:
    """The conversation that a window goes on from, and the compaction between them."""
    newest_first = list(reversed(known))
    shared = [_count_shared(one.window, window) for one in newest_first]
    best = newest_first[shared.index(max(shared))] if any(shared) else None
    for one in newest_first if best is None else [best]:
        found = notice(one.window, window)
        if found is not None:
            return one, found
    return best, None


def _count_shared(old: Window, new: Window) -> int:
    """How many messages with words both have; 0 if it is less than half of the smaller one's."""
    mine, theirs = ({m.number for m in w.messages if m.words.strip()} for w in (old, new))
    shared = len(mine & theirs)
    return shared if 2 * shared >= min(len(mine), len(theirs)) else 0


def _fences(message: Mapping[str, Any]) -> Iterator[str]:
    """The texts of a message in which a block of ours stands; a window has them without it."""
    texts = (part.text for part in read(message))
    yield from (text for text in texts if without_fences(text) != text)


def _measure(session: str, known: tuple[Conversation, ...]) -> int:
    return len(session) + sum(one.window.chars for one in known)
