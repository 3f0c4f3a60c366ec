"""ClimbCache: a conversation that comes again with more messages climbs on from where it stood.

An agent sends its whole conversation with every request. The cache holds the last conversations with the climber of
each; one that begins with the messages of a held one is read from there on only. Comparing is a fraction of reading,
and it is all that counts: whoever sends other messages gets what `climb` says of those. Equal is what Python calls
equal, so a history in which nothing changed but 1 to true keeps its notes. Nobody may change messages that were given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from headgate.guard.calls import events_of, is_plain
from headgate.guard.ladder import Climb, Climber
from headgate.guard.policy import CirclesPolicy, Rung

LEAST = 16  # messages; shorter conversations are read as fast as they are looked up
ENTRIES = 64  # conversations held at most ...
MAX_WEIGHT = (
    16 << 20
)  # ... and the weight of their requests together, of which none has more than a quarter
MESSAGE = 300  # what a message weighs beside its text


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """A conversation as far as it is read. One that was read further is another entry."""

    rungs: tuple[tuple[int, Rung], ...]
    messages: tuple[Any, ...]
    size: int
    climber: Climber


class ClimbCache:
    """Climbs of recent conversations. Safe to share between threads; it forgets the oldest beyond its limits."""

    def __init__(self, *, entries: int = ENTRIES, max_weight: int = MAX_WEIGHT) -> None:
        self._most, self._max_weight = entries, max_weight
        self._entries: list[_Entry] = []  # least recently used first
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """Weight of the requests that are held."""
        return sum(entry.size for entry in self._entries)

    def climb(self, messages: Sequence[Any], policy: CirclesPolicy, *, size: int) -> Climb:
        """What `ladder.climb` says of a conversation whose request weighs so much."""
        given, rungs = tuple(messages), policy.active
        size += MESSAGE * len(given)
        if not rungs or is_plain(given):
            return Climb()
        entry = self._take(given, rungs) or _Entry(rungs, (), 0, Climber(policy))
        climber, known = entry.climber, entry.messages
        for at in range(len(known), len(given)):
            climber.feed(at, events_of(given[at]))
        found = climber.climb
        if len(given) >= LEAST and size <= self._max_weight // 4:
            self._keep(_Entry(rungs, known + given[len(known) :], size, climber))
        return found

    def _take(
        self, messages: tuple[Any, ...], rungs: tuple[tuple[int, Rung], ...]
    ) -> _Entry | None:
        """The longest held conversation that this one begins with; it is the caller's alone from now on."""
        with self._lock:
            entries = [e for e in self._entries if len(e.messages) <= len(messages)]
        for entry in sorted(entries, key=lambda entry: -len(entry.messages)):
            if entry.rungs == rungs and _begins_with(messages, entry.messages):
                with self._lock:
                    if entry in self._entries:
                        self._entries.remove(entry)
                        return entry
        return None

    def _keep(self, entry: _Entry) -> None:
        with self._lock:
            self._entries.append(entry)
            while len(self._entries) > self._most or self.size > self._max_weight:
                del self._entries[0]


def _begins_with(messages: tuple[Any, ...], known: tuple[Any, ...]) -> bool:
    """Whether a conversation begins with a known one; the last message first, which tells most apart."""
    size = len(known)
    try:
        return bool(messages[size - 1] == known[-1] and messages[:size] == known)
    except RecursionError:  # nested deeper than Python compares
        return False
