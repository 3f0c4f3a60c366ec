"""Collection: the index of one collection of one tenant, following its change feed.

A batch of changes becomes a small segment; the chunks it replaces or removes die where they lie. Segments
of one size class are merged when four of them stand side by side, so a chunk is rewritten once per class
and a query meets few segments. `view` is the newest moment; views handed out before stay as they were.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np

from headgate.errors import ConfigError
from headgate.index.files import Damaged
from headgate.index.folder import State, mark_of, read, store, writing
from headgate.index.live_segment import LiveSegment
from headgate.index.segment import build, join
from headgate.index.snapshot import Snapshot
from headgate.index.vectors import Embeddings
from headgate.protocols import Embedder, Store
from headgate.types import Change, Chunk

# new or dead chunks from which a change is saved at once; fewer are saved on close ...
_FLUSH = 1_000
_SHARE = 4  # ... as is less than this part of the collection, so that growing it rewrites each chunk a few times
_BATCH = 10_000  # changes read at a time
_FAN = 4  # segments of one size class that are merged
_SMALL = 64  # chunks; segments below this are all of the first class
_COMPACT = 250_000  # chunks; up to here all segments are made one when they are saved
_DEAD = 0.25  # share of dead chunks from which a segment is rewritten


class Collection:
    """The index of one collection; in a folder, or in memory only when there is none."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        name: str,
        *,
        folder: Path | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._name = name
        self._folder = folder
        self._embeddings = Embeddings(store, tenant, name, embedder) if embedder else None
        self._lock = Lock()
        self._degraded = ""
        self._state = State("", 0)
        self._view = self._snapshot(())
        self._opened = False
        self._fresh = 0

    def view(self) -> Snapshot:
        """The collection as the store has it now."""
        if not self._opened or self._head() != self._state.seen:
            with self._lock:
                self._degraded = ""
                self._open()
                if self._head() != self._state.seen:
                    self._follow()
                    self._flush(least=max(_FLUSH, self._view.count // _SHARE))
        return self._view

    def flush(self) -> None:
        """Save what is not on disk yet."""
        with self._lock:
            self._flush(least=1)

    def _head(self) -> int:
        return self._store.head(self._tenant, self._name)

    def _snapshot(self, lives: Sequence[LiveSegment]) -> Snapshot:
        def fetch(ids: Sequence[str]) -> Sequence[Chunk]:
            return self._store.chunks(self._tenant, self._name, ids)

        return Snapshot(lives, fetch, degraded=self._degraded)

    def _open(self) -> None:
        """Begin with what the folder holds, where that can be used and belongs to this store."""
        if self._opened:
            return
        if self._folder is None:
            self._opened = True
            return
        try:
            state = read(self._folder)
        except Damaged as error:
            self._opened = True
            self._distrust(f"the index was rebuilt: {error.message}")
            return
        if state is None:
            self._opened = True
            return
        if self._kind and state.kind != self._kind:
            raise ConfigError(
                f"collection {self._name!r} was indexed with {state.kind or 'no embeddings'}, "
                f"and the settings ask for {self._kind}",
                hint=f"run: headgate reindex --collection {self._name}, or set embed.model back",
            )
        self._opened = True
        self._adopt(state)
        self._follow()
        if state.seen > self._head() or self._view.count != self._expected():
            self._distrust("the index was rebuilt: it did not belong to this store")

    def _distrust(self, why: str) -> None:
        """Begin afresh; what the folder holds is written over."""
        assert self._folder is not None
        self._degraded = why
        self._adopt(State(mark_of(self._folder), 0, (), self._kind))

    @property
    def _kind(self) -> str:
        return self._embeddings.kind if self._embeddings else ""

    def _expected(self) -> int:
        size = self._store.collections(self._tenant).get(self._name)
        return size.chunks if size else 0

    def _adopt(self, state: State) -> None:
        self._state = state
        self._view = self._snapshot(state.lives)

    def _follow(self) -> None:
        """Read the feed to its end."""
        lives, seen = list(self._state.lives), self._state.seen
        while changes := self._store.changes(self._tenant, self._name, seen, _BATCH):
            seen = changes[-1].seq
            lives = tidy(absorb(lives, changes, self._embeddings))
            self._fresh += len(changes)
        self._adopt(State(self._state.mark, seen, tuple(lives), self._kind))

    def _flush(self, *, least: int) -> None:
        """Save, when at least so many chunks are new, unless another process is at it."""
        if self._folder is None or self._fresh < least:
            return
        try:
            with writing(self._folder) as mine:
                if not mine:
                    return
                if mark_of(self._folder) != self._state.mark:
                    self._rebase()
                lives = compact(self._state.lives)
                self._adopt(store(self._folder, replace(self._state, lives=tuple(lives))))
                self._fresh = 0
        except OSError as error:
            self._degraded = f"the index cannot be saved and lives in memory: {error}"
            self._folder = None
            self._adopt(self._state)

    def _rebase(self) -> None:
        """Another process saved meanwhile: go on from its files, so that no two states mix."""
        assert self._folder is not None
        try:
            state = read(self._folder)
        except Damaged:
            state = None
        if state is not None and state.seen <= self._head():
            self._adopt(state)
            self._follow()
        else:  # our own files may be gone by now, so all is written again
            lives = tuple(replace(live, file="") for live in self._state.lives)
            self._adopt(State("", self._state.seen, lives, self._kind))


def absorb(
    lives: Sequence[LiveSegment], changes: Sequence[Change], embeddings: Embeddings | None = None
) -> list[LiveSegment]:
    """The segments after a batch of changes: what was replaced or removed is dead, what is new is added."""
    gone = Snapshot(lives, lambda _: ()).find([change.id for change in changes])
    gone = gone[gone >= 0]
    out, base = [], 0
    for live in lives:
        local = gone[(gone >= base) & (gone < base + len(live))] - base
        out.append(live.killed(local) if len(local) else live)
        base += len(live)
    fresh = [change for change in changes if change.chunk is not None]
    if fresh:
        chunks = [change.chunk for change in fresh if change.chunk is not None]
        vectors = embeddings.of(chunks, changes[-1].seq) if embeddings else None
        out.append(LiveSegment(build(chunks, [change.place for change in fresh]), vectors=vectors))
    return out


def tidy(lives: Sequence[LiveSegment]) -> list[LiveSegment]:
    """The segments with neighbors of one size class merged, and those with many dead chunks rewritten."""
    out = [_rewritten(live) for live in lives]
    out = [live for live in out if len(live.dead) < len(live)]
    while len(run := _tail(out)) >= _FAN:
        out[-len(run) :] = [_merged(run)]
    return out


def compact(lives: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
    """One segment where that is cheap: a query's cost has a part that grows with their number."""
    rest = sum(map(len, lives)) - max(map(len, lives), default=0)
    if len(lives) < 2 or sum(map(len, lives)) > _COMPACT or rest * 8 < max(map(len, lives)):
        return lives
    return [_merged(lives)]


def _rewritten(live: LiveSegment) -> LiveSegment:
    if not len(live.dead) or len(live.dead) < _DEAD * len(live) or len(live.dead) == len(live):
        return live
    return _merged([live])


def _merged(lives: Sequence[LiveSegment]) -> LiveSegment:
    rows = [live.vectors[live.alive] for live in lives if live.vectors is not None]
    vectors = np.concatenate(rows) if len(rows) == len(lives) else None
    whole = join([(live.segment, live.alive) for live in lives])
    begun = None if len(lives[0].dead) else lives[0].begun
    return LiveSegment(whole, vectors=vectors, begun=begun)


def _tail(lives: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
    """The last segments that are no larger in class than the last one."""
    if not lives:
        return ()
    bound, begin = _class(lives[-1]), len(lives)
    while begin and _class(lives[begin - 1]) <= bound:
        begin -= 1
    return lives[begin:]


def _class(live: LiveSegment) -> int:
    return int(np.log(max(len(live), _SMALL) / _SMALL) / np.log(_FAN))
