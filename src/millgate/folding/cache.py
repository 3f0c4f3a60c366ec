"""FoldCache: conversations that were folded lately: one that comes again with a turn more is read from there on.

A conversation is known by a digest of each message, all those before it included. So none of its texts is kept beside
what the search for circles holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import Any

import orjson

from millgate.folding.folder import Folder
from millgate.folding.report import FoldReport
from millgate.folding.rules import Clears
from millgate.text.cache import Cache

MAX_CONVERSATIONS = 64  # as many as the ladder of circles follows
# Bytes of all together. A window of 200 000 tokens takes under a megabyte, and its results since a person spoke.
MAX_BYTES = 64 << 20
MESSAGE_BYTES = 60  # of a digest in its list


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    key: object
    digests: tuple[bytes, ...]
    folder: Folder
    bytes: int


class FoldCache:
    """Folders of recent conversations. Safe to share between threads."""

    def __init__(self) -> None:
        self._names = count()
        self._entries: Cache[int, _Entry] = Cache(
            MAX_BYTES, lambda _, entry: entry.bytes, max_entries=MAX_CONVERSATIONS
        )

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size(self) -> int:
        """About how much memory the conversations take."""
        return self._entries.bytes

    def fold(
        self,
        messages: Sequence[Any],
        *,
        owner: str = "",
        clears: Clears | None = None,
        start: int = 0,
    ) -> tuple[list[Any], FoldReport]:
        """The messages as they are sent, and what was folded; `owner` keeps the conversations of callers apart."""
        clears = clears or Clears()
        key, digests = (owner, clears, start), _digest(messages)
        folder = self._check_out(key, digests) or Folder(clears=clears, start=start)
        folder.extend(messages)
        sent, report = folder.apply(messages), folder.report
        size = folder.bytes + MESSAGE_BYTES * len(digests)
        self._entries.put(next(self._names), _Entry(key, digests, folder, size))
        return sent, report

    def _check_out(self, key: object, digests: tuple[bytes, ...]) -> Folder | None:
        """Take out the longest held conversation that this one begins with: two threads must not extend it."""
        held = [
            (len(entry.digests), name)
            for name, entry in self._entries.items()
            if entry.key == key and entry.digests == digests[: len(entry.digests)]
        ]
        for _, name in sorted(held, reverse=True):
            taken = self._entries.pop(name)  # None if another thread was faster
            if taken is not None:
                return taken.folder
        return None


def _digest(messages: Sequence[Any]) -> tuple[bytes, ...]:
    """A digest of each message with all before it."""
    chain, digests = blake2b(digest_size=16), []
    for message in messages:
        chain.update(orjson.dumps(message, default=repr))
        digests.append(chain.digest())
    return tuple(digests)
