"""Citus: the tables of a store spread over many servers, each tenant's rows together on one of them.

The few rows that are read before a tenant is known are copied to every worker (reference tables). While rows move,
policies are off: PostgreSQL takes no COPY into a table with policies. Rates become a logged table, since Citus cannot
move shards of others while they are in use. Each shard is on one worker: Citus locks no rows of others. Written for
Citus 13.
"""

from headgate.errors import StoreError
from headgate.stores.postgres.address import Address
from headgate.stores.postgres.migrations import BY_TENANT, DIRECTORY, has_vectors
from headgate.stores.postgres.rows import Link

REFERENCE = ("migrations", "store", *DIRECTORY)


def distribute_sql(*, done: frozenset[str] = frozenset(), vectors: bool = False) -> list[str]:
    """The statements that distribute a store; `done` are tables that are distributed already.

    `vectors` says whether it has the table that only a database with pgvector has.
    """
    every = (*BY_TENANT, *["posting_vectors"] * vectors)
    by_tenant = [table for table in every if table not in done]
    references = [table for table in REFERENCE if table not in done]
    tables = [*by_tenant, *references]
    if not tables:
        return []
    hidden = [table for table in tables if table not in ("migrations", "store")]
    return [
        "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'",
        "SET LOCAL citus.shard_replication_factor TO 1",
        *(_policies(table, "NO FORCE", "DISABLE") for table in hidden),
        *(["ALTER TABLE headgate.rates SET LOGGED"] if "rates" in tables else []),
        *(f"SELECT create_reference_table('headgate.{table}')" for table in references),
        *map(_spread, by_tenant),
        *(_policies(table, "FORCE", "ENABLE") for table in hidden),
        *(
            f"SELECT truncate_local_data_after_distributing_table('headgate.{table}')"
            for table in tables
        ),
    ]


def distribute(connection: Link, address: Address) -> int:
    """Distribute the tables of a store that are not yet; how many were."""
    found = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
    if found.fetchone() is None:
        raise StoreError(
            f"the store {address} has no Citus",
            hint="set shared_preload_libraries = 'citus' on every server, restart, and run:"
            " CREATE EXTENSION citus; or stay on one server: nothing needs Citus",
        )
    rows = connection.execute(
        "SELECT relname FROM pg_class JOIN pg_dist_partition ON oid = logicalrelid"
        " WHERE relnamespace = 'headgate'::regnamespace"
    )
    done = frozenset(name for (name,) in rows)
    statements = distribute_sql(done=done, vectors=has_vectors(connection))
    with connection.transaction():
        for statement in statements:
            connection.execute(statement)
    return sum("create_" in statement for statement in statements)


def _spread(table: str) -> str:
    beside = "default" if table == BY_TENANT[0] else f"headgate.{BY_TENANT[0]}"
    return f"SELECT create_distributed_table('headgate.{table}', 'tenant', colocate_with => '{beside}')"


def _policies(table: str, force: str, enable: str) -> str:
    return f"ALTER TABLE headgate.{table} {force} ROW LEVEL SECURITY, {enable} ROW LEVEL SECURITY"
