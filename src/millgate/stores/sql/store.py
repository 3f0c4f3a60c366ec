"""SqlStore: the parts of a store together, and what operations on a whole store ask of any database."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence

from millgate.stores.chunk_rows import Row
from millgate.stores.sql.accounts import SqlAccounts
from millgate.stores.sql.records import SqlRecords
from millgate.stores.sql.traces import SqlTraces
from millgate.types import Record


class SqlStore(SqlTraces, SqlAccounts, SqlRecords):
    """A store in a database. The methods here are for commands that look after a store; nothing else calls them."""

    def query(self, tenant: str, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """The rows of a statement, which sees a tenant's rows alone where the database can hide the others."""
        return self._pool.fetch(tenant, sql, values)

    def execute(self, tenant: str, sql: str, values: Sequence[object] = ()) -> int:
        """Run a statement in a transaction of its own; how many rows it changed."""
        with self._pool.write(tenant) as link:
            return link.execute(sql, values).rowcount

    @abstractmethod
    def records(self, tenant: str | None = None) -> Iterator[Record]:
        """Every document, edge, fact and review, with its tenant and kind; each tenant's of one moment."""

    @abstractmethod
    def tables(self) -> dict[str, int]:
        """Bytes on disk by table or by file; the largest first."""

    @abstractmethod
    def server(self) -> str:
        """The database that keeps it, with its version."""

    @abstractmethod
    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]:
        """The marks of indexes that may be believed."""

    @abstractmethod
    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None:
        """Let an index be believed in place of a former one."""

    @abstractmethod
    def close(self) -> None:
        """Close its connections."""
