"""Round trip: one statement that reads and the transaction around it, sent together and answered together.

A request reads a dozen times. Through cursors of psycopg the four messages BEGIN, SET LOCAL, the statement and COMMIT
took .45 ms of CPU. Here they are handed to libpq, and psycopg translates the values and the rows, and waits: .18 ms.

A statement is prepared the first time a connection meets it. The server may forget it, as psycopg lets it do after a
rollback; then it is prepared again.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from psycopg import Connection
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import InvalidSqlStatementName, error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow

_MOST = 200  # statements that a connection keeps prepared; ours are some dozens
_MARK = re.compile(r"%(?:\((\w+)\))?s|%%")
_FAILED = (ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE)

Values = Sequence[object] | Mapping[str, object]


@dataclass
class Prepared:
    """The statements that one connection has prepared, by text and types; with `most` 0 none is."""

    most: int = _MOST
    names: dict[tuple[bytes, tuple[int, ...]], bytes] = field(default_factory=dict)


def fetch_rows(
    connection: Connection[TupleRow],
    prepared: Prepared,
    lines: Sequence[str],
    sql: str,
    values: Values = (),
    *,
    binary: bool = False,
) -> list[TupleRow]:
    """The rows of a statement; `lines` begin the transaction that it runs in."""
    try:
        return _fetch_once(connection, prepared, lines, sql, values, binary=binary)
    except InvalidSqlStatementName:
        prepared.names.clear()
        connection.rollback()
        return _fetch_once(connection, prepared, lines, sql, values, binary=binary)


def _fetch_once(
    connection: Connection[TupleRow],
    prepared: Prepared,
    lines: Sequence[str],
    sql: str,
    values: Values,
    *,
    binary: bool,
) -> list[TupleRow]:
    command, names = _number_values(sql)
    given = [values[name] for name in names] if isinstance(values, Mapping) else values
    transformer = Transformer(connection)
    data = transformer.dump_sequence(given, [PyFormat.AUTO] * len(given))
    statement = _Statement(
        command,
        data,
        transformer.types or (),
        transformer.formats,
        Format.BINARY if binary else Format.TEXT,
    )
    result = connection.wait(_exchange(connection, prepared, lines, statement))
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, tuple)


@dataclass(frozen=True, slots=True)
class _Statement:
    command: bytes
    values: Sequence[Any]
    types: tuple[int, ...]
    formats: Sequence[Format] | None
    result_format: Format


def _exchange(
    connection: Connection[TupleRow],
    prepared: Prepared,
    lines: Sequence[str],
    statement: _Statement,
) -> PQGen[PGresult]:
    """Send all messages, and wait for all answers; the one of the statement."""
    link, key = connection.pgconn, (statement.command, statement.types)
    link.enter_pipeline_mode()
    for line in lines:
        link.send_query_params(line.encode(), None)
    name = prepared.names.get(key)
    fresh = name is None and len(prepared.names) < prepared.most
    if fresh:
        name = f"headgate_{len(prepared.names)}".encode()
        link.send_prepare(name, statement.command, statement.types)
    values, form = statement.values, statement.result_format
    if name is not None:
        link.send_query_prepared(name, values, statement.formats, form)
    else:
        link.send_query_params(statement.command, values, statement.types, statement.formats, form)
    link.send_query_params(b"COMMIT", None)
    link.pipeline_sync()
    yield from send(link)
    answers: list[PGresult] = []
    for _ in range(len(lines) + fresh + 3):
        answers += yield from fetch_many(link)
    link.exit_pipeline_mode()
    for answer in answers:
        if answer.status in _FAILED:
            raise error_from_result(answer, encoding=connection.info.encoding)
    if fresh and name is not None:
        prepared.names[key] = name
    return answers[-3]


@lru_cache(maxsize=512)
def _number_values(sql: str) -> tuple[bytes, list[str]]:
    """The statement with its values as $1, $2, ..., and their names in that order where they have any."""
    names: list[str] = []
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] == "%%":
            return "%"
        name = found[1]
        if name is None:
            count += 1
            return f"${count}"
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _MARK.sub(number, sql).encode(), names
