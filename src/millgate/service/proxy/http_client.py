"""HttpClient: HTTP on aiohttp, with what a proxy must promise beyond a plain client.

No redirects, no cookies, no proxies of the environment, certificates checked. The head is bounded (size, number of
headers), and bodies come with backpressure, decompressed ones too. A request is sent a second time only when it went
over a kept connection that the server closed before it answered anything.

What a server sends unasked must not become the answer to the next request. So a kept connection serves one owner only,
and it is closed if bytes have come while it was idle. Requests whose body a server may leave unread have none (GET,
HEAD), or a connection of their own.
"""

import asyncio
import select
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from millgate.errors import MissingExtra, UpstreamError, UpstreamTimeout
from millgate.service.wire import Headers

try:
    import aiohttp
    from aiohttp import http
    from aiohttp.client_proto import ResponseHandler
    from yarl import URL
except ImportError as error:
    raise MissingExtra("aiohttp", extra="service") from error


# A request and its answer

# of an answer that `wrap` gives for a service that it could not reach
NOT_REACHED = b"x-millgate-not-reached"
# of a request by the supervisor of `wrap`: the secret of its run
SECRET_HEADER = b"x-millgate-wrap"
# which carry a client's key
KEY_HEADERS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")


class UpstreamReset(UpstreamError):
    """The upstream reset its connection. Some agents ask again after that, and not after one that was closed."""


class NotReached(UpstreamTimeout):
    """No connection in time: the upstream has nothing of the request."""

    may_have_been_read = False


@dataclass(frozen=True, slots=True)
class Address:
    """Where an upstream is: its parts are parsed once, and a request only ever adds to the path."""

    scheme: str
    host: str
    port: int
    path: str = ""  # of the base address, without a last slash

    @property
    def place(self) -> str:
        """Host and port as an address has them: of IPv6, the host stands in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait for a connection, for the head of a response, and between two of its parts."""

    connect_s: float = 10.0
    answer_s: float = 600.0
    idle_s: float = 300.0


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """One request on its way to an upstream."""

    method: str
    address: Address
    target: str  # path and query behind the base address, as they go out
    headers: Headers = field(default_factory=list, repr=False)
    body: bytes = field(default=b"", repr=False)
    timeouts: Timeouts = Timeouts()
    proxy: str = ""
    owner: str = ""
    """Who asks. A connection is used again for the same owner only: whatever comes on it was caused by no one else."""
    decompress: bool = False
    """Whether a body that came compressed is given plain, if its coding is known; else it is passed on as it came."""


@lru_cache(maxsize=256)
def parse_address(url: str) -> Address:
    """The parts of a base address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Address(parts.scheme, parts.hostname or "", port, parts.path.rstrip("/"))


def is_event_stream(headers: Headers) -> bool:
    """Whether a head says that server-sent events follow."""
    kind = header(headers, b"content-type").partition(b";")[0]
    return kind.strip().lower() == b"text/event-stream"


def header(headers: Headers, name: bytes) -> bytes:
    """The value of a header, b"" if there is none."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return b""


def codings_of(headers: Headers) -> list[bytes]:
    """The content codings of a body, in the order in which they were applied."""
    named = b",".join(value for name, value in headers if name.lower() == b"content-encoding")
    codings = (coding.strip().lower() for coding in named.split(b","))
    return [coding for coding in codings if coding not in (b"", b"identity")]


# The client

MAX_FIELD = 16_384  # bytes of one header, and of the status line; longer than any provider sends
MAX_HEADERS = 128
BUFFER = 65_536  # bytes that wait before reading pauses is twice this
KEEP_S = 55.0  # an idle connection is not trusted for longer; common servers close after 60 s
PART = 16_384  # bytes that are read at once; a part of crumbs takes long to work on
LARGE = 1 << 20  # larger bodies are written in parts, so that other streams have their turn
AUTO_HEADERS = ("accept", "accept-encoding", "user-agent", "content-type")
WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_owner: ContextVar[object] = ContextVar("whose a connection is")
GZIP, DEFLATE, RAW_DEFLATE = 31, 15, -15  # window bits that tell zlib the format
GZIP_MAGIC = b"\x1f"
FORMATS = {b"gzip": GZIP, b"x-gzip": GZIP, b"deflate": DEFLATE}

