"""Citus: the tables of a store spread over many servers, each tenant's rows together on one of them.

The few rows that are read before a tenant is known are copied to every worker (reference tables). While rows move,
policies are off: the move would not see them otherwise. Rates become a logged table, since Citus cannot move shards of
others while they are in use. Written for Citus 13.
"""

from headgate.errors import StoreError
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.migrations import BY_TENANT, DIRECTORY, has_vectors
from headgate.stores.postgres.rows import Link

REFERENCE = ("migrations", "store", *DIRECTORY)
_FIRST, *_OTHERS = BY_TENANT


def distribute_sql(*, done: frozenset[str] = frozenset(), vectors: bool = False) -> list[str]:
    """The statements that distribute a store; `done` are tables that are distributed already.

    `vectors` says whether it has the table that only a database with pgvector has.
    """
    optional = ["posting_vectors"] if vectors else []
    tables = [table for table in (*BY_TENANT, *optional, *DIRECTORY) if table not in done]
    first = [f"SELECT create_distributed_table('headgate.{_FIRST}', 'tenant')"]
    others = [
        f"SELECT create_distributed_table('headgate.{table}', 'tenant', colocate_with => 'headgate.{_FIRST}')"
        for table in (*_OTHERS, *optional)
        if table not in done
    ]
    references = [
        f"SELECT create_reference_table('headgate.{table}')"
        for table in REFERENCE
        if table not in done
    ]
    if not (others or references or _FIRST not in done):
        return []
    return [
        "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'",
        *(_policies(table, "NO FORCE", "DISABLE") for table in tables),
        *([] if "rates" in done else ["ALTER TABLE headgate.rates SET LOGGED"]),
        *references,
        *([] if _FIRST in done else first),
        *others,
        *(_policies(table, "FORCE", "ENABLE") for table in tables),
    ]


def settings_sql(dbname: str) -> str:
    """The statement that lets workers know the tenant of a transaction, which their policies ask for."""
    quoted = dbname.replace('"', '""')
    return f"ALTER DATABASE \"{quoted}\" SET citus.propagate_set_commands TO 'local'"


def distribute(connection: Link, address: Address) -> int:
    """Distribute the tables of a store that are not yet; how many were."""
    _require_citus(connection, address)
    rows = connection.execute(
        "SELECT c.relname FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid"
        " WHERE c.relnamespace = 'headgate'::regnamespace"
    ).fetchall()
    done = frozenset(name for (name,) in rows)
    vectors = has_vectors(connection)
    with connection.transaction():
        for statement in distribute_sql(done=done, vectors=vectors):
            connection.execute(statement)
    connection.execute(settings_sql(connection.info.dbname))
    return len({*BY_TENANT, *REFERENCE, *(["posting_vectors"] if vectors else [])} - done)


def _require_citus(connection: Link, address: Address) -> None:
    found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'citus'")
    if found.fetchone() is None:
        raise StoreError(
            f"the store {address} has no Citus",
            hint="set shared_preload_libraries = 'citus' on every server, restart, and run:"
            " CREATE EXTENSION citus; or stay on one server: nothing needs Citus",
        )


def _policies(table: str, force: str, enable: str) -> str:
    return f"ALTER TABLE headgate.{table} {force} ROW LEVEL SECURITY, {enable} ROW LEVEL SECURITY"
