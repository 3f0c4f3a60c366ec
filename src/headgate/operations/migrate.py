"""Migrate: the tables of a PostgreSQL store, brought to this release or only said how."""

from headgate.stores.postgres.address import parse_address
from headgate.stores.postgres.connection import Pool
from headgate.stores.postgres.migrations import (
    has_vectors,
    migrate,
    pending,
    refuse_newer,
    vector_schema,
    version,
)


def migrate_postgres(url: str, *, dry_run: bool) -> list[str]:
    """The SQL that a store needs, step by step; unless `dry_run` it is run."""
    address = parse_address(url)
    pool = Pool(address)
    try:
        with pool.session() as connection:
            current = version(connection)
            refuse_newer(address, current)
            vectors_in = "" if has_vectors(connection) else vector_schema(connection)
            if not dry_run:
                migrate(connection, address)
            return pending(current, vectors_in=vectors_in)
    finally:
        pool.close()
