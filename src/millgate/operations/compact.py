"""Compact: give back the space of what was removed.

The feed keeps an entry for every chunk that was ever removed, for indexes that have not heard of it. Those that the
saved index has seen are dropped, but for the last one of a collection, which holds the feed's end. Then SQLite writes
the file anew. No other process may write at the same time.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from millgate.index.files import DamagedIndex
from millgate.index.folder import folder_of, read_state
from millgate.index.indexes import Indexes
from millgate.operations.presence import existing
from millgate.stores.sqlite.store import SqliteStore

_REMOVED = "SELECT tenant, collection, max(seq) FROM removed GROUP BY tenant, collection"
_FORGET = """
DELETE FROM removed WHERE tenant = ? AND collection = ? AND seq <= ?
AND seq < (SELECT max(seq) FROM removed r WHERE r.tenant = removed.tenant AND r.collection = removed.collection)
"""


@dataclass(frozen=True, slots=True)
class Compacted:
    """What compacting did: bytes of the files before and after, and entries of removals dropped."""

    before: int
    after: int
    removals: int


def compact(folder: Path) -> Compacted:
    """Make the files of a store as small as what they hold."""
    existing(folder)
    store = SqliteStore(folder)
    try:
        before = _size(folder)
        _follow(store, folder)
        removals = 0
        for tenant, collection, last in store.query("", _REMOVED):
            seen = _last_indexed_change(store, folder, tenant, collection)
            removals += store.execute(
                tenant, _FORGET, (tenant, collection, last if seen is None else seen)
            )
        store.vacuum()
    finally:
        store.close()
    return Compacted(before, _size(folder), removals)


def _follow(store: SqliteStore, folder: Path) -> None:
    """Let saved indexes hear of all removals; one with embeddings is left to a process that has the embedder."""
    indexes = Indexes(store, folder / "index")
    for tenant, collection, _ in store.query("", _REMOVED):
        with suppress(DamagedIndex):
            state = read_state(folder_of(folder / "index", tenant, collection))
            if state is not None and not state.kind:
                indexes.snapshot(tenant, collection)
    indexes.close()


def _last_indexed_change(
    store: SqliteStore, folder: Path, tenant: str, collection: str
) -> int | None:
    """How far the saved index has followed; None if none will be believed, and removals are of no use to it."""
    try:
        state = read_state(folder_of(folder / "index", tenant, collection))
    except DamagedIndex:
        return None
    if state is None or state.mark not in store.index_marks(tenant, collection):
        return None
    return state.seen


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("millgate.db*"))
