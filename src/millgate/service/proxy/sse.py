"""Sse: a stream of bytes into server-sent events, and back.

Events are given as the bytes they came in, blank line included, so that what is passed on is what was received.
Line ends may be LF, CRLF or CR, and may be split anywhere. What the guard needs is read from the data lines alone.
"""

import re
from typing import Any

import orjson

from millgate.errors import UpstreamError
from millgate.service.proxy.http_client import HttpResponse, header, is_event_stream
from millgate.text.bounded_json import loads

END = re.compile(rb"(?:\r\n|\r(?!\n)|\n){2,}+")  # further blank lines say nothing
LINE = re.compile(rb"\r\n|\r|\n")
KEEP_ALIVE = b": keep-alive\n\n"
FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")  # how a line of an event begins
# Of an event that is read: providers send two or three. Each becomes an object, and 16 MB may hold millions of them.
MOST_LINES = 1_000
# Bytes of an event that is read in a thread: on the loop, all other streams would wait for it (0.3 s for each MiB).
LARGE = 1 << 20
BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte order mark and spaces, which may stand before anything


async def is_stream(response: HttpResponse, *, asked: bool) -> bool:
    """Whether a response is a stream: by how it begins, since not every server says so in its head.

    JSON begins with a bracket, which no event does. What begins like neither is what the head says.
    """
    begin = (await response.peek()).lstrip(BLANK)
    if begin.startswith((b"{", b"[")):
        return False
    if begin and any(begin.startswith(name) or name.startswith(begin) for name in FIELDS):
        return True
    if begin or is_event_stream(response.headers):
        return is_event_stream(response.headers)
    says_json = b"json" in header(response.headers, b"content-type").lower()
    return asked and not says_json


class Splitter:
    """Cuts a stream of bytes into events; keeps the unfinished rest."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.pending = 0
        """Bytes of the event that is not complete; the search goes on behind them, so that it costs its length once."""

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are complete now."""
        if not self._rest and 0 < data.find(b"\n\n") == len(data) - 2 and b"\r" not in data:
            return [data]  # the usual case: one part, one event
        self._rest += data
        events: list[bytes] = []
        start, rest = 0, self._rest
        has_end = b"\n" in data or b"\r" in data
        ends = END.finditer(rest, max(0, self.pending - 3)) if has_end else ()
        for end in ends:
            with memoryview(rest) as view:
                events.append(bytes(view[start : end.end()]))
            start = end.end()
        if start:
            del rest[:start]
        self.pending = len(rest)
        return events

    def end(self) -> bytes:
        """What came after the last blank line."""
        rest = bytes(self._rest)
        self._rest.clear()
        self.pending = 0
        return rest


def payload(event: bytes) -> bytes:
    """The data of an event, its lines joined; empty for comments and other lines. UpstreamError if it has too many."""
    if event.startswith(b"data: ") and event.count(b"\n") == 2 and b"\r" not in event:
        return event[6:-2]  # the usual case: one line
    if event.count(b"\n") + event.count(b"\r") > 2 * MOST_LINES:  # a line may end in both
        raise UpstreamError(f"the stream holds an event of more than {MOST_LINES:,} lines")
    lines = [line[5:].strip() for line in LINE.split(event) if line.startswith(b"data:")]
    return b"\n".join(lines)


def parse(data: bytes) -> dict[str, Any]:
    """The JSON object in an event's data; UpstreamError for anything else."""
    try:
        found = loads(data)
    except orjson.JSONDecodeError as error:
        raise UpstreamError(
            f"the stream holds an event that is not JSON: {_beginning(data)}"
        ) from error
    if not isinstance(found, dict):
        raise UpstreamError(f"the stream holds an event that is not an object: {_beginning(data)}")
    return found


def encode(data: object, *, name: str = "") -> bytes:
    """An event with JSON data, and a name if the dialect has names."""
    head = f"event: {name}\n".encode() if name else b""
    return b"%bdata: %b\n\n" % (head, orjson.dumps(data))


def encode_data(data: bytes) -> bytes:
    """An event with these data, or nothing for none."""
    return b"data: %b\n\n" % data if data else b""


def _beginning(data: bytes) -> str:
    return " ".join(data[:120].decode("utf-8", "replace").split()) or "(nothing)"
