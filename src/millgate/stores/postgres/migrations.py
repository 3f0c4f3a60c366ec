"""The schema of the PostgreSQL store, as numbered steps.

Step n brings a store of version n-1 to version n. Steps are never edited once released, only added. Gateways that start
at once wait at an advisory lock while one migrates.

Every key begins with the tenant, and a policy shows a tenant's own rows alone, on a single server to the owner of the
table too. No table refers to another and no number comes from a sequence, so that all can be distributed. Names
compare byte by byte.

One role may own the tables and migrate, and gateways use another that can only read and write rows (`grant_sql`).
"""

import time
from secrets import token_bytes, token_hex

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg.sql import SQL, Identifier

from millgate.errors import InputError, StoreError
from millgate.stores.postgres.address import Address, parse_address
from millgate.stores.postgres.connection import Pool

LOCK = 0x4D494C4C  # "MILL": the advisory lock that a process holds while it migrates
NAME = 'text COLLATE "C" NOT NULL'

START = """
CREATE SCHEMA IF NOT EXISTS millgate;
CREATE TABLE IF NOT EXISTS millgate.migrations (
  number integer PRIMARY KEY, taken timestamptz NOT NULL DEFAULT now());
"""

STORE = f"""
CREATE TABLE millgate.store (
  id text PRIMARY KEY, secret bytea NOT NULL, created float8 NOT NULL, clock float8 NOT NULL);
CREATE TABLE millgate.tenants (tenant {NAME} PRIMARY KEY);
CREATE TABLE millgate.counters (
  tenant {NAME}, name {NAME}, value bigint NOT NULL DEFAULT 0, PRIMARY KEY (tenant, name)
) WITH (fillfactor = 50);
"""

# A writer holds the row of the collection until the commit, so the numbers of its feed become visible in their
# order: a reader that saw n has seen all below n.
DOCUMENTS = f"""
CREATE TABLE millgate.collections (
  tenant {NAME}, collection {NAME}, seq bigint NOT NULL DEFAULT 0, place bigint NOT NULL DEFAULT 0,
  documents bigint NOT NULL DEFAULT 0, chunks bigint NOT NULL DEFAULT 0, chars bigint NOT NULL DEFAULT 0,
  bytes bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, collection)
) WITH (fillfactor = 50);
CREATE TABLE millgate.documents (
  tenant {NAME}, collection {NAME}, id {NAME}, place bigint NOT NULL,
  bytes bigint NOT NULL, title text NOT NULL, digest text NOT NULL, source text NOT NULL, metadata text NOT NULL,
  PRIMARY KEY (tenant, collection, id));
CREATE TABLE millgate.chunks (
  tenant {NAME}, collection {NAME}, id {NAME}, document {NAME},
  place bigint NOT NULL, position bigint NOT NULL, seq bigint NOT NULL, chars bigint NOT NULL,
  bytes bigint NOT NULL, source text NOT NULL, title text NOT NULL, metadata text NOT NULL, admission text, text text NOT NULL,
  PRIMARY KEY (tenant, collection, id));
CREATE INDEX chunks_read ON millgate.chunks (tenant, collection, place, position);
CREATE INDEX chunks_feed ON millgate.chunks (tenant, collection, seq);
CREATE TABLE millgate.removed (
  tenant {NAME}, collection {NAME}, id {NAME}, seq bigint NOT NULL,
  PRIMARY KEY (tenant, collection, id));
CREATE INDEX removed_feed ON millgate.removed (tenant, collection, seq);
CREATE TABLE millgate.attachments (
  tenant {NAME}, collection {NAME}, id {NAME}, kind {NAME}, value bytea NOT NULL,
  PRIMARY KEY (tenant, collection, id, kind));
CREATE TABLE millgate.index_marks (
  tenant {NAME}, collection {NAME}, mark {NAME}, former {NAME}, created timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (tenant, collection, mark));
"""

