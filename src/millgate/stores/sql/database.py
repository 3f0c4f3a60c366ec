"""Database: what the parts of a store ask of SQLite and PostgreSQL, and what several of them say.

Statements are PostgreSQL's, with `?` for a value; a connection spells them as its database wants them. Lists of names
go in as one value (`listed`). A write is one transaction, and what it counted or locked is its own until the commit.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, Protocol

from millgate.protocols import Clock
from millgate.stores.chunk_rows import Row
from millgate.stores.validate import check_name, refuse_over_quota

COLUMNS = "id, document, position, source, title, metadata, admission, text"
"""The columns of a chunk that make its row."""
HERE = "tenant = ? AND collection = ?"
LISTED = "id = ANY(?::text[])"

# the counters of what a tenant's facts and edges take
FACT_BYTES, EDGE_BYTES = "fact bytes", "edge bytes"
_USED = f"""
SELECT (SELECT coalesce(sum(bytes), 0) FROM millgate.collections WHERE tenant = ?)
  + (SELECT coalesce(sum(value), 0) FROM millgate.counters WHERE tenant = ?
     AND name IN ('{FACT_BYTES}', '{EDGE_BYTES}'))
"""


class Result(Protocol):
    """What a statement gave."""

    @property
    def rowcount(self) -> int:
        """How many rows it changed."""

    def fetchone(self) -> Any:  # noqa: ANN401  (a row holds what its statement names)
        """The first row, if any."""

    def fetchall(self) -> list[Any]:
        """All rows."""


class Link(Protocol):
    """A connection inside a transaction."""

    def execute(self, sql: str, values: Sequence[object] = ..., /) -> Result:
        """Run a statement."""

    def run_many(self, sql: str, rows: Sequence[Row]) -> int:
        """Run a statement once for each row of values; how many rows it changed."""

    def insert(self, table: str, rows: Iterable[Row], *, on_conflict: str = "") -> int:
        """Insert rows of all columns; how many were inserted or, by the clause, updated."""

    def lock_counter(self, tenant: str, name: str) -> None:
        """Let no other transaction read or change one of the tenant's counters until this one ends."""

    def listed(self, values: Collection[str | int], /) -> str:
        """Names or numbers as one value."""


class Reader(Protocol):
    """Where single statements read."""

    def fetch(
        self, tenant: str, sql: str, values: Sequence[object] = ..., *, binary: bool = ...
    ) -> list[Any]:
        """The rows of a statement; `binary` if they hold bytes."""


class Database(Reader, Protocol):
    """Connections to one database."""

    def fetch_first(self, tenant: str, sql: str, *values: object) -> list[Any]:
        """The same for what every request reads."""

    def write(
        self, tenant: str, *, durable: bool = True, patience_s: float | None = None
    ) -> AbstractContextManager[Link]:
        """A transaction that writes: all of it or nothing."""

    def directory(self, *, write: bool = False) -> AbstractContextManager[Link]:
        """A transaction over what is found without a tenant."""

    def listed(self, values: Collection[str | int], /) -> str:
        """Names or numbers as one value."""


class SqlPart(ABC):
    """One part of a store: its parts share connections, clock, and what a tenant may hold."""

    _pool: Database
    _clock: Clock
    _tenant_bytes: int | None

    @abstractmethod
    def tenants(self) -> list[str]:
        """Every tenant that has anything."""

    def _know(self, tenant: str) -> None:
        """Check a tenant that is about to write, and note it if the store has a list of tenants."""
        check_name("tenant", tenant)


def fetch_one(link: Link, sql: str, values: Sequence[object] = ()) -> Row:
    """The only row of a statement that always gives one."""
    (row,) = link.execute(sql, values).fetchall()
    found: Row = row
    return found


def add_to_counter(link: Link, tenant: str, name: str, amount: int = 1) -> int:
    """Add to one of the tenant's counters; its new value, visible to others when all before it are."""
    (value,) = fetch_one(
        link,
        "INSERT INTO millgate.counters AS c (tenant, name, value) VALUES (?, ?, ?)"
        " ON CONFLICT (tenant, name) DO UPDATE SET value = c.value + excluded.value RETURNING value",
        (tenant, name, amount),
    )
    return int(value)


def check_quota(link: Link, tenant: str, limit: int | None) -> None:
    """Refuse a write after which a tenant holds more than it may; the transaction takes it back.

    Counted is what a caller sent: ids, titles, metadata and texts of documents, facts and edges, as UTF-8. The check
    ends a write, inside its transaction. SQLite lets one write at a time; in PostgreSQL two writers may pass it
    together, so a tenant can exceed its limit by one write.
    """
    if limit is not None:
        (used,) = fetch_one(link, _USED, (tenant, tenant))
        refuse_over_quota(tenant, int(used), limit)


def hash_key(key: str) -> bytes:
    """What makes a fact unique. Its key may be as long as the fact."""
    return blake2b(key.encode(), digest_size=32).digest()
