"""Check: whether a store is sound, and with `repair` what can be mended from the truth in it.

Checked are the database itself; sizes, orphans and feed numbers; that facts, reviews and traces can be read; and that
each saved index is whole and holds what the store holds. Everything that is repaired is derived.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from millgate.errors import DamagedError, StoreError
from millgate.index.files import DamagedIndex
from millgate.index.folder import OtherFormat, delete_index, folder_of, read_state
from millgate.operations.presence import enumerate_names, existing
from millgate.protocols import Store
from millgate.stores.codec import decode
from millgate.stores.sql.store import SqlStore
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.stored_trace import read_trace
from millgate.text.table import count_of
from millgate.types import Fact, Review

# of each collection: its sizes as noted and as they are, and whether its feed has numbers beyond its end
_SIZES = """
SELECT collection, documents, chunks, chars, bytes,
  (SELECT count(*) FROM millgate.documents d WHERE d.tenant = ? AND d.collection = c.collection),
  (SELECT count(*) FROM millgate.chunks k WHERE k.tenant = ? AND k.collection = c.collection),
  (SELECT CAST(coalesce(sum(chars), 0) AS bigint) FROM millgate.chunks k
   WHERE k.tenant = ? AND k.collection = c.collection),
  (SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM millgate.chunks k
   WHERE k.tenant = ? AND k.collection = c.collection)
  + (SELECT CAST(coalesce(sum(bytes), 0) AS bigint) FROM millgate.documents d
     WHERE d.tenant = ? AND d.collection = c.collection),
  (SELECT coalesce(max(seq), 0) FROM millgate.chunks k WHERE k.tenant = ? AND k.collection = c.collection) > seq
FROM millgate.collections c WHERE tenant = ? ORDER BY collection
"""
_RECOUNT = """
UPDATE millgate.collections SET documents = ?, chunks = ?, chars = ?, bytes = ? WHERE tenant = ? AND collection = ?
"""
_ORPHANS = {
    "bytes attached to a chunk that is gone": """
      FROM millgate.attachments AS a WHERE a.tenant = ? AND NOT EXISTS (SELECT 1 FROM millgate.chunks c
      WHERE c.tenant = a.tenant AND c.collection = a.collection AND c.id = a.id)""",
    "removals of a chunk that is there": """
      FROM millgate.removed AS r WHERE r.tenant = ? AND EXISTS (SELECT 1 FROM millgate.chunks c
      WHERE c.tenant = r.tenant AND c.collection = r.collection AND c.id = r.id)""",
}
_LOST_CHUNKS = """
SELECT count(*) FROM millgate.chunks c WHERE c.tenant = ? AND NOT EXISTS (SELECT 1 FROM millgate.documents d
WHERE d.tenant = c.tenant AND d.collection = c.collection AND d.place = c.place)
"""
_UNREADABLE = """
SELECT count(*) FROM (SELECT metadata FROM chunks UNION ALL SELECT metadata FROM documents)
WHERE metadata <> '' AND NOT json_valid(metadata)
"""
_READERS: Mapping[str, tuple[Callable[[Any], object], str]] = {
    "fact": (partial(decode, Fact), "; forget them"),
    "review": (partial(decode, Review), ""),
    "trace": (read_trace, "; they go when they are too old"),
}
"""How each kind of record is read, and what to do with those that cannot be."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, and whether it was repaired."""

    what: str
    repaired: bool = False


def check(folder: Path, *, repair: bool = False) -> list[Finding]:
    """What is wrong with the store of a folder, best read in order; an empty list when nothing is."""
    existing(folder)
    store = SqliteStore(folder)
    try:
        if damage := [Finding(line) for line in store.integrity()]:
            return damage  # nothing else can be believed
        ((count,),) = store.query("", _UNREADABLE)
        unreadable = f"the metadata of {count:,} chunks or documents cannot be read; add them again"
        found = check_store(store, folder, repair=repair)
        return [*found, Finding(unreadable)] if count else found
    finally:
        store.close()


