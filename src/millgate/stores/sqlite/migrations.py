"""The schema of the SQLite store, as numbered steps.

Step n brings a store of version n-1 to version n; SQLite's user_version holds a store's version.
Steps are never edited once released, only added. Every table is keyed by tenant first.
A chunk carries the number of its last change (`seq`), and `removed` the number of each removal: together they are
the change feed, which holds one entry per chunk, present or removed.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from millgate.errors import StoreError
from millgate.stores.sql.database import hash_key
from millgate.stores.stored_trace import summarize_json
from millgate.types import fact_key, node_key

APPLICATION = 0x48474154  # "HGAT" in the file's header, so that no other database is taken for ours

DOCUMENTS = """
CREATE TABLE tenants (
  tenant TEXT PRIMARY KEY, seq INTEGER NOT NULL DEFAULT 0, place INTEGER NOT NULL DEFAULT 0,
  fact INTEGER NOT NULL DEFAULT 0, trace INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE sizes (
  tenant TEXT NOT NULL, collection TEXT NOT NULL,
  documents INTEGER NOT NULL, chunks INTEGER NOT NULL, chars INTEGER NOT NULL,
  PRIMARY KEY (tenant, collection)
) WITHOUT ROWID;
CREATE TABLE documents (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL,
  title TEXT NOT NULL, digest TEXT NOT NULL, source TEXT NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (tenant, collection, id)
) WITHOUT ROWID;
CREATE TABLE chunks (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
  place INTEGER NOT NULL, position INTEGER NOT NULL, seq INTEGER NOT NULL, chars INTEGER NOT NULL,
  source TEXT NOT NULL, title TEXT NOT NULL, metadata TEXT NOT NULL, admission TEXT, text TEXT NOT NULL,
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
"""

RECORDS = """
CREATE TABLE edges (
  tenant TEXT NOT NULL, source TEXT NOT NULL, predicate TEXT NOT NULL, target TEXT NOT NULL,
  weight REAL NOT NULL, provenance TEXT NOT NULL,
  PRIMARY KEY (tenant, source, predicate, target)
) WITHOUT ROWID;
CREATE INDEX edges_out ON edges (tenant, source, weight DESC, predicate, target, provenance);
CREATE INDEX edges_in ON edges (tenant, target, weight DESC, source, predicate, provenance);
CREATE TABLE facts (
  tenant TEXT NOT NULL, id TEXT NOT NULL, content TEXT NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, content)
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
"""

TRACES = """
CREATE TABLE traces (
  tenant TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, created REAL NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX traces_recent ON traces (tenant, number);
CREATE INDEX traces_age ON traces (tenant, created);
"""

KEYS = """
CREATE TABLE keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, digest TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL,
  name TEXT NOT NULL, created REAL NOT NULL, revoked REAL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID
"""

SPENDS = """
CREATE TABLE spends (
  tenant TEXT NOT NULL, scope TEXT NOT NULL, name TEXT NOT NULL, last REAL NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, scope, name)
) WITHOUT ROWID;
CREATE INDEX spends_recent ON spends (tenant, last)
"""

# Of facts that were stored twice in other letters the first keeps the bare key; `millgate facts merge` joins them.
FACT_KEYS = """
ALTER TABLE facts ADD COLUMN key TEXT NOT NULL DEFAULT '';
UPDATE facts SET key = fact_key(content);
UPDATE facts SET key = key || char(0) || id WHERE EXISTS (
  SELECT 1 FROM facts f WHERE f.tenant = facts.tenant AND f.key = facts.key AND f.rowid < facts.rowid);
CREATE UNIQUE INDEX facts_key ON facts (tenant, key)
"""

# The summary stands before the body, so that listing reads no body. `store` has one row: what tells this store from
# every other, the secret that tenants' first secrets come from, and how far time has come for the age of traces.
STORED_TRACES = """
CREATE TABLE store (id TEXT NOT NULL, secret BLOB NOT NULL, created REAL NOT NULL, clock REAL NOT NULL);
INSERT INTO store VALUES (
  lower(hex(randomblob(16))), randomblob(32), (julianday('now') - 2440587.5) * 86400.0, 0.0);
ALTER TABLE traces RENAME TO former;
DROP INDEX traces_recent;
DROP INDEX traces_age;
CREATE TABLE traces (
  tenant TEXT NOT NULL, id TEXT NOT NULL, number INTEGER NOT NULL, created REAL NOT NULL, size INTEGER NOT NULL,
  summary TEXT NOT NULL, body BLOB NOT NULL,
  PRIMARY KEY (tenant, id)
);
INSERT INTO traces SELECT tenant, id, number, created, length(body), trace_summary(body), body FROM former;
DROP TABLE former;
CREATE INDEX traces_recent ON traces (tenant, number, size);
CREATE INDEX traces_age ON traces (created)
"""

INDEX_MARKS = """
CREATE TABLE index_marks (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, mark TEXT NOT NULL, former TEXT NOT NULL,
  PRIMARY KEY (tenant, collection)
) WITHOUT ROWID
"""

# A title or metadata that chunks share with their document is stored once, and what a tenant holds is counted in bytes.
SHARED_HEADS = """
ALTER TABLE chunks RENAME TO former;
DROP INDEX chunks_read;
DROP INDEX chunks_feed;
CREATE TABLE chunks (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, document TEXT NOT NULL,
  place INTEGER NOT NULL, position INTEGER NOT NULL, seq INTEGER NOT NULL, chars INTEGER NOT NULL,
  bytes INTEGER NOT NULL, source TEXT NOT NULL, title TEXT, metadata TEXT, admission TEXT, text TEXT NOT NULL,
  PRIMARY KEY (tenant, collection, id)
);
INSERT INTO chunks
SELECT tenant, collection, id, document, place, position, seq, chars,
  length(CAST(id || coalesce(title, '') || coalesce(metadata, '') || text AS BLOB)),
  source, title, metadata, admission, text
FROM (
  SELECT f.tenant, f.collection, f.id, document, f.place, position, seq, chars, f.source, admission, text,
    CASE WHEN f.title <> '' AND f.title = d.title THEN NULL ELSE f.title END AS title,
    CASE WHEN f.metadata <> '' AND f.metadata = d.metadata THEN NULL ELSE f.metadata END AS metadata
  FROM former f LEFT JOIN documents d ON d.tenant = f.tenant AND d.collection = f.collection AND d.id = f.document
);
DROP TABLE former;
CREATE INDEX chunks_read ON chunks (tenant, collection, place, position);
CREATE INDEX chunks_feed ON chunks (tenant, collection, seq);
ALTER TABLE sizes ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
UPDATE sizes SET bytes = (
  SELECT coalesce(sum(bytes), 0) FROM chunks c WHERE c.tenant = sizes.tenant AND c.collection = sizes.collection
) + (
  SELECT coalesce(sum(length(CAST(id || title || metadata AS BLOB))), 0) FROM documents d
  WHERE d.tenant = sizes.tenant AND d.collection = sizes.collection
);
CREATE INDEX facts_size ON facts (tenant, length(CAST(body AS BLOB)))
"""

# What a tenant's edges and facts hold is counted as they change: adding up 300 000 edges took 250 ms at every write.
# Triggers do it, so that no statement that changes them can forget to.
_EDGE_BYTES = "length(CAST({0}source || {0}predicate || {0}target || {0}provenance AS BLOB))"
_FACT_BYTES = "length(CAST({0}body AS BLOB))"


def _count_triggers(table: str, size: str) -> str:
    new, old = size.format("new."), size.format("old.")
    return f"""
CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN
  INSERT INTO tenants (tenant, record_bytes) VALUES (new.tenant, {new})
  ON CONFLICT (tenant) DO UPDATE SET record_bytes = record_bytes + excluded.record_bytes;
END;
CREATE TRIGGER {table}_changed AFTER UPDATE ON {table} BEGIN
  UPDATE tenants SET record_bytes = record_bytes + {new} - {old} WHERE tenant = new.tenant;
END;
CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} BEGIN
  UPDATE tenants SET record_bytes = record_bytes - {old} WHERE tenant = old.tenant;
END;
"""


COUNTED_RECORDS = f"""
ALTER TABLE tenants ADD COLUMN record_bytes INTEGER NOT NULL DEFAULT 0;
INSERT OR IGNORE INTO tenants (tenant) SELECT tenant FROM edges UNION SELECT tenant FROM facts;
UPDATE tenants SET record_bytes =
  (SELECT coalesce(sum({_EDGE_BYTES.format("")}), 0) FROM edges e WHERE e.tenant = tenants.tenant)
  + (SELECT coalesce(sum({_FACT_BYTES.format("")}), 0) FROM facts f WHERE f.tenant = tenants.tenant);
DROP INDEX facts_size;
{_count_triggers("edges", _EDGE_BYTES)}
{_count_triggers("facts", _FACT_BYTES)}
"""

# Names of nodes are compared without case, which SQLite does for ASCII alone: the form compared is a column.
NODE_KEYS = """
ALTER TABLE edges ADD COLUMN source_key TEXT NOT NULL DEFAULT '';
ALTER TABLE edges ADD COLUMN target_key TEXT NOT NULL DEFAULT '';
UPDATE edges SET source_key = node_key(source), target_key = node_key(target);
DROP INDEX edges_out;
DROP INDEX edges_in;
CREATE INDEX edges_out ON edges (tenant, source_key, weight DESC, source, predicate, target, provenance);
CREATE INDEX edges_in ON edges (tenant, target_key, weight DESC, source, predicate, target, provenance)
"""

# Sizes, counters and facts' keys as PostgreSQL has them, so that statements hold for both. The numbers of the feed and
# places in reading order are each collection's own.
COLLECTIONS = f"""
DROP TRIGGER edges_added; DROP TRIGGER edges_changed; DROP TRIGGER edges_deleted;
DROP TRIGGER facts_added; DROP TRIGGER facts_changed; DROP TRIGGER facts_deleted;
CREATE TABLE counters (
  tenant TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (tenant, name)
) WITHOUT ROWID;
INSERT INTO counters
SELECT tenant, 'fact', fact FROM tenants UNION ALL SELECT tenant, 'trace', trace FROM tenants
UNION ALL SELECT tenant, 'fact bytes', sum({_FACT_BYTES.format("")}) FROM facts GROUP BY tenant
UNION ALL SELECT tenant, 'edge bytes', sum({_EDGE_BYTES.format("")}) FROM edges GROUP BY tenant;
CREATE TABLE collections (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, seq INTEGER NOT NULL DEFAULT 0, place INTEGER NOT NULL DEFAULT 0,
  documents INTEGER NOT NULL DEFAULT 0, chunks INTEGER NOT NULL DEFAULT 0, chars INTEGER NOT NULL DEFAULT 0,
  bytes INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (tenant, collection)
) WITHOUT ROWID;
INSERT INTO collections
SELECT tenant, collection, max(
    coalesce((SELECT max(seq) FROM chunks c WHERE c.tenant = n.tenant AND c.collection = n.collection), 0),
    coalesce((SELECT max(seq) FROM removed r WHERE r.tenant = n.tenant AND r.collection = n.collection), 0)
  ), (SELECT place FROM tenants t WHERE t.tenant = n.tenant),
  coalesce(documents, 0), coalesce(chunks, 0), coalesce(chars, 0), coalesce(bytes, 0)
FROM (SELECT tenant, collection FROM sizes UNION SELECT tenant, collection FROM removed) n
LEFT JOIN sizes USING (tenant, collection);
DROP TABLE sizes;
DROP TABLE tenants;
ALTER TABLE documents RENAME TO former;
CREATE TABLE documents (
  tenant TEXT NOT NULL, collection TEXT NOT NULL, id TEXT NOT NULL, place INTEGER NOT NULL, bytes INTEGER NOT NULL,
  title TEXT NOT NULL, digest TEXT NOT NULL, source TEXT NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (tenant, collection, id)
) WITHOUT ROWID;
INSERT INTO documents SELECT tenant, collection, id, place, length(CAST(id || title || metadata AS BLOB)),
  title, digest, source, metadata FROM former;
DROP TABLE former;
ALTER TABLE facts RENAME TO former;
CREATE TABLE facts (
  tenant TEXT NOT NULL, id TEXT NOT NULL, key BLOB NOT NULL, seq INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id), UNIQUE (tenant, key)
);
INSERT INTO facts SELECT tenant, id, hash_key(key), seq, body FROM former;
DROP TABLE former;
CREATE INDEX facts_feed ON facts (tenant, seq);
DROP INDEX traces_age;
CREATE INDEX traces_age ON traces (tenant, created);
CREATE TRIGGER edges_added AFTER INSERT ON edges BEGIN
  INSERT INTO counters VALUES (new.tenant, 'edge bytes', {_EDGE_BYTES.format("new.")})
  ON CONFLICT (tenant, name) DO UPDATE SET value = value + excluded.value;
