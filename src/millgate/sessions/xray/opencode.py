"""OpenCode's sessions: rows of its SQLite database, `opencode.db`, read without changing anything.

A message has its role and its usage; its parts have the text, the reasoning, and each tool call with its result.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from millgate.sessions.xray.formats import Entry, text_of
from millgate.sessions.xray.usage import count_of, read_usage
from millgate.text.bounded_json import loads

SUFFIX = ".db"
_SAID = ("text", "reasoning", "tool")  # kinds of parts; others tell of steps, snapshots and patches
_ROWS = """
    SELECT message.session_id, message.id, message.data, part.data FROM message
    LEFT JOIN part ON part.message_id = message.id
    ORDER BY message.session_id, message.time_created, message.id, part.id
"""


class Row(NamedTuple):
    """A message with one of its parts."""

    session: str
    message: str
    data: Any
    part: Any


def read_database(path: Path) -> Iterator[Entry]:
    """The messages of every session; sqlite3.Error if it is not such a database."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
        rows = (Row(*row) for row in database.execute(_ROWS))
        for _, group in groupby(rows, key=lambda row: row.message):
            yield from _message(list(group))


def _message(rows: list[Row]) -> Iterator[Entry]:
    data, session = _parse(rows[0].data), text_of(rows[0].session)
    parts = [part for row in rows if (part := _parse(row.part)).get("type") in _SAID]
    if data.get("role") == "user":
        yield Entry({"role": "user", "content": parts}, session=session)
        return
    if data.get("summary") is True:
        yield Entry(session=session, compacted=True)
    tokens = data.get("tokens")
    cache = tokens.get("cache") if isinstance(tokens, dict) else None
    reported = count_of(tokens, "input") + count_of(cache, "read") + count_of(cache, "write")
    message = {"role": "assistant", "content": parts}
    usage = read_usage(tokens, model=data.get("modelID"), id=rows[0].message)
    yield Entry(message, session=session, time=_time(data), response=rows[0].message, reported=reported, usage=usage)  # fmt: skip


def _time(data: dict[str, Any]) -> str:
    """When a message began; its row has milliseconds."""
    time = data.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    if not isinstance(created, int) or not 0 < created < 1 << 42:  # the year 2109
        return ""
    return datetime.fromtimestamp(created / 1000, UTC).isoformat()


def _parse(text: object) -> dict[str, Any]:
    if not isinstance(text, str | bytes):
        return {}
    try:
        found = loads(text.encode() if isinstance(text, str) else text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
