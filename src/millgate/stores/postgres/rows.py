"""Rows: how statements and lists are spelled for PostgreSQL, and many rows written at once.

PostgreSQL takes no COPY into a table with policies. So a large number of rows is copied into a temporary table and
inserted from there; a few are inserted in one round trip. Citus would copy the rows of a plain INSERT ... SELECT into
the shards, so there is always an ON CONFLICT. It counts what was selected, so what was inserted comes back.
"""

from collections.abc import Collection, Sequence

from psycopg import Connection
from psycopg.rows import TupleRow

from millgate.errors import StoreError
from millgate.stores.chunk_rows import Row

_MANY = 1_000  # rows from which a wrong plan hurts
_FEW = 50  # rows up to which a temporary table costs more than it saves


Link = Connection[TupleRow]


def spell(sql: str) -> str:
    """A statement that several databases understand, as psycopg takes it."""
    return sql.replace("?", "%s")


def as_text_array(values: Collection[str | int]) -> str:
    """Texts or numbers as the text of an array, for `%s::text[]`."""
    quoted = (str(value).replace("\\", "\\\\").replace('"', '\\"') for value in values)
    return '{"' + '","'.join(quoted) + '"}' if values else "{}"


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
                    hint="run: millgate doctor --repair",
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
