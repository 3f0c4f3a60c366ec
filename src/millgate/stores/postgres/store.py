"""PostgresStore: one database, many gateways.

An acknowledged write survives a killed gateway and, as far as the server is set up to keep it, a lost server. Indexes
are derived, kept in each gateway's own folder, and follow the change feed.
"""

from time import time

from millgate.errors import StoreError
from millgate.protocols import Clock
from millgate.stores.postgres.accounts import PostgresAccounts
from millgate.stores.postgres.address import Address, parse_address
from millgate.stores.postgres.citus import is_distributed
from millgate.stores.postgres.connection import Pool
from millgate.stores.postgres.documents import PostgresDocuments
from millgate.stores.postgres.migrations import (
    STEPS,
    migrate,
    owns_tables,
    refuse_newer,
    version,
)
from millgate.stores.postgres.records import PostgresRecords
from millgate.stores.postgres.replicas import Replicas
from millgate.stores.postgres.rows import fetch_one
from millgate.stores.postgres.shared import KnownTenants, PostgresShared
from millgate.stores.postgres.traces import PostgresTraces
from millgate.stores.postgres.upkeep import PostgresUpkeep


class PostgresStore(
    PostgresDocuments,
    PostgresRecords,
    PostgresTraces,
    PostgresAccounts,
    PostgresShared,
    PostgresUpkeep,
):
    """A store in a PostgreSQL database, at a URL such as `postgresql://user:password@host/database`.

    `tenant_bytes` bounds what one tenant may hold.
    Tables are made and brought up to date when it is opened; without `migrates` one that needs it is refused.
    """

    id: str
    """What tells this store from every other."""
    is_distributed: bool
    """Whether its rows lie on the workers of a cluster."""

    def __init__(
        self,
        address: str | Address,
        *,
        tenant_bytes: int | None = None,
        clock: Clock = time,
        migrates: bool = True,
    ) -> None:
        self.address = parse_address(address) if isinstance(address, str) else address
        self._pool = Pool(self.address)
        self._replicas = Replicas(self._pool, self.address)
        self.one_request = self._pool.one_request
        self._tenants = KnownTenants(self._pool)
        self._clock = clock
        self._tenant_bytes = tenant_bytes
        try:
            self._upgrade(migrates=migrates)
        except BaseException:  # the caller gets no store that it could close
            self.close()
            raise

    def __repr__(self) -> str:
        return f"PostgresStore({str(self.address)!r})"

    def close(self) -> None:
        self._replicas.close()
        self._pool.close()

    def _upgrade(self, *, migrates: bool) -> None:
        with self._pool.session() as connection:
            current = version(connection)
            refuse_newer(self.address, current)
            behind = current < len(STEPS)
            if behind and migrates and (not current or owns_tables(connection)):
                migrate(connection, self.address)
            elif behind:
                raise StoreError(
                    f"the store {self.address} has version {current}; this release needs {len(STEPS)}",
                    hint="with the address of the role that owns the tables, run: millgate store migrate",
                )
            # neither ever changes, so a cluster need not keep them beside the rows of a tenant
            row = fetch_one(connection, "SELECT id, secret, created FROM millgate.store")
            self.id, self._secret = row[0], (row[1], row[2])
            self.is_distributed = connection.is_citus and is_distributed(connection)
