"""Collection: the index of one collection of one tenant, following its change feed.

A batch of changes becomes a small segment; the chunks it replaces or removes are marked dead in their segments.
Segments of one size class are merged when four of them stand side by side, so a chunk is rewritten once per class and a
query meets few segments. A snapshot is complete when it has reached the end of the feed once; only complete ones are
handed out, and those handed out before stay as they were.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np

from headgate.bugs import describe
from headgate.errors import ConfigError, NotReady, StoreError
from headgate.index.files import DamagedIndex, is_large, join
from headgate.index.folder import (
    IndexState,
    has_unchecked,
    manifest_is_there,
    manifest_mark,
    new_mark,
    read_state,
    write_lock,
    write_state,
)
from headgate.index.live_segment import LiveSegment
from headgate.index.published import PublishedIndex
from headgate.index.segment import build
from headgate.index.snapshot import Snapshot
from headgate.index.storage import SharedStorage
from headgate.index.vectors import EmbeddingCache
from headgate.protocols import Embedder, Store
from headgate.types import Change, Chunk

# new or dead chunks from which a change is saved at once; fewer are saved on close ...
_FLUSH = 1_000
_FLUSH_PART = 4  # ... as is less than this part of the collection, so that growing it rewrites each chunk a few times,
_FLUSH_S = 60.0  # ... unless nothing was saved for so long: what is not saved is held in memory
_BATCH = 5_000  # changes read at a time
_WORDS = 150_000  # of chunks that are read into one segment, at most: they take 15 MB on the way
_IN_WORDS = bytes(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())
_AT_ONCE = 50  # changes that a request takes in itself, some 20 ms; more are left to the background
_PATIENCE_S = 0.03  # that a request waits for another thread that takes changes in ...
_OPENING_S = 1.0  # ... or opens the index
_RETRY_S = 30.0  # after a failed save
_UNSAVED = "unsaved"  # a mark that no file has
_MERGE_FACTOR = 4  # segments of one size class that are merged
_SMALLEST_CLASS = 64  # chunks; segments below this are all of the first class
_COMPACT_UP_TO = 250_000  # chunks of the last segments that are made one when they are saved
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
        segments: SharedStorage | None = None,
    ) -> None:
        self._store = store
        self._tenant = tenant
        self._name = name
        self._folder = folder
        self._embeddings = EmbeddingCache(store, tenant, name, embedder) if embedder else None
        self._published = (
            PublishedIndex(segments, store, tenant, name, self._kind)
            if folder and segments
            else None
        )
        self._degraded = ""
        self._unsaved_reason = ""
        self._state = IndexState("", 0)
        self._current = self._snapshot_of(())
        self._opened = False
        self._unchecked = False
        self._unsaved, self._saved_at = 0, time.monotonic()
        self._save_after = 0.0
        self._lock = Lock()

    def snapshot(self) -> Snapshot:
        """The collection as the store has it now; waits until the index is there."""
        if self._is_current():
            return self._take_current()
        with self._lock:
            self._degraded = ""
            self._load()
            target = self._head()
            while not self._follow_batch() or self._state.seen < target:
                pass
        return self._current

    def latest(self) -> tuple[Snapshot, bool]:
        """The last complete snapshot at once, and whether the store has gone on since; NotReady where there is none.

        A few changes are taken in, unless another thread is at it.
        """
        if self._is_current():
            return self._take_current(), False
        behind = True
        if self._lock.acquire(timeout=_PATIENCE_S if self._opened else _OPENING_S):
            try:
                self._degraded = ""
                # copying an index may take long: that is left to the background
                if not self._can_fetch():
                    self._load()
                    behind = not self._take_in_few()
            finally:
                self._lock.release()
        if not self._current.complete:
            raise NotReady(
                f"the index of collection {self._name!r} is still being made",
                retry_after=5.0,
                hint="ask again later; everything else can be asked meanwhile",
            )
        return (self._current.stale if behind else self._current), behind

    @property
    def unchecked(self) -> bool:
        """Whether files were opened that are too large to be checked at once; `follow_batch` checks them."""
        return self._unchecked

    def follow_batch(self) -> bool:
        """Take in the next batch of changes and save where it is time; whether the end of the feed is reached."""
        if self._unchecked:
            self._check_files()
        with self._lock:
            self._load()
            return self._follow_batch()

    def flush(self) -> None:
        """Save what is not on disk yet."""
        with self._lock:
            self._save_after = 0.0
            self._flush(least=1)
            self._publish()

    def clear_published(self) -> None:
        """Delete what gateways share of this collection's index."""
        if self._published:
            self._published.clear()

    def _check_files(self) -> None:
        """Read all files through once; if one is damaged, start over."""
        assert self._folder is not None
        self._unchecked = False
        try:
            read_state(self._folder, verify=True)
        except DamagedIndex as error:
            with self._lock:
                self._current = self._snapshot_of(())
                self._start_over(f"the index was rebuilt: {error.message}")

    def _follow_batch(self) -> bool:
        state = self._state
        changes = self._store.changes(self._tenant, self._name, state.seen, _BATCH)
        self._absorb(changes, complete=len(changes) < _BATCH)
        ends = self._state.complete and not state.complete and state.mark  # it was saved before
        self._flush(least=0 if ends else self._flush_at(self._state.count))
        return self._state.complete

    def _flush_at(self, count: int) -> int:
        is_late = time.monotonic() >= self._saved_at + _FLUSH_S
        return max(_FLUSH, 0 if is_late else count // _FLUSH_PART)

    def _take_in_few(self) -> bool:
        changes = self._store.changes(self._tenant, self._name, self._state.seen, _AT_ONCE + 1)
        if len(changes) > _AT_ONCE:
            return False
        self._absorb(changes, complete=True)
        return True

    def _absorb(self, changes: Sequence[Change], *, complete: bool) -> None:
        lives, seen = self._state.lives, self._state.seen
        if changes:
            grown = absorb(lives, changes, self._embeddings, self._folder)
            self._unsaved += len(changes)
            lives = tuple(grown if self._become_one(grown) else tidy(grown, self._folder))
            seen = changes[-1].seq
        if changes or complete != self._state.complete:
            self._set_state(IndexState(self._state.mark, seen, lives, self._kind, complete))

    def _become_one(self, lives: Sequence[LiveSegment]) -> bool:
        """Whether a few segments, all alive, are about to be saved as one, so that they need not be merged before."""
        few = len(lives) <= 2 * _MERGE_FACTOR and not any(len(live.dead) for live in lives)
        due = self._folder and self._unsaved >= self._flush_at(sum(map(len, lives)))
        return bool(few and due) and len(compact(lives)) == 1

    def _is_current(self) -> bool:
        return self._opened and self._state.complete and self._head() == self._state.seen

    def _take_current(self) -> Snapshot:
        """The current snapshot. That the index was made anew is over once somebody was told."""
        current = self._current
        if self._degraded and self._lock.acquire(blocking=False):
            try:
                self._degraded = ""
                self._set_state(self._state)
            finally:
                self._lock.release()
        return current

    def _head(self) -> int:
        return self._store.head(self._tenant, self._name)

    def _snapshot_of(self, lives: Sequence[LiveSegment], *, complete: bool = False) -> Snapshot:
        # not by way of this collection: a closed one would hold its files until the next garbage collection
        fetch = partial(self._store.chunks, self._tenant, self._name)
        reasons = filter(None, (self._degraded, self._unsaved_reason))
        return Snapshot(lives, fetch, degraded="; ".join(reasons), complete=complete)

    def _load(self) -> None:
        """Load what the folder holds, or what is published, where it is intact and belongs to this store."""
        if self._opened:
            return
        if self._folder is None:
            self._opened = True
            return
        self._fetch()
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
                hint=f"run: headgate store reindex --collection {self._name}, or set embed.model back",
            )
        self._opened = True
        self._set_state(state)
        self._unchecked = has_unchecked(self._folder, state)
        if not self._belongs(state):
            self._start_over("the index was rebuilt: it did not belong to this store")

    def _can_fetch(self) -> bool:
        """Whether there is no index here and a published one may be there to copy."""
        if self._opened or self._folder is None or self._published is None:
            return False
        return not manifest_is_there(self._folder) and self._published.may_be_there()

    def _fetch(self) -> None:
        """Copy the published index into the folder, unless the folder already has one."""
        if not self._can_fetch():
            return
        assert self._folder is not None and self._published is not None  # noqa: PT018
        with suppress(OSError), write_lock(self._folder) as locked:
            if locked and not manifest_is_there(self._folder):
                self._published.fetch(self._folder)

    def _belongs(self, state: IndexState) -> bool:
        """Whether this store has seen the index being saved. One restored from a backup may not have."""
        if state.mark not in self._store.index_marks(self._tenant, self._name):
            return False
        head = self._head()
        if state.seen != head:
            return state.seen < head
        return state.count == self._store.size(self._tenant, self._name).chunks

    def _start_over(self, why: str) -> None:
        """Start with an empty index; the files in the folder are overwritten later."""
        self._degraded = why
        self._set_state(IndexState("", 0, (), self._kind))

    @property
    def _kind(self) -> str:
        return self._embeddings.kind if self._embeddings else ""

    def _set_state(self, state: IndexState) -> None:
        """Go on to a state, and hand its snapshot out where it is complete or no complete one was there before."""
        self._state = state
        if state.complete or not self._current.complete:
            fresh = self._snapshot_of(state.lives, complete=state.complete)
            if state.complete:
                fresh.derive_like(self._current)
            self._current = fresh

    def _flush(self, *, least: int) -> None:
        """Save when at least `least` changes are unsaved, unless another process is saving."""
        if self._folder is None or self._unsaved < least or time.monotonic() < self._save_after:
            return
        try:
            with write_lock(self._folder) as locked:
                if not locked:
                    return
                if manifest_mark(self._folder) != self._state.mark:
                    self._rebase()
                state, mark = self._state, new_mark()
                self._store.mark_index(self._tenant, self._name, mark, former=state.mark)
                self._unsaved_reason = ""
                self._set_state(write_state(self._folder, state, mark, compact(state.lives)))
                self._unsaved, self._saved_at = 0, time.monotonic()
            self._publish()
        except (OSError, StoreError) as error:
            # it goes on in memory, and is saved when that is possible again
            self._save_after = time.monotonic() + _RETRY_S
            self._unsaved_reason = (
                f"the index cannot be saved and lives in memory: {describe(error)}"
            )
            self._set_state(replace(self._state, mark=_UNSAVED))

    def _publish(self) -> None:
        """Let other gateways have the saved index, where it is complete and much newer than what they can have."""
        state = self._state
        if self._published is None or self._folder is None or self._unsaved or not state.complete:
            return
        with suppress(OSError), write_lock(self._folder) as locked:
            if locked and manifest_mark(self._folder) == state.mark:
                self._published.publish(self._folder, seen=state.seen, count=state.count)

    def _rebase(self) -> None:
        """Continue from the files that another process saved meanwhile, so that no two states mix."""
        assert self._folder is not None
        try:
            state = read_state(self._folder)
        except DamagedIndex:
            state = None
        if state is not None and state.seen >= self._state.seen and self._belongs(state):
            self._set_state(state)
        else:  # our own files may be deleted by now, so write everything again
            lives = tuple(replace(live, file="") for live in self._state.lives)
            self._set_state(replace(self._state, mark="", lives=lives))


