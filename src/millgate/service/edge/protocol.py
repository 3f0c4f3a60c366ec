"""HTTP at the edge of the service: uvicorn's protocol with bounds on everything that comes before our own code.

A head has at most 64 kB and 100 fields, and must be complete 10 seconds after its first byte; a new connection has as
long to begin. Trailers are counted and dropped: they are not headers. A pipeline holds 16 requests. A client that does
not read its answer for five minutes is cut off. When connections run out, the one that has waited longest for a head
is closed. A shutdown starts the app's drain.
"""

import re
import sys
from asyncio import TimerHandle, Transport
from contextlib import suppress
from socket import SO_SNDBUF, SOL_SOCKET
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from millgate.service.edge.admission import InFlight
from millgate.service.edge.reply import BREAK
from millgate.service.wire import reset_at_close

if sys.platform != "win32":
    import resource

# After the drain: time to send the last responses before connections are cut.
MARGIN_S = 2.0
MAX_CONNECTIONS = (
    10_000  # of one process: chosen to bound memory against clients that open connections and wait
)
# Headers that decide who is asking. Of two, one might be read here and the other elsewhere.
SINGLE = frozenset(
    {b"host", b"origin", b"authorization", b"x-millgate-key", b"x-api-key", b"x-goog-api-key"}
)


_HTTP2_OFFER = re.compile(rb"\r\nupgrade:[ \t]*h2c[ \t]*(?=\r\n)", re.IGNORECASE)


class RefusedHead(Exception):
    """A request that ends here: its status, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _without_http2_offer(data: bytes) -> bytes:
    """A head without the offer to go on in HTTP/2, which a server may ignore; Java's client and `curl --http2` make it.

    To the parser any upgrade is the end of HTTP: it would not read the body, and refuse what follows.
    """
    end = data.find(b"\r\n\r\n")
    found = _HTTP2_OFFER.search(data, 0, end + 2 if end >= 0 else len(data))
    return data if found is None else data[: found.start()] + data[found.end() :]


def connection_limit() -> int:
    """Most connections of a process: three quarters of the files it may open, and not more than MAX_CONNECTIONS."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else min(MAX_CONNECTIONS, max(1, soft * 3 // 4))


