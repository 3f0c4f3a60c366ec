"""Transport: what the proxy needs from an HTTP client, as small as it can be.

A Transport sends an UpstreamRequest and gives a Response once its head has come. `read` gives the next bytes as they
arrived and b"" at the end; with a `tick_s` it gives None if nothing came in that time, so that the caller can keep
its own client alive. Closing a response that is not complete severs the connection at once, which stops the model.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

from millgate.errors import UpstreamError, UpstreamTimeout
from millgate.service.wire import Headers

NOT_REACHED = b"x-millgate-not-reached"  # of an answer that `wrap` gives for a service that it could not reach
SECRET_HEADER = (
    b"x-millgate-wrap"  # of a request by the supervisor of `wrap`: the secret of its run
)
KEY_HEADERS = (
    b"authorization",
    b"x-api-key",
    b"api-key",
    b"x-goog-api-key",
)  # which carry a client's key


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


class Response(Protocol):
    """A response whose head has come."""

    status: int
    headers: Headers

    @property
    def is_complete(self) -> bool:
        """Whether all of it has come."""

    async def peek(self) -> bytes:
        """The first bytes, which `read` gives again; b"" if there are none."""

    async def read(self, tick_s: float | None = None) -> bytes | None:
        """The next bytes; b"" at the end; None after a tick of silence."""

    async def close(self) -> None:
        """Done with it: the connection is used again if the response is complete, else severed."""


class Transport(Protocol):
    """Sends requests; keeps connections for the next ones."""

    async def send(self, request: UpstreamRequest) -> Response:
        """The response, once its head has come."""

    async def close(self) -> None:
        """Close every idle connection."""


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
