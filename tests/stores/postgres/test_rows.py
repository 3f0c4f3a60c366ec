"""Texts and numbers go into an array of SQL and come out as they were."""

import psycopg
import pytest

from headgate.stores.postgres.rows import as_array, as_text_array
from headgate.stores.postgres.texts import register_texts

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


@pytest.mark.parametrize("numbers", [[0, -1, 2**63 - 1, -(2**63)], []])
def test_numbers_come_out_of_an_array_as_they_went_in(connection, numbers):
    sql = "SELECT unnest(%s::bigint[])"
    rows = connection.execute(sql, (as_array(numbers),)).fetchall()
    assert [number for (number,) in rows] == numbers