Read = Callable[[int], Awaitable[bytes]]
"""The next bytes, at most the given number; b"" at the end."""


class HttpClient:
    """HTTP/1.1 with kept connections. `authorities` are files or folders of certificates to trust as the system's."""

    def __init__(self, authorities: Iterable[str] = ()) -> None:
        self._authorities = tuple(authorities)
        self._session: aiohttp.ClientSession | None = None

    async def send(self, request: UpstreamRequest) -> "HttpResponse":
        """The response, once its head has come; UpstreamError says why there is none."""
        place = request.address.place
        try:
            async with asyncio.timeout(request.timeouts.answer_s):
                kept: list[bool] = []
                try:
                    found = await self._send(request, kept)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                    if not kept:
                        raise
                    found = await self._send(request, kept)
        except TimeoutError as error:
            if isinstance(error, aiohttp.ServerTimeoutError):  # of the connection
                raise NotReached(f"{place} cannot be reached in time") from error
            limit = request.timeouts.answer_s
            raise UpstreamTimeout(f"{place} gave no answer within {limit:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _translate(error, place) from error
        response = HttpResponse(found, place, request.timeouts.idle_s)
        if request.decompress:
            response.decompress()
        return response

    async def _send(self, request: UpstreamRequest, kept: list[bool]) -> aiohttp.ClientResponse:
        """Send a request; `kept` gets an item if it goes over a kept connection."""
        address = request.address
        url = URL.build(
            scheme=address.scheme,
            authority=address.place,
            path=(address.path + request.target) or "/",
            encoded=True,
        )
        headers = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in request.headers]
        body: bytes | AsyncIterator[bytes] | None = None
        owner: object = request.owner
        if request.body and request.method not in WITHOUT_BODY:
            body = request.body
            if len(request.body) > LARGE:  # given as a file, it would be copied
                body = _parts(request.body)
                headers.append(("content-length", str(len(request.body))))
            if request.method not in WITH_BODY:
                # as DELETE: servers that do not expect the body would take it for the next request
                headers.append(("connection", "close"))
                owner = object()
        _owner.set(owner)
        return await self._open_session().request(
            request.method,
            url,
            headers=headers,
            data=body,
            allow_redirects=False,
            proxy=request.proxy or None,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=request.timeouts.connect_s),
            trace_request_ctx=kept,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEP_S, ssl=_tls_context(self._authorities)
            )
            # The library has no public way to read responses otherwise.
            connector._factory = partial(_Protocol, loop=asyncio.get_running_loop())  # type: ignore[assignment]  # noqa: SLF001
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_note_kept)
            self._session = aiohttp.ClientSession(
                connector=connector,
                auto_decompress=False,  # the library does not know every way to say gzip
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=AUTO_HEADERS,
                request_class=_OwnedRequest,
                trace_configs=[tracing],
                read_bufsize=BUFFER,
                max_line_size=MAX_FIELD,
                max_field_size=MAX_FIELD,
                max_headers=MAX_HEADERS,
            )
        return self._session

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()


async def _parts(body: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(body), BUFFER):
        yield body[at : at + BUFFER]
        await asyncio.sleep(0)


