"""Check: whether a store is sound, and with `repair` what can be mended from the truth in it.

Checked are the database itself; sizes, orphans and feed numbers; that facts, reviews and traces can be read; that every
document's chunk has the fingerprint of its text; and that each saved index is whole and holds what the store holds.
Everything that is repaired is derived.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from millgate.errors import DamagedError, StoreError
from millgate.index.files import DamagedIndex
from millgate.index.folder import OtherFormat, delete_index, folder_of, read_state
from millgate.operations.presence import existing
from millgate.protocols import Store
from millgate.stores.codec import decode
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.stored_trace import read_trace
from millgate.text.fingerprint import KIND, pack
from millgate.text.table import count_of
from millgate.types import Chunk, Fact, Review

_NAMED = 3  # records that a finding names
_BATCH = 1_000  # chunks whose fingerprints are compared at a time

_COUNTS = """
SELECT tenant, collection,
  (SELECT count(*) FROM documents d WHERE d.tenant = s.tenant AND d.collection = s.collection),
  (SELECT count(*) FROM chunks c WHERE c.tenant = s.tenant AND c.collection = s.collection),
  (SELECT coalesce(sum(chars), 0) FROM chunks c WHERE c.tenant = s.tenant AND c.collection = s.collection),
  (SELECT coalesce(sum(bytes), 0) FROM chunks c WHERE c.tenant = s.tenant AND c.collection = s.collection)
  + (SELECT coalesce(sum(bytes), 0) FROM documents d
     WHERE d.tenant = s.tenant AND d.collection = s.collection),
  documents, chunks, chars, bytes
FROM collections s
"""
_ORPHANS = {
    "bytes attached to a chunk that is gone": """
      FROM attachments WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.tenant = attachments.tenant
      AND c.collection = attachments.collection AND c.id = attachments.id)""",
    "removals of a chunk that is there": """
      FROM removed WHERE EXISTS (SELECT 1 FROM chunks c WHERE c.tenant = removed.tenant
      AND c.collection = removed.collection AND c.id = removed.id)""",
}
_UNREADABLE = """
SELECT count(*) FROM (SELECT metadata FROM chunks UNION ALL SELECT metadata FROM documents)
WHERE metadata <> '' AND NOT json_valid(metadata)
"""
_LOST_CHUNKS = """
SELECT count(*) FROM chunks WHERE NOT EXISTS (SELECT 1 FROM documents d WHERE d.tenant = chunks.tenant
AND d.collection = chunks.collection AND d.place = chunks.place)
"""


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
        damage = [Finding(line) for line in store.integrity()]
        if damage:  # nothing else can be believed
            return damage
        found = [*_check_counts(store, repair=repair), *_check_records(store)]
        for tenant, collection, *_ in store.query(_COUNTS):
            found += check_fingerprints(store, tenant, collection, repair=repair)
            found += check_index(store, folder / "index", tenant, collection, repair=repair)
        return found
    finally:
        store.close()


def _check_counts(store: SqliteStore, *, repair: bool) -> Iterator[Finding]:
    for tenant, collection, *counts in store.query(_COUNTS):
        right, held = counts[:4], counts[4:]
        if right != held:
            if repair:
                values = (*right, tenant, collection)
                store.execute("UPDATE collections SET documents = ?, chunks = ?, chars = ?, bytes = ? WHERE tenant = ? AND collection = ?", values)  # fmt: skip
            yield Finding(f"the size of {tenant}/{collection} is wrong: {held} instead of {right}", repair)  # fmt: skip
    for what, which in _ORPHANS.items():
        ((count,),) = store.query(f"SELECT count(*) {which}")
        if count:
            if repair:
                store.execute(f"DELETE {which}")
            yield Finding(f"{count:,} {what}", repair)
    ((count,),) = store.query(_LOST_CHUNKS)
    if count:
        yield Finding(
            f"{count_of(count, 'chunk')} without a document; remove and add their collection again"
        )


def _check_records(store: SqliteStore) -> Iterator[Finding]:
    """Facts, reviews and traces that cannot be read. Each is left out of lists, and the rest can be read."""
    for kind in READERS:
        rows = store.query(f"SELECT tenant, id FROM {kind}s")  # noqa: S608  (the names are ours)
        sql = f"SELECT body FROM {kind}s WHERE tenant = ? AND id = ?"  # noqa: S608  (as above)
        bodies = ((tenant, id, store.query(sql, (tenant, id))) for tenant, id in rows)
        yield from check_readable(kind, bodies)
    ((count,),) = store.query(_UNREADABLE)
    if count:
        yield Finding(f"the metadata of {count:,} chunks or documents cannot be read; add them again")  # fmt: skip


READERS: Mapping[str, Callable[[str | bytes], object]] = {
    "fact": partial(decode, Fact),
    "review": partial(decode, Review),
    "trace": read_trace,
}
"""How each kind of record is read."""
_ADVICE = {"fact": "; forget them", "review": "", "trace": "; they go when they are too old"}


def check_readable(
    kind: str, records: Iterable[tuple[str, str, Sequence[Sequence[str | bytes]]]]
) -> Iterator[Finding]:
    """Which records of a kind cannot be read: (tenant, id, rows with the body)."""
    wrong: dict[str, list[str]] = {}
    for tenant, id, rows in records:
        for (body,) in rows:
            try:
                READERS[kind](body)
            except DamagedError:
                wrong.setdefault(tenant, []).append(id)
    for tenant, ids in wrong.items():
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        named = ", ".join(ids[:_NAMED]) + more
        yield Finding(f"{len(ids):,} {kind}s of {tenant} cannot be read: {named}{_ADVICE[kind]}")


def check_fingerprints(
    store: Store, tenant: str, collection: str, *, repair: bool
) -> Iterator[Finding]:
    """Whether every chunk of a document has the fingerprint of its text."""
    wrong: dict[str, bytes] = {}
    batch: list[Chunk] = []
    for chunk in store.scan(tenant, collection):
        batch.append(chunk)
        if len(batch) == _BATCH:
            wrong |= _wrong_fingerprints(store, tenant, collection, batch)
            batch = []
    wrong |= _wrong_fingerprints(store, tenant, collection, batch)
    if wrong:
        if repair:
            store.attach(tenant, collection, KIND, wrong)
        yield Finding(f"{len(wrong):,} chunks of {tenant}/{collection} lack the fingerprint of their text", repair)  # fmt: skip


def _wrong_fingerprints(
    store: Store, tenant: str, collection: str, chunks: list[Chunk]
) -> dict[str, bytes]:
    """The right fingerprints of documents' chunks that have none or another one; turns are kept without."""
    documents = [chunk for chunk in chunks if chunk.source == "document"]
    held = store.attachments(tenant, collection, KIND, [chunk.id for chunk in documents])
    right = pack([chunk.text for chunk in documents])
    both = zip(documents, right, strict=True)
    return {chunk.id: value for chunk, value in both if held.get(chunk.id) != value}


def check_index(
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
