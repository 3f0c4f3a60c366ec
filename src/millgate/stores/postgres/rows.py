"""Rows: the SQL clause that finds a collection, a tenant's counters and quota, and many rows written at once.

PostgreSQL takes no COPY into a table with policies. So a large number of rows is copied into a temporary table and
inserted from there; a few are inserted in one round trip. Citus would copy the rows of a plain INSERT ... SELECT into
the shards, so there is always an ON CONFLICT. It counts what was selected, so what was inserted comes back.
"""

from collections.abc import Collection, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from millgate.errors import StoreError
from millgate.stores.chunk_rows import Row
from millgate.stores.validate import refuse_over_quota

COLUMNS = "id, document, position, source, title, metadata, admission, text"
HERE = "tenant = %s AND collection = %s"
_MANY = 1_000  # rows from which a wrong plan hurts
_FEW = 50  # rows up to which a temporary table costs more than it saves

# the counters of what a tenant's facts and edges take
FACT_BYTES, EDGE_BYTES = "fact bytes", "edge bytes"
_USED = """
SELECT (SELECT coalesce(sum(bytes), 0) FROM millgate.collections WHERE tenant = %s)
  + (SELECT coalesce(sum(value), 0) FROM millgate.counters WHERE tenant = %s AND name = ANY(%s))
"""

Link = Connection[TupleRow]


def as_text_array(texts: Collection[str]) -> str:
    """Texts as the text of an array, for `%s::text[]`."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return '{"' + '","'.join(quoted) + '"}' if texts else "{}"


def fetch_one(connection: Link, sql: str, values: Sequence[object] = ()) -> Row:
    """The only row of a statement that always gives one."""
    row = connection.execute(sql, values).fetchone()
    assert row is not None
    return row


def lock_counter(connection: Link, tenant: str, name: str) -> int:
    """The value of one of the tenant's counters, which no other transaction can read so until this one ends."""
    connection.execute(
        "INSERT INTO millgate.counters (tenant, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
        (tenant, name),
    )
    sql = "SELECT value FROM millgate.counters WHERE tenant = %s AND name = %s FOR UPDATE"
    (value,) = fetch_one(connection, sql, (tenant, name))
    return int(value)


def add_to_counter(connection: Link, tenant: str, name: str, amount: int) -> int:
    """Add to one of the tenant's counters; its new value, visible to others when all before it are."""
    (value,) = fetch_one(
        connection,
        "INSERT INTO millgate.counters AS c (tenant, name, value) VALUES (%s, %s, %s)"
        " ON CONFLICT (tenant, name) DO UPDATE SET value = c.value + excluded.value RETURNING value",
        (tenant, name, amount),
    )
    return int(value)


def next_number(connection: Link, tenant: str, name: str) -> int:
    """The next number of one of the tenant's counters."""
    return add_to_counter(connection, tenant, name, 1)


def check_quota(connection: Link, tenant: str, limit: int | None) -> None:
    """Refuse a write after which a tenant holds more than it may; the transaction takes it back.

    Counted is what a caller sent: ids, titles, metadata and texts of documents, facts and edges, as UTF-8. The check
    ends a write, inside its transaction. Two writers may pass it together, so a tenant can exceed its limit by one
    write.
    """
    if limit is not None:
        (used,) = fetch_one(connection, _USED, (tenant, tenant, [FACT_BYTES, EDGE_BYTES]))
        refuse_over_quota(tenant, int(used), limit)


def insert_rows(connection: Link, table: str, rows: Sequence[Row], *, on_conflict: str = "") -> int:
    """Insert rows of all columns; how many were inserted or, by the clause `on_conflict`, updated.

    Without that clause none of them may be there yet.
    """
    into = f"INSERT INTO millgate.{table}"
    with connection.cursor() as cursor:
        if 0 < len(rows) <= _FEW:
            marks = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"{into} VALUES ({marks}) {on_conflict}", rows)
        elif rows:
            incoming = copy_rows(connection, table, rows)
            clause = on_conflict or "ON CONFLICT DO NOTHING"
            cursor.execute(f"{into} SELECT * FROM {incoming} {clause} RETURNING tenant")
            if not on_conflict and cursor.rowcount != len(rows):
                raise StoreError(
                    f"{len(rows) - cursor.rowcount} rows of the table {table} were there already",
                    hint="run: millgate store check --repair",
                )
        return max(cursor.rowcount, 0)


def copy_rows(connection: Link, table: str, rows: Sequence[Row]) -> str:
    """Copy rows into a temporary table like that one, which is empty again after the transaction; its name."""
    name = f"pg_temp.incoming_{table}"
    connection.execute(
        f"CREATE TEMPORARY TABLE IF NOT EXISTS incoming_{table} (LIKE millgate.{table})"
        " ON COMMIT DELETE ROWS"
    )
    connection.execute(f"DELETE FROM {name}")
    with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    return name


def refresh_statistics(connection: Link, rows: int, *tables: str) -> None:
    """Let the planner look at tables that hold far more rows than it believes, as after a large import.

    PostgreSQL does so on its own within minutes; until then it takes a full table for an empty one and reads all of it.
    On Citus the rows are elsewhere, and this server believes in none for good: there it is left to the workers.
    """
    known = connection.execute(
        "SELECT relname, reltuples FROM pg_catalog.pg_class WHERE relname = ANY(%s)"
        " AND to_regclass('pg_catalog.pg_dist_partition') IS NULL"
        " AND relnamespace = 'millgate'::regnamespace",
        (list(tables),),
    ).fetchall()
    for table, believed in known:
        if rows >= _MANY and 2 * believed < rows:
            connection.execute(f"ANALYZE millgate.{table}")
