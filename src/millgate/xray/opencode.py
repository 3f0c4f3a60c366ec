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

from millgate.text.bounded_json import loads
from millgate.xray.formats import Entry, text_of
from millgate.xray.usage import count_of, read_usage

SUFFIX = ".db"
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
    parts = [part for row in rows if (part := _parse(row.part))]
    if data.get("role") == "user":
        words = [{"type": "text", "text": text_of(part.get("text"))} for part in parts if part.get("type") == "text"]  # fmt: skip
        yield Entry({"role": "user", "content": words}, session=session)
        return
    if data.get("summary") is True:
        yield Entry(session=session, compacted=True)
    tokens = data.get("tokens")
    cache = tokens.get("cache") if isinstance(tokens, dict) else None
    reported = count_of(tokens, "input") + count_of(cache, "read") + count_of(cache, "write")
    content = [block for part in parts for block in _block(part)]
    message = {"role": "assistant", "content": content}
    usage = read_usage(tokens, model=data.get("modelID"), id=rows[0].message)
    yield Entry(message, session=session, time=_time(data), response=rows[0].message, reported=reported, usage=usage)  # fmt: skip
    if results := [block for part in parts for block in _result(part)]:
        yield Entry({"role": "user", "content": results}, session=session)


def _time(data: dict[str, Any]) -> str:
    """When a message began; its row has milliseconds."""
    time = data.get("time")
    created = time.get("created") if isinstance(time, dict) else None
    if not isinstance(created, int) or not 0 < created < 1 << 42:  # the year 2109
        return ""
    return datetime.fromtimestamp(created / 1000, UTC).isoformat()


def _block(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind, words = part.get("type"), text_of(part.get("text"))
    if kind == "text" and words:
        yield {"type": "text", "text": words}
    elif kind == "reasoning" and words:
        yield {"type": "thinking", "thinking": words}
    elif kind == "tool":
        given = _state(part).get("input")
        yield {"type": "tool_use", "id": text_of(part.get("callID")), "name": text_of(part.get("tool")), "input": given}  # fmt: skip


def _result(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    state = _state(part)
    shown = state.get("output", state.get("error"))
    if part.get("type") == "tool" and isinstance(shown, str):
        yield {"type": "tool_result", "tool_use_id": text_of(part.get("callID")), "content": shown}


def _state(part: dict[str, Any]) -> dict[str, Any]:
    state = part.get("state")
    return state if isinstance(state, dict) else {}


def _parse(text: object) -> dict[str, Any]:
    if not isinstance(text, str | bytes):
        return {}
    try:
        found = loads(text.encode() if isinstance(text, str) else text)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
