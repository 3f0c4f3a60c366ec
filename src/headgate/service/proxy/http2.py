"""Http2: the same transport over HTTP/2, many streams on one connection.

For upstreams that are set to it. Over TLS the protocol is agreed on by ALPN, and a server that has only HTTP/1.1 is
served so; without TLS the server must speak HTTP/2 from the first byte. Closing an answer early resets its stream, so
that the model stops, while the other streams go on. What nobody has read is not acknowledged, so a slow client
slows its stream down and no other. Needs the extra `service`.
"""

import asyncio
import ssl
from functools import lru_cache
from typing import cast

from headgate.errors import MissingExtra, UpstreamError, UpstreamTimeout
from headgate.service.proxy.http1 import Http1
from headgate.service.proxy.transport import Answer, Headers, Outgoing, Patience, origin

try:
    from h2 import config, connection, errors, events
    from h2.exceptions import H2Error
except ImportError as error:
    raise MissingExtra("h2", extra="service") from error

Key = tuple[str, str, int]


class Stream:
    """One exchange on a connection, and its answer."""

    def __init__(self, link: "Link", id: int, request: Outgoing, patience: Patience) -> None:
        self.id, self.link, self.patience = id, link, patience
        self.status = 0
        self.headers: Headers = []
        self.body = request.body  # what is still to be sent
        self.ended = False
        self.error: UpstreamError | None = None
        self._parts: list[bytes] = []
        self._unread = 0  # flow-controlled bytes that were not acknowledged
        self._news = asyncio.Event()

    async def head(self) -> None:
        """Wait for the head of the answer."""
        end = asyncio.get_running_loop().time() + self.patience.answer_s
        while not self.status:
            if self.error:
                raise self.error
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                what = f"{self.link.name} gave no answer within {self.patience.answer_s:g} s"
                raise UpstreamTimeout(what)
            await self._wait(left)

    async def read(self) -> bytes | None:
        """The next bytes; b"" at the end; None after a tick of silence."""
        if not self._parts and not self.ended and not self.error:
            await self._wait(self.patience.tick_s)
        if self._parts:
            data = b"".join(self._parts)
            self._parts.clear()
            unread, self._unread = self._unread, 0
            self.link.acknowledge(self, unread)
            return data
        if self.ended:
            return b""
        if self.error:
            raise self.error
        return None

    async def _wait(self, seconds: float) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Done with it; an unfinished stream is reset."""
        self.link.leave(self)

    def take(self, event: events.Event) -> None:
        """What the connection heard for this stream."""
        if isinstance(event, events.ResponseReceived):
            pairs = [(bytes(k), bytes(v)) for k, v in event.headers or ()]
            self.status = int(next((v for k, v in pairs if k == b":status"), b"0"))
            self.headers = [(k, v) for k, v in pairs if not k.startswith(b":")]
        elif isinstance(event, events.DataReceived):
            self._parts.append(event.data or b"")
            self._unread += event.flow_controlled_length or 0
        elif isinstance(event, events.StreamEnded):
            self.ended = True
        elif isinstance(event, events.StreamReset):
            self.fail(f"{self.link.name} reset the stream: {event.error_code}")
        self._news.set()

    def fail(self, message: str) -> None:
        """The stream came to a bad end."""
        if not self.ended:
            self.error = self.error or UpstreamError(message)
        self._news.set()


class Link(asyncio.Protocol):
    """One connection and its streams."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False
        self._streams: dict[int, Stream] = {}
        setup = config.H2Configuration(client_side=True, header_encoding=None)
        self._h2 = connection.H2Connection(setup)

    @property
    def room(self) -> bool:
        """Whether one more stream may be opened."""
        most = self._h2.remote_settings.max_concurrent_streams
        return not self.closed and self._h2.open_outbound_streams < most

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called once, by the loop."""
        self._transport = cast("asyncio.Transport", transport)
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Called with every block that came."""
        try:
            for event in self._h2.receive_data(data):
                self._hear(event)
            self._pump()
        except H2Error as error:
            self._fail(f"{self.name} answered something that is not HTTP/2: {error}")
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called once, when the connection is gone."""
        self._fail(f"{self.name} closed the connection{f': {exc}' if exc else ''}")

    def _hear(self, event: events.Event) -> None:
        if isinstance(event, events.ConnectionTerminated):
            self.closed = True  # for new streams; those under way may still end
            return
        stream = self._streams.get(getattr(event, "stream_id", None) or 0)
        if stream is not None:
            stream.take(event)
        elif isinstance(event, events.DataReceived):
            self._h2.acknowledge_received_data(
                event.flow_controlled_length or 0, event.stream_id or 0
            )

    def _fail(self, message: str) -> None:
        self.closed = True
        for stream in self._streams.values():
            stream.fail(message)
        self._transport.abort()

    def open(self, request: Outgoing, patience: Patience) -> Stream:
        """Send a request on a stream of its own."""
        parts, host, port = origin(request.url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        stream = Stream(self, self._h2.get_next_available_stream_id(), request, patience)
        length = [(b"content-length", b"%d" % len(request.body))] if request.body else []
        head = [
            (b":method", request.method.encode()),
            (b":scheme", parts.scheme.encode()),
            (b":authority", f"{host}:{port}".encode()),
            (b":path", target.encode("ascii")),
            *((name.lower(), value) for name, value in request.headers),
            *length,
        ]
        self._h2.send_headers(stream.id, head, end_stream=not request.body)
        self._streams[stream.id] = stream
        self._pump()
        self._flush()
        return stream

    def _pump(self) -> None:
        """Send as much of the waiting bodies as the windows allow."""
        for stream in self._streams.values():
            while stream.body and not stream.error:
                window = self._h2.local_flow_control_window(stream.id)
                size = min(window, self._h2.max_outbound_frame_size, len(stream.body))
                if size <= 0:
                    break
                data, stream.body = stream.body[:size], stream.body[size:]
                self._h2.send_data(stream.id, data, end_stream=not stream.body)

    def acknowledge(self, stream: Stream, size: int) -> None:
        """Let the server send more on a stream: so many bytes were read."""
        if size and not self.closed:
            self._h2.acknowledge_received_data(size, stream.id)
            self._flush()

    def leave(self, stream: Stream) -> None:
        """Forget a stream; reset it if it has not ended."""
        if self._streams.pop(stream.id, None) is None or self._transport.is_closing():
            return
        if not stream.ended and not stream.error:
            self._h2.reset_stream(stream.id, errors.ErrorCodes.CANCEL)
        self._flush()
        if self.closed and not self._streams:
            self._transport.close()

    def end(self) -> None:
        """Close the connection."""
        self.closed = True
        self._transport.abort()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and not self._transport.is_closing():
            self._transport.write(data)


class Http2:
    """Connections by scheme, host and port; a further one where all streams of the others are taken."""

    def __init__(self) -> None:
        self._links: dict[Key, list[Link]] = {}
        self._older: set[Key] = set()  # servers that have only HTTP/1.1
        self._http1 = Http1()

    async def send(self, request: Outgoing, patience: Patience) -> Answer:
        """The answer, once its head has come."""
        parts, host, port = origin(request.url)
        key = (parts.scheme, host, port)
        link = None if key in self._older else await self._link(key, patience.connect_s)
        if link is None:
            return await self._http1.send(request, patience)
        try:
            stream = link.open(request, patience)
        except H2Error as error:
            raise UpstreamError(f"{link.name} took no further stream: {error}") from error
        try:
            await stream.head()
        except BaseException:
            await stream.close()
            raise
        return stream

    async def _link(self, key: Key, timeout_s: float) -> Link | None:
        """A connection with room; None for a server that speaks only HTTP/1.1."""
        links = self._links[key] = [link for link in self._links.get(key, ()) if not link.closed]
        free = next((link for link in links if link.room), None)
        if free is not None:
            return free
        scheme, host, port = key
        name = f"{scheme}://{host}:{port}"
        trust = _trust() if scheme == "https" else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                transport, link = await loop.create_connection(
                    lambda: Link(name), host, port, ssl=trust
                )
        except TimeoutError as error:
            raise UpstreamTimeout(f"{name} took no connection within {timeout_s:g} s") from error
        except (OSError, UnicodeError) as error:
            raise UpstreamError(f"{name} cannot be reached: {error}", hint="is it up?") from error
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() != "h2":
            link.end()
            self._older.add(key)
            return None
        self._links[key].append(link)
        return link

    async def close(self) -> None:
        """Close every connection."""
        for links in self._links.values():
            for link in links:
                link.end()
        self._links.clear()
        await self._http1.close()


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
