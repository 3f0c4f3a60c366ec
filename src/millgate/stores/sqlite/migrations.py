"""The schema of the SQLite store, as numbered steps.

Step n brings a store of version n-1 to version n; SQLite's user_version holds a store's version.
Steps are never edited once released, only added. Every table is keyed by tenant first.

A chunk carries the number of its last change (`seq`), and `removed` the number of each removal: together they are
the change feed, which holds one entry per chunk, present or removed. `store` has one row: what tells this store from
every other, the secret that tenants' first secrets come from, and how far time has come for the age of traces. Names of
nodes are compared without case, which SQLite does for ASCII alone: the form compared is a column. A trace's summary
comes before its body, so that listing reads no body.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from millgate.errors import StoreError

APPLICATION = 0x4D494C4C  # "MILL" in the file's header, so that no other database is taken for ours

# What a tenant's edges hold is counted as they change: adding up 300 000 of them took 250 ms at every write. Triggers
# do it, so that no statement that changes them can forget to.
_EDGE_BYTES = "length(CAST({0}source || {0}predicate || {0}target || {0}provenance AS BLOB))"

_FIRST = f"""
CREATE TABLE store (id TEXT NOT NULL, secret BLOB NOT NULL, created REAL NOT NULL, clock REAL NOT NULL);
CREATE TABLE collections (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, seq INTEGER NOT NULL DEFAULT 0, place INTEGER NOT NULL DEFAULT 0,
  documents INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0, chars INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, collection)
) WITHOUT ROWID;
CREATE TABLE counters (
  tenant TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
CREATE TABLE documents (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL, bytes INTEGER NOT NULL,
  title TEXT NOT NULL, digest TEXT NOT NULL, source TEXT NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (tenant, collection, id)
) WITHOUT ROWID;
CREATE TABLE chunks (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
  place INTEGER NOT NULL, position INTEGER NOT NULL, seq INTEGER NOT NULL, chars INTEGER NOT NULL,
  bytes INTEGER NOT NULL, source TEXT NOT NULL, title TEXT NOT NULL, metadata TEXT NOT NULL, admission TEXT,
  text TEXT NOT NULL,
  PRIMARY KEY (tenant, collection, id)
);
CREATE INDEX chunks_read ON chunks (tenant, collection, place, position);
CREATE INDEX chunks_feed ON chunks (tenant, collection, seq);
CREATE TABLE removed (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (tenant, collection, id)
) WITHOUT ROWID;
CREATE INDEX removed_feed ON removed (tenant, collection, seq);
CREATE TABLE attachments (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY (tenant, collection, id, kind)
);
CREATE TABLE index_marks (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, mark TEXT NOT NULL, former TEXT NOT NULL,
  PRIMARY KEY (tenant, collection)
) WITHOUT ROWID;
CREATE TABLE edges (
  tenant TEXT NOT NULL, source TEXT NOT NULL, predicate TEXT NOT NULL, target TEXT NOT NULL,
  weight REAL NOT NULL, provenance TEXT NOT NULL, source_key TEXT NOT NULL,
  target_key TEXT NOT NULL,
  PRIMARY KEY (tenant, source, predicate, target)
) WITHOUT ROWID;
CREATE INDEX edges_out ON edges (tenant, source_key, weight DESC, source, predicate, target, provenance);
CREATE INDEX edges_in ON edges (tenant, target_key, weight DESC, source, predicate, target, provenance);
CREATE TRIGGER edges_added AFTER INSERT ON edges BEGIN
  INSERT INTO counters VALUES (new.tenant, 'edge bytes', {_EDGE_BYTES.format("new.")})
  ON CONFLICT (tenant, name) DO UPDATE SET value = value + excluded.value;
END;
CREATE TRIGGER edges_changed AFTER UPDATE ON edges BEGIN
  UPDATE counters SET value = value + {_EDGE_BYTES.format("new.")}
    - {_EDGE_BYTES.format("old.")}
  WHERE tenant = new.tenant AND name = 'edge bytes';
END;
CREATE TRIGGER edges_deleted AFTER DELETE ON edges BEGIN
  UPDATE counters SET value = value - {_EDGE_BYTES.format("old.")}
  WHERE tenant = old.tenant AND name = 'edge bytes';
END;
CREATE TABLE facts (
  tenant TEXT NOT NULL, id TEXT NOT NULL, key BLOB NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, key)
);
CREATE INDEX facts_feed ON facts (tenant, seq);
CREATE TABLE forgotten (
  tenant TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE TABLE secrets (
  tenant TEXT NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL, created REAL NOT NULL, expires REAL,
  PRIMARY KEY (tenant, number)
) WITHOUT ROWID;
CREATE TABLE reviews (
  tenant TEXT NOT NULL, id TEXT NOT NULL, status TEXT NOT NULL, created REAL NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX reviews_queue ON reviews (tenant, status, created, id);
CREATE TABLE traces (
  tenant TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL,
  summary TEXT NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX traces_recent ON traces (tenant, number, size);
CREATE INDEX traces_age ON traces (tenant, created);
CREATE TABLE keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
  name TEXT NOT NULL, created REAL NOT NULL, revoked REAL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
CREATE TABLE spends (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL, last REAL NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, scope, name)
) WITHOUT ROWID;
CREATE INDEX spends_recent ON spends (tenant, last);
INSERT INTO store VALUES (
  lower(hex(randomblob(16))), randomblob(32), (julianday('now') - 2440587.5) * 86400.0, 0.0);
"""

STEPS = (_FIRST,)


def version(connection: sqlite3.Connection) -> int:
    """The store's schema version; 0 for a new file."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    return int(found)


def migrate(connection: sqlite3.Connection, path: Path, *, steps: tuple[str, ...] = STEPS) -> None:
    """Bring the store to the newest version, inside the caller's transaction."""
    current = version(connection)
    _refuse_foreign(connection, path)
    if current > len(steps):
        raise StoreError(
            f"the store {path} has version {current}; this release reads up to {len(steps)}",
            hint="upgrade millgate: pull the repository and run in it: pip install .",
        )
    for step in steps[current:]:
        for statement in _statements(step):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(steps)}")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")


def _statements(step: str) -> Iterator[str]:
    """The statements of a step; a trigger is one, with the statements inside it."""
    statement = ""
    for part in step.split(";"):
        statement += f"{part};"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _refuse_foreign(connection: sqlite3.Connection, path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    if owner == APPLICATION:
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables:
        raise StoreError(
            f"{path} is a database of another program", hint="give the store a folder of its own"
        )
