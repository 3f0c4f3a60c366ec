"""Check a PostgreSQL store: what its tables say of each other, fingerprints, and the indexes of this machine.

The database itself is checked by its own means (pg_amcheck, data checksums). Tenants are looked at one after the other.
"""

from collections.abc import Iterator
from pathlib import Path

from millgate.operations.check import (
    READERS,
    Finding,
    check_fingerprints,
    check_index,
    check_readable,
)
from millgate.stores.postgres.store import PostgresStore
from millgate.text.table import count_of

_ORPHANS = {
    "bytes attached to a chunk that is gone": """
      FROM millgate.attachments a WHERE a.tenant = %s AND NOT EXISTS (SELECT 1 FROM millgate.chunks c
      WHERE c.tenant = a.tenant AND c.collection = a.collection AND c.id = a.id)""",
    "removals of a chunk that is there": """
      FROM millgate.removed r WHERE r.tenant = %s AND EXISTS (SELECT 1 FROM millgate.chunks c
      WHERE c.tenant = r.tenant AND c.collection = r.collection AND c.id = r.id)""",
}
_LOST_CHUNKS = """
SELECT count(*) FROM millgate.chunks c WHERE c.tenant = %s AND NOT EXISTS (SELECT 1 FROM millgate.documents d
WHERE d.tenant = c.tenant AND d.collection = c.collection AND d.place = c.place)
"""


def check_postgres(store: PostgresStore, folder: Path, *, repair: bool = False) -> list[Finding]:
    """What is wrong with a store, best read in order; an empty list when nothing is."""
    found: list[Finding] = []
    for tenant in store.tenants():
        found += _check_counts(store, tenant, repair=repair)
        found += _check_orphans(store, tenant, repair=repair)
        found += _check_records(store, tenant)
        for collection in store.collections(tenant):
            found += check_fingerprints(store, tenant, collection, repair=repair)
            found += check_index(store, folder / "index", tenant, collection, repair=repair)
    return found


def _check_counts(store: PostgresStore, tenant: str, *, repair: bool) -> Iterator[Finding]:
    for collection, *sizes, behind in store.compare_sizes(tenant):
        held, right = sizes[:4], sizes[4:]
        if held != right:
            if repair:
                store.note_sizes(tenant, collection, right)
            yield Finding(f"the size of {tenant}/{collection} is wrong: {held} instead of {right}", repair)  # fmt: skip
        if behind:
            yield Finding(f"the feed of {tenant}/{collection} has numbers beyond its end; remove and add it again")  # fmt: skip


def _check_records(store: PostgresStore, tenant: str) -> Iterator[Finding]:
    for kind in READERS:
        ids = f"SELECT id FROM millgate.{kind}s WHERE tenant = %s"  # noqa: S608  (the names are ours)
        sql = f"SELECT body FROM millgate.{kind}s WHERE tenant = %s AND id = %s"  # noqa: S608  (as above)
        rows = store.query(tenant, ids, (tenant,))
        bodies = ((tenant, id, store.query(tenant, sql, (tenant, id))) for (id,) in rows)
        yield from check_readable(kind, bodies)


def _check_orphans(store: PostgresStore, tenant: str, *, repair: bool) -> Iterator[Finding]:
    for what, which in _ORPHANS.items():
        ((count,),) = store.query(tenant, f"SELECT count(*) {which}", (tenant,))
        if count:
            if repair:
                store.execute(tenant, f"DELETE {which}", (tenant,))
            yield Finding(f"{count:,} {what} ({tenant})", repair)
    ((count,),) = store.query(tenant, _LOST_CHUNKS, (tenant,))
    if count:
        yield Finding(f"{count_of(count, 'chunk')} of {tenant} without a document; remove and add their collection again")  # fmt: skip