# A fact's key may be as long as the fact: its hash is what makes it unique. Names of nodes are compared without case:
# what the database takes for lower case depends on its locale, so the form compared is a column that gateways fill.
RECORDS = f"""
CREATE TABLE millgate.edges (
  tenant {NAME}, source {NAME}, predicate {NAME}, target {NAME},
  weight float8 NOT NULL, provenance text NOT NULL, source_key {NAME}, target_key {NAME},
  PRIMARY KEY (tenant, source, predicate, target));
CREATE INDEX edges_out ON millgate.edges (tenant, source_key, weight DESC, source, predicate, target);
CREATE INDEX edges_in ON millgate.edges (tenant, target_key, weight DESC, source, predicate, target);
CREATE TABLE millgate.facts (
  tenant {NAME}, id {NAME}, key bytea NOT NULL, seq bigint NOT NULL, body text NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, key));
CREATE INDEX facts_feed ON millgate.facts (tenant, seq);
CREATE TABLE millgate.forgotten (
  tenant {NAME}, id {NAME}, seq bigint NOT NULL, PRIMARY KEY (tenant, id));
CREATE TABLE millgate.secrets (
  tenant {NAME}, number bigint NOT NULL, key bytea NOT NULL, created float8 NOT NULL, expires float8,
  PRIMARY KEY (tenant, number));
CREATE TABLE millgate.reviews (
  tenant {NAME}, id {NAME}, status {NAME}, created float8 NOT NULL, body text NOT NULL,
  PRIMARY KEY (tenant, id));
CREATE INDEX reviews_queue ON millgate.reviews (tenant, status, created, id);
"""

TRACES = f"""
CREATE TABLE millgate.traces (
  tenant {NAME}, id {NAME}, number bigint NOT NULL, created float8 NOT NULL, size bigint NOT NULL,
  summary text NOT NULL, body bytea NOT NULL,
  PRIMARY KEY (tenant, id));
ALTER TABLE millgate.traces ALTER body SET STORAGE EXTERNAL;
CREATE INDEX traces_recent ON millgate.traces (tenant, number, size);
CREATE INDEX traces_age ON millgate.traces (tenant, created);
CREATE TABLE millgate.keys (
  tenant {NAME}, id {NAME}, digest {NAME} UNIQUE, scopes text NOT NULL,
  name text NOT NULL, created float8 NOT NULL, revoked float8,
  PRIMARY KEY (tenant, id));
CREATE TABLE millgate.spends (
  tenant {NAME}, scope {NAME}, name {NAME}, last float8 NOT NULL, body text NOT NULL,
  PRIMARY KEY (tenant, scope, name)
) WITH (fillfactor = 50);
CREATE INDEX spends_recent ON millgate.spends (tenant, last);
"""

# Rates need not outlive the server.
SHARED = f"""
CREATE UNLOGGED TABLE millgate.rates (
  tenant {NAME}, key {NAME}, remaining float8 NOT NULL, counted float8 NOT NULL, taken boolean NOT NULL,
  PRIMARY KEY (tenant, key)
) WITH (fillfactor = 50);
CREATE TABLE millgate.remembered (
  tenant {NAME}, key bytea NOT NULL, value bytea NOT NULL, written float8 NOT NULL,
  PRIMARY KEY (tenant, key));
CREATE INDEX remembered_age ON millgate.remembered (tenant, written);
"""

BY_TENANT = (
    "collections", "counters", "documents", "chunks", "removed", "attachments", "index_marks",
    "edges", "facts", "forgotten", "secrets", "reviews", "traces", "spends", "rates", "remembered",
)  # fmt: skip
"""Tables of which each row is one tenant's."""
DIRECTORY = ("tenants", "keys")
"""Tables that say who there is; they are read before a tenant is known."""

_OWN = "tenant = current_setting('millgate.tenant', true)"
_LISTED = f"{_OWN} OR current_setting('millgate.directory', true) = 'on'"


def protect(table: str, policy: str) -> str:
    """The SQL that hides a table's rows from everybody whom the policy does not let see them."""
    return (
        f"ALTER TABLE millgate.{table} ENABLE ROW LEVEL SECURITY;\n"
        f"ALTER TABLE millgate.{table} FORCE ROW LEVEL SECURITY;\n"
        f"CREATE POLICY tenant ON millgate.{table} USING ({policy});\n"
    )


POLICIES = "".join(
    [protect(table, _OWN) for table in BY_TENANT] + [protect(table, _LISTED) for table in DIRECTORY]
)

