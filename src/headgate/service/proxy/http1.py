"""Http1: HTTP/1.1 straight on the event loop, with a C parser and a pool of connections.

A streamed answer costs one callback and one wake-up a part, a quarter of what a general client takes. Reading
pauses while more than HIGH bytes wait, so a slow client slows the model down instead of filling memory.
A reused connection that closes before the first byte of its answer was closed by the server while idle: the request
is sent once more on a new one.
"""

import asyncio
import ssl
from collections import defaultdict
from functools import lru_cache
from typing import cast

from headgate.errors import MissingExtra, UpstreamError, UpstreamTimeout
from headgate.service.proxy.transport import Answer, Headers, Outgoing, Patience, header, origin

try:
    import httptools
except ImportError as error:
    raise MissingExtra("httptools", extra="service") from error

HIGH, LOW = 262_144, 65_536  # bytes that wait before reading pauses, and below which it goes on
HEAD = 131_072  # largest head of an answer; browsers and servers stop between 8 and 256 KB
IDLE_S = (
    55.0  # an idle connection is not trusted for longer; common servers close after 60 s or more
)


class Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self, name: str) -> None:
        self.name = name  # of the server, for messages
        self.closed = False
        self.used = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: Headers = []
        self.started = self.headed = self.complete = False
        self._bodiless = False
        self._keep = False  # whether the server keeps the connection
        self._framed = False  # by length or by chunks: its end can be told from a lost connection
        self._parts: list[bytes] = []
        self._waiting = 0  # bytes in parts
        self._size = 0  # bytes of the head
        self._paused = False
        self._error: UpstreamError | None = None
        self._deadline = 0.0

    # The exchange

    def send(self, request: Outgoing) -> None:
        """Write a request; the answer comes through `head` and `read`."""
        self._reset()
        self.used += 1
        self._bodiless = request.method == "HEAD"
        parts, host, port = origin(request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        named = f"[{host}]" if ":" in host else host
        place = named if port in (80, 443) else f"{named}:{port}"
        lines = [f"{request.method} {target} HTTP/1.1\r\nhost: {place}\r\n".encode("ascii")]
        lines += [b"%b: %b\r\n" % pair for pair in request.headers]
        if request.body or request.method in {"POST", "PUT", "PATCH"}:
            lines.append(b"content-length: %d\r\n" % len(request.body))
        assert self._transport is not None
        self._transport.write(b"".join([*lines, b"\r\n", request.body]))

    async def head(self, timeout_s: float) -> None:
        """Wait for the head of the answer."""
        self._deadline = self._loop.time() + timeout_s
        while not self.headed:
            if self._error:
                raise self._error
            if self._loop.time() >= self._deadline:
                raise UpstreamTimeout(f"{self.name} gave no answer within {timeout_s:g} s")
            await self._wait()

    async def read(self, tick_s: float) -> bytes | None:
        """The next bytes of the body; b"" at its end, None when nothing came for a tick."""
        if not self._parts:
            if self.complete:
                return b""
            if self._error:
                raise self._error
            self._deadline = self._loop.time() + tick_s
            await self._wait()
            if not self._parts:
                return await self._nothing(tick_s)
        parts = self._parts
        self._parts, self._waiting = [], 0
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _nothing(self, tick_s: float) -> bytes | None:
        if self.complete or self._error:
            return await self.read(tick_s)
        return None

    async def _wait(self) -> None:
        """Until something happens, or the deadline passes."""
        waiter = self._waiter = self._loop.create_future()
        if self._timer is None or self._timer.when() > self._deadline:
            self._arm()
        try:
            await waiter
        finally:
            self._waiter = None

    def _arm(self) -> None:
        """One timer serves many waits: it only moves on when it fires too early."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._deadline, self._late)

    def _late(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        if self._loop.time() + 0.001 < self._deadline:
            self._arm()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def reusable(self) -> bool:
        """Whether the next request may go over this connection."""
        return (
            self.complete
            and self._framed
            and not self.closed
            and self._error is None
            and self._keep
        )

    def abort(self) -> None:
        """Cut the connection now."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # What the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once, by the loop."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        """Called with every block that came."""
        if self.complete:
            self.abort()  # it speaks without being asked
            return
        self.started = True
        if not self.headed:
            self._size += len(data)
            if self._size > HEAD and b"\r\n\r\n" not in data:
                self._fail(f"{self.name} sent a head of more than {HEAD} bytes")
                return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(f"{self.name} answered something that is not HTTP: {error}")
            return
        if self._waiting > HIGH and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """Called when the server stops sending."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Called once, when the connection is gone."""
        self.closed = True
        if self.headed and not self._framed and exc is None:
            self.complete = True
        elif not self.complete:
            where = "in the middle of its answer" if self.headed else "before it answered"
            why = f": {exc}" if exc else ""
            self._fail(f"{self.name} closed the connection {where}{why}")
        self._wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fail(self, message: str) -> None:
        self._error = self._error or UpstreamError(message)
        self.abort()
        self._wake()

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The end of a head; those of 1xx are only announcements."""
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
            return
        self._framed = bool(
            header(self.headers, b"content-length")
            or header(self.headers, b"transfer-encoding")
            or self.status in {204, 304}
        )
        self._keep = bool(self._parser.should_keep_alive())
        self.headed = True
        if self._bodiless:  # a HEAD's length tells of a body that does not come
            self.complete, self._framed = True, False

    def on_body(self, body: bytes) -> None:
        """Bytes of the body."""
        self._parts.append(body)
        self._waiting += len(body)

    def on_message_complete(self) -> None:
        """The end of the answer."""
        if self.headed:
            self.complete = True


class Http1Answer:
    """An answer over HTTP/1.1."""

    def __init__(self, pool: "Http1", key: tuple[str, str, int], link: Connection) -> None:
        self._pool, self._key, self._link = pool, key, link
        self.status: int = link.status
        self.headers: Headers = link.headers
        self.patience = Patience()
        self._closed = False

    async def read(self) -> bytes | None:
        """The next bytes; b"" at the end; None after a tick of silence."""
        return await self._link.read(self.patience.tick_s)

    async def close(self) -> None:
        """Keep the connection if the answer is complete, else sever it."""
        if not self._closed:
            self._closed = True
            self._pool.give_back(self._key, self._link)


class Http1:
    """A pool of HTTP/1.1 connections, by scheme, host and port."""

    def __init__(self, *, keep: int = 100) -> None:
        self._keep = keep
        self._idle: dict[tuple[str, str, int], list[tuple[float, Connection]]] = defaultdict(list)

    async def send(self, request: Outgoing, patience: Patience) -> Answer:
        """The answer, once its head has come."""
        parts, host, port = origin(request.url)
        key = (parts.scheme, host, port)
        link = self._take(key) or await self._connect(key, patience.connect_s)
        try:
            link.send(request)
            try:
                await link.head(patience.answer_s)
            except UpstreamTimeout:
                raise
            except UpstreamError:
                if link.used == 1 or link.started:
                    raise
                link.abort()
                link = await self._connect(key, patience.connect_s)
                link.send(request)
                await link.head(patience.answer_s)
        except BaseException:
            link.abort()
            raise
        answer = Http1Answer(self, key, link)
        answer.patience = patience
        return answer

    def _take(self, key: tuple[str, str, int]) -> Connection | None:
        now = asyncio.get_running_loop().time()
        idle = self._idle[key]
        while idle:
            since, link = idle.pop()
            if not link.closed and now - since < IDLE_S:
                return link
            link.abort()
        return None

    async def _connect(self, key: tuple[str, str, int], timeout_s: float) -> Connection:
        scheme, host, port = key
        name = f"{scheme}://{host}:{port}"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, link = await loop.create_connection(
                    lambda: Connection(name),
                    host,
                    port,
                    ssl=_trust() if scheme == "https" else None,
                )
        except TimeoutError as error:
            raise UpstreamTimeout(f"{name} took no connection within {timeout_s:g} s") from error
        except (OSError, UnicodeError) as error:
            raise UpstreamError(f"{name} cannot be reached: {error}", hint="is it up?") from error
        return link

    def give_back(self, key: tuple[str, str, int], link: Connection) -> None:
        """Take a connection back: kept if its answer is complete, else cut."""
        idle = self._idle[key]
        if link.reusable and len(idle) < self._keep:
            idle.append((asyncio.get_running_loop().time(), link))
        else:
            link.abort()

    async def close(self) -> None:
        """Close every idle connection."""
        for idle in self._idle.values():
            for _, link in idle:
                link.abort()
        self._idle.clear()


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """The system's certificates; HTTP/1.1 is what this file speaks."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