class HttpResponse:
    """A response whose head has come. Closing one that is not complete severs its connection, which stops the model.

    Silence is timed here: the library's own timer may outlive its response and break the next one on the connection.
    """

    def __init__(self, response: aiohttp.ClientResponse, place: str, idle_s: float) -> None:
        self.status = response.status
        self.headers: Headers = list(response.raw_headers)
        self._response, self._content, self._place = response, response.content, place
        self._idle_s = idle_s
        self._next: Read = self._read_content
        self._peeked = b""
        self._reading: asyncio.Future[bytes] | None = None
        self._loop = asyncio.get_running_loop()
        self._waits_since: float | None = None
        self._timer = self._loop.call_later(idle_s, self._check_silence)

    def decompress(self) -> None:
        """Give the body plain from now on, if its codings are known."""
        codings = codings_of(self.headers)
        if not codings or not FORMATS.keys() >= set(codings):
            return
        for coding in reversed(codings):
            self._next = Decoder(self._next, coding).read
        gone = (b"content-encoding", b"content-length")
        self.headers = [pair for pair in self.headers if pair[0].lower() not in gone]

    async def peek(self) -> bytes:
        """The first bytes, which `read` gives again."""
        self._peeked = self._peeked or await self.read() or b""
        return self._peeked

    async def read(self, tick_s: float | None = None) -> bytes | None:
        """The next bytes; b"" at the end; None after a tick of silence."""
        if self._peeked:
            data, self._peeked = self._peeked, b""
            return data
        try:
            if tick_s is None and self._reading is None:
                return await self._read()
            if self._reading is None:
                self._reading = asyncio.ensure_future(self._read())
            done, _ = await asyncio.wait({self._reading}, timeout=tick_s)
            if not done:
                return None
            reading, self._reading = self._reading, None
            return reading.result()
        except aiohttp.SocketTimeoutError as error:
            raise UpstreamTimeout(f"the upstream sent nothing for {self._idle_s:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _translate(error, self._place) from error

    async def _read(self) -> bytes:
        self._waits_since = self._loop.time()
        data = await self._next(PART)
        self._waits_since = None  # after an error the response is closed
        if len(data) == PART:  # more may be there already, which is read without waiting
            await asyncio.sleep(0)
        return data

    async def _read_content(self, size: int) -> bytes:
        """The next bytes as they came; first those from before a break, which the library would throw away."""
        content = self._content
        if content.exception() is not None and content._buffer:  # noqa: SLF001
            return content._read_nowait(size)  # noqa: SLF001
        return await content.read(size)

    def _check_silence(self) -> None:
        """One timer serves many waits: it moves on when it fires too early."""
        now = self._loop.time()
        since = now if self._waits_since is None else self._waits_since
        left_s = since + self._idle_s - now
        if left_s > 0.001:
            self._timer = self._loop.call_later(left_s, self._check_silence)
        else:
            self._content.set_exception(aiohttp.SocketTimeoutError())

    @property
    def is_complete(self) -> bool:
        """Whether all of it has come: then the library has its connection back."""
        return self._response.connection is None

    async def close(self) -> None:
        """Done with it: severed unless it is complete."""
        self._timer.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
        connection = self._response.connection
        if connection is not None and connection.transport is not None:
            connection.transport.abort()
        self._response.close()


async def read_all(response: HttpResponse, most: int) -> bytes:
    """The body of a response, at least its first bytes if it has more than `most`; the response is closed."""
    body = b""
    try:
        while len(body) < most and (data := await response.read()):
            body += data
    finally:
        await response.close()
    return body


async def _note_kept(_: aiohttp.ClientSession, context: Any, __: object) -> None:  # noqa: ANN401  (the library's own)
    context.trace_request_ctx.append(True)


class _OwnedRequest(aiohttp.ClientRequest):
    """A request that goes over a connection of its owner only, or over one that nobody used yet."""

    @property
    def connection_key(self) -> Any:  # noqa: ANN401  (the library's own)
        """What the library chooses kept connections by."""
        # any value serves: it is only compared
        return super().connection_key._replace(proxy_headers_hash=_owner.get())  # type: ignore[arg-type]


class _Protocol(ResponseHandler):
    """The library's reader of responses, which loses nothing good before bytes that are not HTTP.

    The library itself drops the head that came in one part with them, and ends the body behind them with silence or a
    bare RuntimeError. What comes on an idle connection it would hand to the next request: here that one is closed.
    """

    def is_connected(self) -> bool:
        """Whether an idle connection may be used: not if bytes have come, or its end, read by the library or not."""
        if self.should_close or not super().is_connected():
            return False
        own = self.transport.get_extra_info("socket") if self.transport else None
        if own is None:
            return True
        if not hasattr(select, "poll"):  # as on Windows
            return not select.select([own], [], [], 0)[0]
        poll = select.poll()
        poll.register(own, select.POLLIN)
        return not poll.poll(0)

    def data_received(self, data: bytes) -> None:
        is_head = self._payload is None or self._payload.is_eof()
        if is_head and 4 <= (end := data.find(b"\r\n\r\n") + 4) < len(data):
            super().data_received(data[:end])
            data = data[end:]
        super().data_received(data)

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        body = self._payload
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(
                aiohttp.ClientError(f"the answer goes on with what is not HTTP: {exc.message}")
                if isinstance(exc, http.HttpProcessingError)
                else aiohttp.ClientPayloadError(str(exc))
            )
        super().set_exception(exc, *cause)


def _tls_context(authorities: Iterable[str]) -> ssl.SSLContext:
    """The system's certificates, for which SSL_CERT_FILE names others, and those of `authorities` that can be read."""
    context = ssl.create_default_context()
    for path in authorities:
        with suppress(OSError):
            is_folder = Path(path).is_dir()
            context.load_verify_locations(None if is_folder else path, path if is_folder else None)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _translate(error: Exception, place: str) -> UpstreamError:
    """An error of aiohttp as one of ours, which says what `place` did."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        what = f"the certificate of {place} is not trusted: {error.certificate_error}; SSL_CERT_FILE can name your own authority"
    elif isinstance(error, aiohttp.ClientConnectorError):
        what = f"{place} cannot be reached: {error.os_error}"
    elif isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        what = f"{place} closed the connection"
    elif isinstance(error, aiohttp.ClientPayloadError):
        what = f"{place} closed the connection before the answer was complete: {error}"
    elif isinstance(error, aiohttp.ClientResponseError):
        what = f"{place} answered with a head that is too large or not HTTP: {error.message}"
    else:
        what = f"{place}: {error}"
    kind = UpstreamReset if _is_reset(error) else UpstreamError
    return kind(" ".join(what.split())[:500])


def _is_reset(error: Exception) -> bool:
    """Whether a connection was reset; the library tells that of a body in its words alone."""
    return isinstance(error, ConnectionResetError) or ConnectionResetError.__name__ in str(error)


class Decoder:
    """Undoes one coding, a bounded part at a time: a few bytes may unpack to a thousand times as many.

    A compressed body that ends too early ends here too; `HttpResponse.is_complete` tells whether all of it came.
    """

    def __init__(self, read: Read, coding: bytes) -> None:
        self._read, self._coding = read, coding
        self._unpack = zlib.decompressobj(FORMATS[coding])
        self._packed = b""
        self._begun = False
        self._is_full = False  # whether more may wait inside the last part

    async def read(self, size: int) -> bytes:
        """The next plain bytes, at most `size`; b"" at the end."""
        while True:
            if not self._packed and not self._is_full:
                self._packed = await self._read(size)
                if not self._packed:
                    return b""
            if data := self._decode(size):
                return data

    def _decode(self, size: int) -> bytes:
        if not self._begun and self._coding == b"deflate" and self._packed[0] & 0x0F != 8:
            self._unpack = zlib.decompressobj(RAW_DEFLATE)  # some servers leave zlib's head out
        if self._unpack.eof:
            if FORMATS[self._coding] != GZIP or not self._packed.startswith(GZIP_MAGIC):
                self._packed = b""  # padding
                return b""
            self._unpack = zlib.decompressobj(GZIP)  # gzip is a row of such bodies
        self._begun = True
        try:
            data = self._unpack.decompress(self._packed, size)
        except zlib.error as error:
            coding = self._coding.decode()
            raise UpstreamError(f"the upstream's answer is not {coding}: {error}") from error
        self._packed = self._unpack.unconsumed_tail or self._unpack.unused_data
        self._is_full = len(data) == size and not self._unpack.eof
        return data
