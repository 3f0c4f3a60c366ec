"""What goes over the wire: a request as it came, and the steps of an answer."""

import asyncio
import io
import json
from collections.abc import Callable
from dataclasses import dataclass

import zstandard


@dataclass(frozen=True)
class Sent:
    """A request as it reached the service."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]  # names as they were written, in their order
    body: bytes

    @property
    def path(self):
        return self.target.partition("?")[0]

    def header(self, name):
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def plain(self):
        """The body, unpacked if the client has packed it."""
        if self.header("content-encoding") != "zstd":
            return self.body
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(self.body)) as reader:
            return reader.read()


@dataclass(frozen=True)
class Head:
    """The beginning of an answer; its body, if it has one, is chunked."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)
    has_body: bool = True

    def bytes(self):
        lines = [f"HTTP/1.1 {self.status} Scripted", *(f"{k}: {v}" for k, v in self.headers)]
        lines += ["transfer-encoding: chunked"] if self.has_body else ["content-length: 0"]
        return "\r\n".join([*lines, "", ""]).encode()


@dataclass(frozen=True)
class Piece:
    """A part of the body, and the tokens that the model made for it."""

    data: bytes
    tokens: int = 0


@dataclass(frozen=True)
class Pause:
    seconds: float

    async def wait(self):
        await asyncio.sleep(self.seconds)


@dataclass(frozen=True)
class Do:
    """Something happens while the client waits for more."""

    act: Callable[[], object]

    async def wait(self):
        await asyncio.to_thread(self.act)


@dataclass(frozen=True)
class Cut:
    """The connection breaks."""


def plain(status, body, **headers):
    """A whole answer that is JSON."""
    head = Head(status, (("content-type", "application/json"), *headers.items()))
    return [head, Piece(json.dumps(body).encode())]


async def read_request(reader):
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ")
    headers = tuple((k, v.strip()) for k, v in (line.split(":", 1) for line in lines))
    sent = Sent(method, target, headers, b"")
    if "chunked" in sent.header("transfer-encoding").lower():
        body = await read_chunks(reader)
    else:
        body = await reader.readexactly(int(sent.header("content-length") or 0))
    return Sent(method, target, headers, body)


async def read_chunks(reader):
    parts = []
    while size := int((await reader.readline()).split(b";")[0], 16):
        parts.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")
    return b"".join(parts)
