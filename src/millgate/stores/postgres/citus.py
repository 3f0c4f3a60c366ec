"""Citus: the tables of a store spread over many servers, each tenant's rows together on one of them.

What is read before a tenant is known (tenants, keys, the store itself) stays on the coordinator, which all gateways
talk to: a worker that is down concerns its own tenants alone. Each shard is on one worker: Citus locks no rows of
others. Written for Citus 13.

While rows move, policies are off: PostgreSQL takes no COPY into a table with policies. Afterwards they hold for every
role but the owner of the tables (no FORCE): a shard moves by logical replication, and its role stands in for the
owner. So gateways need a role of their own. Rates become a logged table, since others are not replicated.
"""

import time
from dataclasses import dataclass

from psycopg import errors

from millgate.errors import NotReady, StoreError
from millgate.stores.postgres.address import Address
from millgate.stores.postgres.migrations import BY_TENANT
from millgate.stores.postgres.rows import Link

# Seconds for which `distribute` tries to lock all tables. One try is shorter than the second after which PostgreSQL
# looks for deadlocks (deadlock_timeout), so that it is never a gateway's write that is ended. Chosen, not measured.
_LOCK_S = 60.0
_TRY_MS = 500
_PAUSE_S = 0.2

_LAYOUT = """
SELECT relname, relforcerowsecurity, relpersistence = 'u', p.logicalrelid IS NOT NULL
FROM pg_class LEFT JOIN pg_dist_partition p ON oid = p.logicalrelid
WHERE relnamespace = 'millgate'::regnamespace AND relkind = 'r'
"""
_DISTRIBUTED = (
    "SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('millgate.collections')"
)
_WORKERS = """
SELECT nodename || ':' || nodeport FROM run_command_on_workers('SELECT 1') WHERE NOT success ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """Where the tables of a store are: those of tenants that are local, and what keeps shards from moving."""

    local: tuple[str, ...] = BY_TENANT
    forced: tuple[str, ...] = ()
    """Distributed tables whose policies hold for their owner too, as an earlier release left them."""
    unlogged: tuple[str, ...] = ("rates",)


def read_layout(connection: Link, address: Address) -> TableLayout:
    """Where the tables are; an error if the server has no Citus."""
    if not has_citus(connection):
        raise StoreError(
            f"the store {address} has no Citus",
            hint="set shared_preload_libraries = 'citus' on every server, restart, and run:"
            " CREATE EXTENSION citus; or stay on one server: nothing needs Citus",
        )
    found = {name: rest for name, *rest in connection.execute(_LAYOUT)}
    return TableLayout(
        local=tuple(name for name in BY_TENANT if not found[name][2]),
        forced=tuple(name for name in BY_TENANT if found[name][2] and found[name][0]),
        unlogged=tuple(name for name in BY_TENANT if found[name][1]),
    )


def distribute_sql(layout: TableLayout) -> list[str]:
    """The statements that distribute what is local, in one transaction; none if nothing is."""
    moved, free = layout.local, [_policies(table, "NO FORCE") for table in layout.forced]
    if not moved:
        return free
    named = ", ".join(f"millgate.{table}" for table in moved)
    return [
        f"SET LOCAL lock_timeout = {_TRY_MS}",
        f"LOCK TABLE {named} IN ACCESS EXCLUSIVE MODE",
        "SET LOCAL lock_timeout = 0",
        "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'",
        "SET LOCAL citus.shard_replication_factor TO 1",
        *(_policies(table, "NO FORCE", "DISABLE") for table in moved),
        *(f"ALTER TABLE millgate.{table} SET LOGGED" for table in layout.unlogged),
        *map(_spread, moved),
        *(_policies(table, "ENABLE") for table in moved),
        *(f"SELECT truncate_local_data_after_distributing_table('millgate.{t}')" for t in moved),
        *free,
    ]


def distribute(connection: Link, address: Address) -> int:
    """Distribute the tables of a store that are not yet; how many were."""
    layout = read_layout(connection, address)
    deadline = time.monotonic() + _LOCK_S
    while True:
        try:
            with connection.transaction():
                for statement in distribute_sql(layout):
                    connection.execute(statement)
            return len(layout.local)
        except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
            if time.monotonic() > deadline:
                raise NotReady(
                    f"gateways use the tables of the store {address}: they could not be locked",
                    hint="stop the gateways, and run this again; nothing was changed",
                ) from error
        time.sleep(_PAUSE_S)  # the writers that waited for us go on


def has_citus(connection: Link) -> bool:
    """Whether the database has the extension."""
    found = connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'citus'")
    return found.fetchone() is not None


def is_distributed(connection: Link) -> bool:
    """Whether the rows of tenants lie on workers."""
    return has_citus(connection) and connection.execute(_DISTRIBUTED).fetchone() is not None


def unreachable_workers(connection: Link) -> list[str]:
    """The workers that the coordinator does not reach, as host:port."""
    return [name for (name,) in connection.execute(_WORKERS)]


def _spread(table: str) -> str:
    beside = "default" if table == BY_TENANT[0] else f"millgate.{BY_TENANT[0]}"
    return f"SELECT create_distributed_table('millgate.{table}', 'tenant', colocate_with => '{beside}')"


def _policies(table: str, *changes: str) -> str:
    said = ", ".join(f"{change} ROW LEVEL SECURITY" for change in changes)
    return f"ALTER TABLE millgate.{table} {said}"