END;
CREATE TRIGGER edges_changed AFTER UPDATE ON edges BEGIN
  UPDATE counters SET value = value + {_EDGE_BYTES.format("new.")} - {_EDGE_BYTES.format("old.")}
  WHERE tenant = new.tenant AND name = 'edge bytes';
END;
CREATE TRIGGER edges_deleted AFTER DELETE ON edges BEGIN
  UPDATE counters SET value = value - {_EDGE_BYTES.format("old.")} WHERE tenant = old.tenant AND name = 'edge bytes';
END;
"""

STEPS = (
    DOCUMENTS,
    RECORDS,
    TRACES,
    KEYS,
    SPENDS,
    FACT_KEYS,
    STORED_TRACES,
    INDEX_MARKS,
    SHARED_HEADS,
    COUNTED_RECORDS,
    NODE_KEYS,
    COLLECTIONS,
)


# What all steps together make, for a new store: a fifth of the time. A test holds both together.
SCHEMA = f"""
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
  bytes INTEGER NOT NULL, source TEXT NOT NULL, title TEXT, metadata TEXT, admission TEXT, text TEXT NOT NULL,
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
  weight REAL NOT NULL, provenance TEXT NOT NULL, source_key TEXT NOT NULL DEFAULT '',
  target_key TEXT NOT NULL DEFAULT '',
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
    connection.create_function("fact_key", 1, fact_key, deterministic=True)
    connection.create_function("hash_key", 1, hash_key, deterministic=True)
    connection.create_function("node_key", 1, node_key, deterministic=True)
    connection.create_function("trace_summary", 1, summarize_json, deterministic=True)
    for step in steps[current:] if current or steps is not STEPS else [SCHEMA]:
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