STEPS = (STORE, DOCUMENTS, RECORDS, TRACES, SHARED, POLICIES)

_THERE = """
SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'millgate' AND tablename = 'migrations'
"""
_OWNED = """
SELECT pg_has_role(c.relowner, 'USAGE') FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n
ON n.oid = c.relnamespace WHERE n.nspname = 'millgate' AND c.relname = 'migrations'
"""
# What a gateway needs of the schema, of the tables that are there, and of those that later releases add.
_GRANTS = (
    "GRANT USAGE ON SCHEMA millgate TO {}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA millgate TO {}",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA millgate GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {}",
)


def version(connection: Connection[TupleRow]) -> int:
    """The store's schema version; 0 if there is no store yet."""
    # read from the catalog: a look-up by name may remember that there was none before another gateway made it
    if connection.execute(_THERE).fetchone() == (0,):
        return 0
    sql = "SELECT coalesce(max(number), 0) FROM millgate.migrations"
    (found,) = connection.execute(sql).fetchone() or (0,)
    return int(found)


def owns_tables(connection: Connection[TupleRow]) -> bool:
    """Whether this role may change the tables; a role that gateways alone use may not."""
    return connection.execute(_OWNED).fetchone() == (True,)


def grant_sql(connection: Connection[TupleRow], role: str) -> list[str]:
    """The statements that let a role read and write rows, and nothing more."""
    return [SQL(line).format(Identifier(role)).as_string(connection) + ";\n" for line in _GRANTS]


def pending(current: int, *, steps: tuple[str, ...] = STEPS) -> list[str]:
    """The SQL that a store of this version still needs, step by step."""
    start = [START] if not current else []
    return [*start, *(step.strip() + "\n" for step in steps[current:])]


def refuse_newer(address: Address, current: int, *, steps: tuple[str, ...] = STEPS) -> None:
    """Refuse a store that a newer release has migrated."""
    if current > len(steps):
        raise StoreError(
            f"the store {address} has version {current}; this release reads up to {len(steps)}",
            hint="upgrade millgate: pull the repository and run in it: pip install '.[postgres]'",
        )


def migrate(
    connection: Connection[TupleRow], address: Address, *, steps: tuple[str, ...] = STEPS
) -> int:
    """Bring the store to the newest version, as one transaction; how many steps were taken."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
        current = version(connection)
        refuse_newer(address, current, steps=steps)
        if not current:
            connection.execute(START)
        for number, step in enumerate(steps[current:], current + 1):
            connection.execute(step)
            connection.execute("INSERT INTO millgate.migrations (number) VALUES (%s)", (number,))
        connection.execute(
            "INSERT INTO millgate.store SELECT %s, %s, %s, 0"
            " WHERE NOT EXISTS (SELECT 1 FROM millgate.store)",
            (token_hex(16), token_bytes(32), time.time()),
        )
        return len(steps) - current


def migrate_postgres(url: str, *, dry_run: bool, role: str = "") -> list[str]:
    """The SQL that a store needs, step by step; unless `dry_run` it is run. `role` may read and write rows then."""
    address = parse_address(url)
    pool = Pool(address)
    try:
        with pool.session() as connection:
            grants = _grants_for(connection, role) if role else []
            current = version(connection)
            refuse_newer(address, current)
            if not dry_run:
                migrate(connection, address)
                with connection.transaction():
                    for statement in grants:
                        connection.execute(statement)
            return [*pending(current), *grants]
    finally:
        pool.close()


def _grants_for(connection: Connection[TupleRow], role: str) -> list[str]:
    sql = "SELECT rolname = current_user FROM pg_catalog.pg_roles WHERE rolname = %s"
    row = connection.execute(sql, (role,)).fetchone()
    if row is None:
        name = Identifier(role).as_string(connection)
        raise InputError(
            f"there is no role {role!r} on this server",
            hint=f"as superuser: CREATE ROLE {name} LOGIN PASSWORD '...'; then run this again",
        )
    if row[0]:
        raise InputError(
            f"the role {role!r} is the one that migrates, so it owns the tables",
            hint="name the other one, that of the gateways",
        )
    return grant_sql(connection, role)