def check_store(store: SqlStore, folder: Path, *, repair: bool = False) -> list[Finding]:
    """What is wrong with what a database holds, and with its indexes in a folder; one tenant after the other.

    The database itself is checked by its own means: for PostgreSQL pg_amcheck and data checksums.
    """
    found: list[Finding] = []
    for tenant in store.tenants():
        found += _check_sizes(store, tenant, repair=repair)
        found += _check_orphans(store, tenant, repair=repair)
        found += _check_records(store, tenant)
        for collection in store.collections(tenant):
            found += _check_index(store, folder / "index", tenant, collection, repair=repair)
    return found


def _check_sizes(store: SqlStore, tenant: str, *, repair: bool) -> Iterator[Finding]:
    for collection, *sizes, is_behind in store.query(tenant, _SIZES, (tenant,) * 7):
        held, right = sizes[:4], sizes[4:]
        if held != right:
            if repair:
                store.execute(tenant, _RECOUNT, (*right, tenant, collection))
            yield Finding(f"the size of {tenant}/{collection} is wrong: {held} instead of {right}", repair)  # fmt: skip
        if is_behind:
            yield Finding(f"the feed of {tenant}/{collection} has numbers beyond its end; remove and add it again")  # fmt: skip


def _check_orphans(store: SqlStore, tenant: str, *, repair: bool) -> Iterator[Finding]:
    for what, which in _ORPHANS.items():
        ((count,),) = store.query(tenant, f"SELECT count(*) {which}", (tenant,))
        if count:
            if repair:
                store.execute(tenant, f"DELETE {which}", (tenant,))
            yield Finding(f"{count:,} {what} ({tenant})", repair)
    ((count,),) = store.query(tenant, _LOST_CHUNKS, (tenant,))
    if count:
        yield Finding(f"{count_of(count, 'chunk')} of {tenant} without a document; remove and add their collection again")  # fmt: skip


def _check_records(store: SqlStore, tenant: str) -> Iterator[Finding]:
    """Facts, reviews and traces that cannot be read. Each is left out of lists, and the rest can be read."""
    for kind, (read, advice) in _READERS.items():
        wrong: list[str] = []
        for (id,) in store.query(tenant, f"SELECT id FROM millgate.{kind}s WHERE tenant = ?", (tenant,)):  # noqa: S608  # fmt: skip
            sql = f"SELECT body FROM millgate.{kind}s WHERE tenant = ? AND id = ?"  # noqa: S608  (the names are ours)
            for (body,) in store.query(tenant, sql, (tenant, id)):
                try:
                    read(body)
                except DamagedError:
                    wrong.append(id)
        if wrong:
            yield Finding(f"{len(wrong):,} {kind}s of {tenant} cannot be read: {enumerate_names(wrong)}{advice}")  # fmt: skip


def _check_index(
    store: Store, root: Path, tenant: str, collection: str, *, repair: bool
) -> Iterator[Finding]:
    """Whether the saved index of a collection is whole and holds what the store holds."""
    folder = folder_of(root, tenant, collection)
    problem = _index_problem(store, tenant, collection, folder)
    if problem:
        if repair:
            delete_index(folder)
        yield Finding(f"the index of {tenant}/{collection} {problem}", repair)


def _index_problem(store: Store, tenant: str, collection: str, folder: Path) -> str:
    try:
        state = read_state(folder, verify=True)
    except OtherFormat:
        return ""  # an upgrade: the next request builds it again
    except DamagedIndex as error:
        return f"is damaged: {error.message}"
    except StoreError as error:
        return f"cannot be read: {error.message}"
    if state is None:
        return ""
    if state.mark not in store.index_marks(tenant, collection):
        return "was not made from this store"
    behind = state.seen < store.head(tenant, collection)
    if not behind and state.count != store.size(tenant, collection).chunks:
        return f"holds {state.count:,} chunks, not those of the store"
    return ""
