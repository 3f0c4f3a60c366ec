"""Collection: the index of one collection of one tenant, following its change feed.

A batch of changes becomes a small segment; the chunks it replaces or removes are marked dead in their segments. Segments
of one size class are merged when four of them stand side by side, so a chunk is rewritten once per class
and a query meets few segments. `snapshot` is the newest state; snapshots handed out before stay as they were.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

import numpy as np

from headgate.errors import ConfigError
from headgate.index.files import DamagedIndex
from headgate.index.folder import IndexState, manifest_mark, read_state, write_lock, write_state
from headgate.index.live_segment import LiveSegment
from headgate.index.segment import build, join
from headgate.index.snapshot import Snapshot
from headgate.index.vectors import EmbeddingCache
from headgate.protocols import Embedder, Store
from headgate.types import Change, Chunk

# new or dead chunks from which a change is saved at once; fewer are saved on close ...
_FLUSH = 1_000
_FLUSH_PART = 4  # ... as is less than this part of the collection, so that growing it rewrites each chunk a few times
_BATCH = 10_000  # changes read at a time
_MERGE_FACTOR = 4  # segments of one size class that are merged
_SMALLEST_CLASS = 64  # chunks; segments below this are all of the first class
_COMPACT_UP_TO = 250_000  # chunks; up to here all segments are made one when they are saved
_DEAD_SHARE = 0.25  # share of dead chunks from which a segment is rewritten


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
        self._embeddings = EmbeddingCache(store, tenant, name, embedder) if embedder else None
        self._lock = Lock()
        self._degraded = ""
        self._state = IndexState("", 0)
        self._current = self._snapshot_of(())
        self._opened = False
        self._unsaved = 0

    def snapshot(self) -> Snapshot:
        """The collection as the store has it now."""
        if not self._opened or self._head() != self._state.seen:
            with self._lock:
                self._degraded = ""
                self._load()
                if self._head() != self._state.seen:
                    self._catch_up()
                    self._flush(least=max(_FLUSH, self._current.count // _FLUSH_PART))
        return self._current

    def flush(self) -> None:
        """Save what is not on disk yet."""
        with self._lock:
            self._flush(least=1)

    def _head(self) -> int:
        return self._store.head(self._tenant, self._name)

    def _snapshot_of(self, lives: Sequence[LiveSegment]) -> Snapshot:
        def fetch(ids: Sequence[str]) -> Sequence[Chunk]:
            return self._store.chunks(self._tenant, self._name, ids)

        return Snapshot(lives, fetch, degraded=self._degraded)

    def _load(self) -> None:
        """Load what the folder holds, where it is intact and belongs to this store."""
        if self._opened:
            return
        if self._folder is None:
            self._opened = True
            return
        try:
            state = read_state(self._folder)
        except DamagedIndex as error:
            self._opened = True
            self._start_over(f"the index was rebuilt: {error.message}")
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
        self._set_state(state)
        self._catch_up()
        if state.seen > self._head() or self._current.count != self._stored_count():
            self._start_over("the index was rebuilt: it did not belong to this store")

    def _start_over(self, why: str) -> None:
        """Start with an empty index; the files in the folder are overwritten later."""
        assert self._folder is not None
        self._degraded = why
        self._set_state(IndexState(manifest_mark(self._folder), 0, (), self._kind))

    @property
    def _kind(self) -> str:
        return self._embeddings.kind if self._embeddings else ""

    def _stored_count(self) -> int:
        size = self._store.collections(self._tenant).get(self._name)
        return size.chunks if size else 0

    def _set_state(self, state: IndexState) -> None:
        self._state = state
        self._current = self._snapshot_of(state.lives)

    def _catch_up(self) -> None:
        """Read the feed to its end."""
        lives, seen = list(self._state.lives), self._state.seen
        while changes := self._store.changes(self._tenant, self._name, seen, _BATCH):
            seen = changes[-1].seq
            lives = tidy(absorb(lives, changes, self._embeddings))
            self._unsaved += len(changes)
        self._set_state(IndexState(self._state.mark, seen, tuple(lives), self._kind))

    def _flush(self, *, least: int) -> None:
        """Save when at least `least` changes are unsaved, unless another process is saving."""
        if self._folder is None or self._unsaved < least:
            return
        try:
            with write_lock(self._folder) as locked:
                if not locked:
                    return
                if manifest_mark(self._folder) != self._state.mark:
                    self._rebase()
                lives = compact(self._state.lives)
                self._set_state(write_state(self._folder, replace(self._state, lives=tuple(lives))))
                self._unsaved = 0
        except OSError as error:
            self._degraded = f"the index cannot be saved and lives in memory: {error}"
            self._folder = None
            self._set_state(self._state)

    def _rebase(self) -> None:
        """Continue from the files that another process saved meanwhile, so that no two states mix."""
        assert self._folder is not None
        try:
            state = read_state(self._folder)
        except DamagedIndex:
            state = None
        if state is not None and state.seen <= self._head():
            self._set_state(state)
            self._catch_up()
        else:  # our own files may be deleted by now, so write everything again
            lives = tuple(replace(live, file="") for live in self._state.lives)
            self._set_state(IndexState("", self._state.seen, lives, self._kind))


def absorb(
    lives: Sequence[LiveSegment],
    changes: Sequence[Change],
    embeddings: EmbeddingCache | None = None,
) -> list[LiveSegment]:
    """The segments after a batch of changes: what was replaced or removed is dead, what is new is added."""
    gone = Snapshot(lives, lambda _: ()).find([change.id for change in changes])
    gone = gone[gone >= 0]
    out, base = [], 0
    for live in lives:
        local = gone[(gone >= base) & (gone < base + len(live))] - base
        out.append(live.with_dead(local) if len(local) else live)
        base += len(live)
    fresh = [change for change in changes if change.chunk is not None]
    if fresh:
        chunks = [change.chunk for change in fresh if change.chunk is not None]
        vectors = embeddings.rows_of(chunks, changes[-1].seq) if embeddings else None
        out.append(LiveSegment(build(chunks, [change.place for change in fresh]), vectors=vectors))
    return out


def tidy(lives: Sequence[LiveSegment]) -> list[LiveSegment]:
    """The segments with neighbors of one size class merged, and those with many dead chunks rewritten."""
    out = [_rewrite_if_sparse(live) for live in lives]
    out = [live for live in out if len(live.dead) < len(live)]
    while len(run := _tail(out)) >= _MERGE_FACTOR:
        out[-len(run) :] = [_merge(run)]
    return out


def compact(lives: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
    """One segment where that is cheap: a query's cost has a part that grows with their number."""
    rest = sum(map(len, lives)) - max(map(len, lives), default=0)
    if len(lives) < 2 or sum(map(len, lives)) > _COMPACT_UP_TO or rest * 8 < max(map(len, lives)):
        return lives
    return [_merge(lives)]


def _rewrite_if_sparse(live: LiveSegment) -> LiveSegment:
    if (
        not len(live.dead)
        or len(live.dead) < _DEAD_SHARE * len(live)
        or len(live.dead) == len(live)
    ):
        return live
    return _merge([live])


def _merge(lives: Sequence[LiveSegment]) -> LiveSegment:
    rows = [live.vectors[live.alive] for live in lives if live.vectors is not None]
    vectors = np.concatenate(rows) if len(rows) == len(lives) else None
    whole = join([(live.segment, live.alive) for live in lives])
    graph_file = None if len(lives[0].dead) else lives[0].graph_file
    return LiveSegment(whole, vectors=vectors, graph_file=graph_file)


def _tail(lives: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
    """The last segments that are no larger in class than the last one."""
    if not lives:
        return ()
    bound, begin = _size_class(lives[-1]), len(lives)
    while begin and _size_class(lives[begin - 1]) <= bound:
        begin -= 1
    return lives[begin:]


def _size_class(live: LiveSegment) -> int:
    return int(np.log(max(len(live), _SMALLEST_CLASS) / _SMALLEST_CLASS) / np.log(_MERGE_FACTOR))
