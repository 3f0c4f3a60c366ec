"""Collection: the index of one collection of one tenant, following its change feed.

A batch of changes becomes a small segment; the chunks it replaces or removes die where they lie. Segments
of one size class are merged when four of them stand side by side, so a chunk is rewritten once per class
and a query meets few segments. `view` is the newest moment; views handed out before stay as they were.
"""

from collections.abc import Sequence
from threading import Lock

import numpy as np

from headgate.index.segment import build, join
from headgate.index.view import Live, View
from headgate.protocols import Store
from headgate.types import Change

_BATCH = 10_000  # changes read at a time
_FAN = 4  # segments of one size class that are merged
_SMALL = 64  # chunks; segments below this are all of the first class
_DEAD = 0.25  # share of dead chunks from which a segment is rewritten


class Collection:
    """The index of one collection."""

    def __init__(self, store: Store, tenant: str, name: str) -> None:
        self._store = store
        self._tenant = tenant
        self._name = name
        self._lock = Lock()
        self._seen = 0
        self._view = self._snapshot(())

    def view(self) -> View:
        """The collection as the store has it now."""
        if self._store.head(self._tenant, self._name) != self._seen:
            with self._lock:
                self._follow()
        return self._view

    def _snapshot(self, lives: Sequence[Live]) -> View:
        return View(lives, lambda ids: self._store.chunks(self._tenant, self._name, ids))

    def _follow(self) -> None:
        lives = list(self._view.lives)
        while changes := self._store.changes(self._tenant, self._name, self._seen, _BATCH):
            lives = tidy(absorb(lives, changes))
            self._seen = changes[-1].seq
        self._view = self._snapshot(lives)


def absorb(lives: Sequence[Live], changes: Sequence[Change]) -> list[Live]:
    """The segments after a batch of changes: what was replaced or removed is dead, what is new is added."""
    gone = View(lives, lambda _: ()).find([change.id for change in changes])
    gone = gone[gone >= 0]
    out, base = [], 0
    for live in lives:
        local = gone[(gone >= base) & (gone < base + len(live))] - base
        out.append(live.killed(local) if len(local) else live)
        base += len(live)
    fresh = [change for change in changes if change.chunk is not None]
    if fresh:
        chunks = [change.chunk for change in fresh if change.chunk is not None]
        out.append(Live(build(chunks, [change.place for change in fresh])))
    return out


def tidy(lives: Sequence[Live]) -> list[Live]:
    """The segments with neighbors of one size class merged, and those with many dead chunks rewritten."""
    out = [_rewritten(live) for live in lives]
    out = [live for live in out if len(live.dead) < len(live)]
    while len(run := _tail(out)) >= _FAN:
        out[-len(run) :] = [_merged(run)]
    return out


def _rewritten(live: Live) -> Live:
    if not len(live.dead) or len(live.dead) < _DEAD * len(live) or len(live.dead) == len(live):
        return live
    return _merged([live])


def _merged(lives: Sequence[Live]) -> Live:
    return Live(join([(live.segment, live.alive) for live in lives]))


def _tail(lives: Sequence[Live]) -> Sequence[Live]:
    """The last segments that are no larger in class than the last one."""
    if not lives:
        return ()
    bound, begin = _class(lives[-1]), len(lives)
    while begin and _class(lives[begin - 1]) <= bound:
        begin -= 1
    return lives[begin:]


def _class(live: Live) -> int:
    return int(np.log(max(len(live), _SMALL) / _SMALL) / np.log(_FAN))