def absorb(
    lives: Sequence[LiveSegment],
    changes: Sequence[Change],
    embeddings: EmbeddingCache | None = None,
    folder: Path | None = None,
) -> Sequence[LiveSegment]:
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
        places = [change.place for change in fresh]
        for some in _split_evenly(chunks):
            own = None if vectors is None else vectors[some]
            live = LiveSegment(build(chunks[some], places[some]), vectors=own)
            out.append(_merge([live], folder) if folder and is_large(live.segment) else live)
    return out


def _split_evenly(chunks: Sequence[Chunk]) -> Iterator[slice]:
    """Runs of chunks that are read together, so that memory does not grow with the document they are of."""
    parts = -(-sum(_most_words(chunk.text) for chunk in chunks) // _WORDS) or 1
    size = -(-len(chunks) // parts)
    return (slice(at, at + size) for at in range(0, len(chunks), size))


def _most_words(text: str) -> int:
    """About how many words a text has at most: one at each sign between words, and each sign of three bytes."""
    raw = text.encode("utf-8", "surrogatepass")
    return len(raw.translate(None, _IN_WORDS)) + max(0, len(raw) - 2 * len(text))


def tidy(lives: Sequence[LiveSegment], folder: Path | None = None) -> Sequence[LiveSegment]:
    """The segments with neighbors of one size class merged, and those with many dead chunks rewritten."""
    out = [_merge([live], folder) if _is_sparse(live) else live for live in lives]
    out = [live for live in out if len(live.dead) < len(live)]
    while len(run := _tail(out)) >= _MERGE_FACTOR:
        out[-len(run) :] = [_merge(run, folder)]
    return out


def compact(lives: Sequence[LiveSegment]) -> Sequence[Sequence[LiveSegment]]:
    """Runs of segments: one of the last ones where that is cheap to make one, since a query's cost has a part that
    grows with their number, and each other alone.
    """
    begin, size = len(lives), 0
    while begin and size + len(lives[begin - 1]) <= _COMPACT_UP_TO:
        begin -= 1
        size += len(lives[begin])
    tail = lives[begin:]
    largest = max(map(len, tail), default=0)
    if len(tail) < 2 or (size - largest) * 8 < largest:
        return [[live] for live in lives]
    return [*([live] for live in lives[:begin]), tail]


def _is_sparse(live: LiveSegment) -> bool:
    return max(1, _DEAD_SHARE * len(live)) <= len(live.dead) < len(live)


def _merge(lives: Sequence[LiveSegment], folder: Path | None) -> LiveSegment:
    rows = [live.vectors[live.alive] for live in lives if live.vectors is not None]
    vectors = np.concatenate(rows) if len(rows) == len(lives) else None
    whole = join([(live.segment, live.alive) for live in lives], folder)
    graph_file = None if len(lives[0].dead) else lives[0].graph_file
    return LiveSegment(whole, vectors=vectors, graph_file=graph_file)


def _tail(lives: Sequence[LiveSegment]) -> Sequence[LiveSegment]:
    """The segments at the end that are in no larger size class than the last one: the next to be merged."""
    if not lives:
        return ()
    bound, begin = _size_class(lives[-1]), len(lives)
    while begin and _size_class(lives[begin - 1]) <= bound:
        begin -= 1
    return lives[begin:]


def _size_class(live: LiveSegment) -> int:
    return int(np.log(max(len(live), _SMALLEST_CLASS) / _SMALLEST_CLASS) / np.log(_MERGE_FACTOR))
