"""Texts go into an array of SQL and come out as they were; many rows are inserted, none of them twice."""

import psycopg
import pytest

from millgate.errors import StoreError
from millgate.stores.postgres.rows import as_text_array, insert_rows
from millgate.stores.postgres.store import PostgresStore
from millgate.stores.postgres.texts import register_texts

TEXTS = [
    "",
    "plain",
    "NULL",
    'quo"te',
    "back\\slash",
    "a,b",
    "{x}",
    " space ",
    "line\nbreak",
    "漢",
    "nul\0",
    "\1",
]


@pytest.fixture
def connection(postgres):
    with psycopg.connect(postgres.url) as connection:
        register_texts(connection)
        yield connection


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("texts", [TEXTS, []])
def test_texts_come_out_of_an_array_as_they_went_in(connection, texts, binary):
    sql = "SELECT unnest(%s::text[])"
    rows = connection.execute(sql, (as_text_array(texts),), binary=binary).fetchall()
    assert [text for (text,) in rows] == texts


def test_many_rows_of_which_some_are_there_already_are_refused(postgres_url):
    store = PostgresStore(postgres_url)
    rows = [("t", "main", f"c{number}", "kind", b"value") for number in range(200)]
    with store._pool.write("t") as connection:
        assert insert_rows(connection, "attachments", rows) == 200
    with (
        pytest.raises(StoreError, match="100 rows of the table attachments were there already"),
        store._pool.write("t") as connection,
    ):
        insert_rows(connection, "attachments", [*rows[100:], ("t", "main", "d", "kind", b"")])
    assert not store.attachments("t", "main", "kind", ["d"])
    store.close()
