"""Status: what a store holds, how large it is, and how far its indexes are behind."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from millgate.explain.costs import WEEK_S, Costs, add_up
from millgate.gateway import Millgate
from millgate.index.folder import folder_of, manifest_seen
from millgate.operations.presence import tenants_of
from millgate.stores.sql.store import SqlStore
from millgate.stores.url import hide_password

_COUNTED = 10_000  # changes that an index is behind; further ones are not counted


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """A collection: what it holds, and how many changes its saved index has not seen (at most 10 000 are counted).

    None: there is no index yet.
    """

    name: str
    documents: int
    chunks: int
    chars: int
    index_lag: int | None


@dataclass(frozen=True, slots=True)
class TenantStatus:
    """What a tenant has."""

    tenant: str
    collections: tuple[CollectionStatus, ...]
    facts: int
    edges: int | None
    traces: int
    reviews: int
    """Reviews that wait for a person."""


@dataclass(frozen=True, slots=True)
class Status:
    """A store: where it is, its sizes in bytes, and what each tenant has in it."""

    store: str
    database_bytes: int
    index_bytes: int
    tenants: tuple[TenantStatus, ...]
    server: str
    """The database that keeps it, with its version."""
    tables: dict[str, int]
    """Bytes on disk by table or by file."""


def status(gate: Millgate, *, tenant: str | None = None) -> Status:
    """What is in a store, for one tenant or, if the store can list them, for all."""
    names = [tenant] if tenant else tenants_of(gate)
    folder = gate.folder
    indexes = folder and folder / "index"
    store = gate.store if isinstance(gate.store, SqlStore) else None
    tables = store.tables() if store else {}
    return Status(
        hide_password(gate.settings.store),
        sum(tables.values()),
        _size_of(indexes) if indexes else 0,
        tuple(_tenant(gate, name, indexes) for name in names),
        store.server() if store else "a store of your own",
        tables,
    )


def costs_of_week(gate: Millgate, tenant: str) -> Costs:
    """What the model calls of a tenant cost in the last seven days, as far back as traces are kept."""
    rows = gate.store.traces(tenant, limit=gate.settings.trace.keep)
    return add_up(rows, since=time.time() - WEEK_S)


def _tenant(gate: Millgate, tenant: str, indexes: Path | None) -> TenantStatus:
    collections = tuple(_collections(gate, tenant, indexes))
    store = gate.store
    if isinstance(store, SqlStore):  # it counts without reading
        pending = "reviews WHERE status = 'pending' AND"
        tables = ("facts WHERE", "edges WHERE", "traces WHERE", pending)
        counts = [store.query(tenant, f"SELECT count(*) FROM millgate.{of} tenant = ?", (tenant,))[0][0] for of in tables]  # noqa: S608  # fmt: skip
        return TenantStatus(tenant, collections, *counts)
    traces = store.traces(tenant, limit=gate.settings.trace.keep)
    waiting = store.reviews(tenant, status="pending")
    return TenantStatus(tenant, collections, len(store.facts(tenant)), None, len(traces), len(waiting))  # fmt: skip


def _collections(gate: Millgate, tenant: str, indexes: Path | None) -> Iterator[CollectionStatus]:
    for name, size in gate.store.collections(tenant).items():
        seen = manifest_seen(folder_of(indexes, tenant, name)) if indexes else None
        lag = None if seen is None else len(gate.store.changes(tenant, name, seen, _COUNTED))
        yield CollectionStatus(name, size.documents, size.chunks, size.chars, lag)


def _size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