class BoundedProtocol(HttpToolsProtocol):
    """One connection; see the module docstring."""

    HEAD_BYTES: ClassVar = 65_536
    HEAD_FIELDS: ClassVar = 100
    PIPELINE: ClassVar = 16
    # Of a body that goes on after its request was answered. Most clients send all before they read, and a connection
    # that is closed before then takes the answer with it. So four times the largest body is dropped, in HEAD_S seconds.
    UNREAD_BYTES: ClassVar = 1 << 27
    HEAD_S: ClassVar = 10.0
    # The system's buffer for an answer is kept small: it would take some megabytes, and hide for minutes that a slow
    # client goes on reading.
    SYSTEM_BYTES: ClassVar = 1 << 18
    # Without progress: the system takes 200 kB at a time, for which a client that reads 1 kB a second needs 200 s.
    WRITE_S: ClassVar = 300.0

    waiting_since = 0.0  # when it began to wait for a head; 0 while a request is under way
    _refused: RefusedHead | None = None
    _timer: TimerHandle | None = None
    _write_timer: TimerHandle | None = None
    _in_head = False
    _in_message = False
    _without_progress = 0
    _fields = 0
    _field_bytes = 0
    _unread = 0

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, and close the one that waits longest if connections have run out."""
        super().connection_made(transport)
        if (own := transport.get_extra_info("socket")) is not None:
            with suppress(OSError):  # it may be gone already
                own.setsockopt(SOL_SOCKET, SO_SNDBUF, self.SYSTEM_BYTES)
        self._await_head()
        if len(self.connections) > connection_limit():
            ours = [c for c in self.connections if isinstance(c, BoundedProtocol)]
            waiting = [c for c in ours if c.waiting_since]
            longest = min(waiting, key=lambda c: c.waiting_since, default=self)
            longest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timers."""
        self._stop_timer()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; refuse what goes on and on without completing a head or bringing a part of a body."""
        if self.transport.is_closing():
            return
        self._without_progress += len(data)
        if not self._in_message or self._in_head:
            data = _without_http2_offer(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._without_progress > self.HEAD_BYTES:
            self._refused = RefusedHead(431, "The head or the trailers are too large.")
            self.send_400_response("")
        elif not self._in_message and self._timer is None and not self._is_answering():
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """Answer what was refused with its own status, unless another answer is being written."""
        if self.pipeline or (self._is_answering() and self.cycle.response_started):
            self.transport.close()  # what waits in the pipeline waits for an answer under way
            return
        status = self._refused.status if self._refused else 400
        text = (str(self._refused) if self._refused else msg).encode()
        self.transport.write(
            STATUS_LINE[status] + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            b"content-length: %d\r\n\r\n" % len(text) + text
        )  # fmt: skip
        self.transport.close()

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = {BREAK: {"close": self.transport.close, "reset": self._reset}}
        self._in_message = self._in_head = True
        self._fields = self._field_bytes = self._unread = 0
        if self._timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        """Take a part of the address within its limits."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header within its limits; count a trailer and drop it."""
        self._fields += 1
        self._count(len(name) + len(value))
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request, unless it is one too many or leaves in doubt who sends it."""
        names = [name for name, _ in self.headers if name in SINGLE]
        if len(names) != len(set(names)):
            self._refuse(400, "A header that may stand once stands twice.")
        if len(self.pipeline) >= self.PIPELINE:
            self._refuse(400, "Too many requests at once on one connection.")
        self._in_head = False
        self._without_progress = self._fields = self._field_bytes = 0
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body; hang up on a body that goes on after its request was answered."""
        self._without_progress = 0
        super().on_body(body)
        if self.cycle.response_complete:
            self._unread += len(body)
            if self._unread > self.UNREAD_BYTES:
                self.transport.close()

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_message = False
        self._without_progress = 0
        super().on_message_complete()
        if self.cycle.response_complete:
            self._stop_timer()

    def on_response_complete(self) -> None:
        """The answer is complete; what is left of its request must come soon."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self.waiting_since = self.loop.time()
            if self._in_message and self._timer is None:
                self._await_head()

    def pause_writing(self) -> None:
        """The client reads too slowly; wait as long as it goes on."""
        super().pause_writing()
        if self._write_timer is None:
            self._await_progress()

    def resume_writing(self) -> None:
        """The client has read."""
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        super().resume_writing()

    def _await_progress(self) -> None:
        unsent = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(self.WRITE_S, self._check_progress, unsent)

    def _check_progress(self, unsent: int) -> None:
        """Cut off a client that has read nothing; while writing pauses, what is unsent only shrinks."""
        if self.transport.get_write_buffer_size() < unsent:
            self._await_progress()
        else:
            self.transport.abort()

    def shutdown(self) -> None:
        """Begin the app's drain, then let uvicorn close the connection or wait for its request."""
        in_flight: InFlight = self.app_state["in_flight"]
        drain_s = (self.config.timeout_graceful_shutdown or 0) - MARGIN_S
        in_flight.drain(max(0.0, drain_s))
        super().shutdown()

    def _reset(self) -> None:
        reset_at_close(self.transport.get_extra_info("socket"))
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing to warn of: agents try a WebSocket first, and the proxy answers that with 426."""

    def _count(self, size: int) -> None:
        self._field_bytes += size
        if self._field_bytes > self.HEAD_BYTES or self._fields > self.HEAD_FIELDS:
            self._refuse(431, "The head or the trailers are too large.")

    def _refuse(self, status: int, reason: str) -> None:
        self._refused = RefusedHead(status, reason)
        raise self._refused

    def _is_answering(self) -> bool:
        """Whether an answer is under way, which may take any length of time."""
        return self.cycle is not None and not self.cycle.response_complete

    def _await_head(self) -> None:
        self.waiting_since = self.loop.time()
        self._timer = self.loop.call_later(self.HEAD_S, self._give_up)

    def _stop_timer(self) -> None:
        self.waiting_since = 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        """Hang up, because what was begun was not complete in time."""
        self._timer = None
        if self._in_head and not self.transport.is_closing():
            self._refused = RefusedHead(408, "The head was not complete in time.")
            self.send_400_response("")
        else:
            self.transport.close()
