"""Reply: the reply to a client as plain ASGI, since every layer between costs CPU for each chunk of a stream.

The reply begins with its first bytes, so that an error before them still gets a status of its own. If the client goes
away, the work ends at once, and with it the upstream's.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import orjson
from starlette.types import Receive, Send

from millgate.service.edge.body import ClientGone
from millgate.service.wire import Headers

# A comment, which clients skip. It tells a reader of the bytes, such as `millgate wrap`, that the break is meant.
BROKEN_OFF = b": millgate breaks off here, since a tool call looped; ask again\n\n"


BREAK = "millgate.break"
"""The extension of a scope whose `close` and `reset` end the connection (protocol.py): ASGI can break none."""


class Reply:
    """What the client gets: a head, held until the first bytes, and a body."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status, self._headers = 200, list[tuple[bytes, bytes]]()
        self._body = b""
        self.begun = self.ended = False
        self.takes_events = False
        """Whether the body is a stream of events, so that an error can be told in one after it has begun."""
        self.begun_at: float | None = None

    def head(self, status: int, headers: Headers, more: Mapping[str, str] | None = None) -> None:
        """Status and headers of the reply, `more` of our own after them."""
        ours = [(k.encode("latin-1"), _one_line(v)) for k, v in (more or {}).items()]
        self.status, self._headers = status, [*headers, *ours]

    async def write(self, data: bytes) -> None:
        """More of the body."""
        if not self.begun:
            await self._begin()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """The last of the body."""
        if not self.begun:
            await self._begin()
        if not self.ended:
            self.ended = True
            await self._send({"type": "http.response.body", "body": data or self._body})

    async def break_off(self) -> None:
        """Leave the reply without its end: the server then breaks the connection, and the client asks again."""
        if self.takes_events:
            await self.write(BROKEN_OFF)

    def put_json(self, status: int, value: object, more: Mapping[str, str] | None = None) -> None:
        """A whole JSON reply; `end` sends it."""
        self.head(status, [(b"content-type", b"application/json")], more)
        self.put(orjson.dumps(value))

    def put(self, data: bytes) -> None:
        """The whole body, of known length; `end` sends it."""
        self._headers.append((b"content-length", b"%d" % len(data)))
        self._body = data

    async def _begin(self) -> None:
        self.begun, self.begun_at = True, time.perf_counter()
        kinds = (value for name, value in self._headers if name.lower() == b"content-type")
        if any(kind.startswith(b"text/event-stream") for kind in kinds):
            # else nginx keeps a stream until it has some kB of it
            self._headers.append((b"x-accel-buffering", b"no"))
        await self._send(
            {"type": "http.response.start", "status": self.status, "headers": self._headers}
        )


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Do the work as long as the client is there; ClientGone when it left before the end."""
    task = asyncio.create_task(work)
    gone = asyncio.create_task(_wait_for_disconnect(receive))
    gone.add_done_callback(lambda _: task.cancel())
    try:
        await task
    except asyncio.CancelledError:
        own = asyncio.current_task()
        if own is not None and own.cancelling():
            raise
        raise ClientGone from None
    finally:
        gone.cancel()


async def break_connection(close: Callable[[], None] | None, receive: Receive) -> None:
    """Break the client's connection once all that was written is out, if the server can; else it ends with the app."""
    if close is not None:
        close()
        await _wait_for_disconnect(receive)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


HOP_BY_HOP = frozenset(
    {
        b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection",
        b"te", b"trailer", b"trailers", b"transfer-encoding", b"upgrade",
    }
)  # fmt: skip


def forwardable(headers: Iterable[tuple[bytes, bytes]], without: Iterable[bytes] = ()) -> Headers:
    """Headers that may go on: not those of one connection, not ours, and not those named."""
    given = [(name.lower(), name, value) for name, value in headers]
    stay = HOP_BY_HOP.union(without)
    for lower, _, value in given:
        if lower == b"connection":
            stay = stay.union(token.strip().lower() for token in value.split(b","))
    return [
        (name, value)
        for lower, name, value in given
        if lower not in stay and not lower.startswith(b"x-millgate-")
    ]


def _one_line(value: str) -> bytes:
    """A header value on one line of ASCII, whatever it held, so that it cannot forge headers."""
    line = " ".join(value.split()).replace("\u2026", "...")
    return line.encode("ascii", "backslashreplace")[:1000]
