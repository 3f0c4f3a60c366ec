"""Rows: the SQL clauses that find rows of the SQLite store, and the tenants' counters."""

import sqlite3

HERE = "tenant = ? AND collection = ?"
LISTED = "IN (SELECT value FROM json_each(?))"


def next_number(connection: sqlite3.Connection, tenant: str, counter: str) -> int:
    """The next number of one of the tenant's counters."""
    connection.execute("INSERT OR IGNORE INTO tenants (tenant) VALUES (?)", (tenant,))
    sql = f"UPDATE tenants SET {counter} = {counter} + 1 WHERE tenant = ?"
    connection.execute(sql, (tenant,))
    sql = f"SELECT {counter} FROM tenants WHERE tenant = ?"
    (number,) = connection.execute(sql, (tenant,)).fetchone()
    return int(number)
