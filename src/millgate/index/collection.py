"""Collection: the index of one collection of one tenant, following its change feed.

Batches of changes become segments (segment_list.py). They are saved in a folder (folder.py) and read through a snapshot
(snapshot.py). A snapshot is complete when it has reached the end of the feed once. Only complete ones are handed out,
and those handed out before stay as they were.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

from millgate.calls.bugs import describe
from millgate.errors import ConfigError, NotReady, StoreError
from millgate.index.files import DamagedIndex
from millgate.index.folder import (
    IndexState,
    delete_index,
    has_unchecked,
    manifest_mark,
    new_mark,
    read_state,
    write_lock,
    write_state,
)
from millgate.index.segment import LiveSegment
from millgate.index.segment_list import absorb, compact, tidy
from millgate.index.snapshot import SegmentSnapshot
from millgate.index.vectors import EmbedderFailed, EmbeddingCache
from millgate.protocols import Embedder, Store
from millgate.types import Change

# new or dead chunks from which a change is saved at once; fewer are saved on close ...
_FLUSH = 1_000
_FLUSH_PART = 4  # ... as is less than this part of the collection, so that growing it rewrites each chunk a few times,
_FLUSH_S = 60.0  # ... unless nothing was saved for this long: unsaved changes are held in memory
_BATCH = 5_000  # changes read at a time
_AT_ONCE = 50  # changes that a request takes in itself, some 20 ms; more are left to the background
_PATIENCE_S = 0.03  # that a request waits for another thread that takes changes in ...
_OPENING_S = 1.0  # ... or opens the index
_RETRY_S = (
    30.0  # after a failed save, or an embedder that failed: as long as a memory provider rests
)
_UNSAVED = "unsaved"  # a mark that no file has


class Collection:
    """The index of one collection; in a folder, or in memory only if there is none."""

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
        self._degraded = ""
        self._unsaved_reason = ""
        self._state = IndexState("", 0)
        self._current = self._snapshot_of(())
        self._opened = False
        self._unchecked = False
        self._unsaved, self._saved_at = 0, time.monotonic()
        self._save_after = 0.0
        self._embed_after, self._embedder_problem = 0.0, ""
        self._words_seen = (
            0  # the last change in a snapshot without all vectors; 0 if the current one has them
        )
        self._lock = Lock()

    def snapshot(self) -> SegmentSnapshot:
        """The collection as the store has it now; waits until the index is there."""
        if self._is_current():
            return self._take_current()
        with self._lock:
            self._degraded = ""
            self._load()
            target = self._head()
            while (
                not self._follow_or_by_words() or max(self._state.seen, self._words_seen) < target
            ):
                pass
        return self._current

    def latest(self) -> tuple[SegmentSnapshot, bool]:
        """The last complete snapshot at once, and whether the store has gone on since; NotReady if there is none.

        A few changes are taken in, unless another thread does so already.
        """
        if self._is_current():
            return self._take_current(), False
        behind = True
        if self._lock.acquire(timeout=_PATIENCE_S if self._opened else _OPENING_S):
            try:
                self._degraded = ""
                self._load()
                behind = not self._take_in_few()
            except EmbedderFailed:
                behind = self._head() != self._words_seen  # the background goes on by words
            finally:
                self._lock.release()
        if not self._current.complete:
            raise NotReady(
                f"the index of collection {self._name!r} is still being made",
                retry_after=5.0,
                hint="ask again later; other collections can be asked now",
            )
        return (self._current.stale if behind else self._current), behind

    @property
    def unchecked(self) -> bool:
        """Whether files were opened that are too large to be checked at once; `follow_batch` checks them."""
        return self._unchecked

    def follow_batch(self) -> bool:
        """Take in the next batch of changes and save if it is time; whether the end of the feed is reached."""
        if self._unchecked:
            self._check_files()
        with self._lock:
            self._load()
            return self._follow_or_by_words()

    def flush(self, wait_s: float = -1) -> None:
        """Save what is not on disk yet; not if another thread holds this collection for longer than `wait_s`."""
        if self._lock.acquire(timeout=wait_s):
            try:
                self._save_after = 0.0
                self._flush(least=1)
            finally:
                self._lock.release()

    def delete(self) -> None:
        """Delete the index before it is opened; it is built again from the store."""
        if not self._folder:
            return
        try:
            delete_index(self._folder)
        except OSError as error:
            raise StoreError(
                f"the index of collection {self._name!r} cannot be deleted: {error.strerror}",
                hint="run this where the store can be written",
            ) from error

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

    def _follow_or_by_words(self) -> bool:
        """Take in the next batch of changes; all of them, for words alone, if the embedder fails. Whether the end of
        the feed is reached.
        """
        if time.monotonic() >= self._embed_after:
            try:
                return self._follow_batch()
            except EmbedderFailed as error:
                self._embed_after = time.monotonic() + _RETRY_S
                self._embedder_problem = error.message
        lives, self._words_seen = self._state.lives, self._state.seen
        while changes := self._store.changes(self._tenant, self._name, self._words_seen, _BATCH):
            lives = tuple(absorb(lives, changes, None, self._folder))
            self._words_seen = changes[-1].seq
        self._degraded = f"words find alone what is new: {self._embedder_problem}"
        # neither the state nor what is saved: once the embedder is back, they go on from where they were
        self._current = self._snapshot_of(lives, complete=True)
        return True

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
            lives = tuple(tidy(grown, self._folder))
            self._unsaved += len(changes)
            seen = changes[-1].seq
        if changes or complete != self._state.complete:
            self._set_state(IndexState(self._state.mark, seen, lives, self._kind, complete))

    def _is_current(self) -> bool:
        if not self._opened:
            return False
        head = self._head()
        if head == self._words_seen and time.monotonic() < self._embed_after:
            return True
        return self._state.complete and head == self._state.seen

    def _take_current(self) -> SegmentSnapshot:
        """The current snapshot. One request is told that the index was rebuilt; the next ones are not."""
        current = self._current
        if self._degraded and not self._words_seen and self._lock.acquire(blocking=False):
            try:
                self._degraded = ""
                self._set_state(self._state)
            finally:
                self._lock.release()
        return current

    def _head(self) -> int:
        return self._store.head(self._tenant, self._name)

    def _snapshot_of(
        self, lives: Sequence[LiveSegment], *, complete: bool = False
    ) -> SegmentSnapshot:
        # not a method of this collection: the cycle would keep a closed one's files open until a garbage collection
        fetch = partial(self._store.chunks, self._tenant, self._name)
        reasons = filter(None, (self._degraded, self._unsaved_reason))
        return SegmentSnapshot(lives, fetch, degraded="; ".join(reasons), complete=complete)

    def _load(self) -> None:
        """Load what the folder holds if it is intact and belongs to this store."""
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
                hint=f"run: millgate store reindex --collection {self._name}, or set embed.model back",
            )
        self._opened = True
        self._set_state(state)
        self._unchecked = has_unchecked(self._folder, state)
        if not self._belongs(state):
            self._start_over("the index was rebuilt: it did not belong to this store")

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
        """Go on to a state, and hand its snapshot out if it is complete or no complete one was there before."""
        self._state = state
        if state.complete or not self._current.complete:
            self._current = self._snapshot_of(state.lives, complete=state.complete)
            self._words_seen = 0

    def _flush(self, *, least: int) -> bool:
        """Save if at least `least` changes are unsaved, unless another process is saving; whether it was saved."""
        if self._folder is None or self._unsaved < least or time.monotonic() < self._save_after:
            return False
        try:
            with write_lock(self._folder) as locked:
                if not locked:
                    return False
                if manifest_mark(self._folder) != self._state.mark:
                    self._rebase()
                state, mark = self._state, new_mark()
                self._store.mark_index(self._tenant, self._name, mark, former=state.mark)
                self._unsaved_reason = ""
                self._set_state(write_state(self._folder, state, mark, compact(state.lives)))
                self._unsaved, self._saved_at = 0, time.monotonic()
        except (OSError, StoreError) as error:
            # it goes on in memory, and is saved when that is possible again
            self._save_after = time.monotonic() + _RETRY_S
            self._unsaved_reason = (
                f"the index cannot be saved and lives in memory: {describe(error)}"
            )
            self._set_state(replace(self._state, mark=_UNSAVED))
            return False
        return True

    def _rebase(self) -> None:
        """Continue from the files that another process saved since, so that no two states mix."""
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
