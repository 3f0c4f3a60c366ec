"""Wire: what the proxy needs from an HTTP client, as small as it can be.

A Transport sends a request and gives an Answer once its head has come. `read` gives the next bytes as they arrived,
b"" at the end, and None when nothing came for `tick_s`, so that the caller can keep its own client alive. Closing
an answer that is not complete severs the connection at once, which is how a model is made to stop.
"""

from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import SplitResult, urlsplit

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One request on its way to an upstream."""

    method: str
    url: str
    headers: Headers = field(default_factory=list, repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a connection, for the head of an answer, and between two of its parts; and one tick."""

    connect_s: float = 10.0
    answer_s: float = 600.0
    idle_s: float = 300.0
    tick_s: float = 10.0


class Answer(Protocol):
    """An answer whose head has come."""

    status: int
    headers: Headers

    async def read(self) -> bytes | None:
        """The next bytes; b"" at the end; None after a tick of silence."""

    async def close(self) -> None:
        """Done with it: the connection is used again if the answer is complete, else severed."""


class Transport(Protocol):
    """Sends requests; keeps connections for the next ones."""

    async def send(self, request: Outgoing, patience: Patience) -> Answer:
        """The answer, once its head has come."""

    async def close(self) -> None:
        """Close every idle connection."""


def header(headers: Headers, name: bytes) -> bytes:
    """The value of a header, b"" where there is none."""
    return next((value for key, value in headers if key.lower() == name), b"")


def origin(url: str) -> tuple[SplitResult, str, int]:
    """The parts of an address, its host and its port."""
    parts = urlsplit(url)
    return parts, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
