"""Http2: the same transport over HTTP/2, many streams on one connection.

For upstreams that are set to it. Over TLS the protocol is agreed on by ALPN, and a server that has only HTTP/1.1 is
served so; without TLS the server must speak HTTP/2 from the first byte. Closing an answer early resets its stream,
the other streams of the connection go on. Needs the extra `service`.
"""

import asyncio
from importlib import import_module
from typing import Any

from headgate.errors import MissingExtra, UpstreamError, UpstreamTimeout
from headgate.service.proxy.wire import Answer, Headers, Outgoing, Patience, origin


class Http2Answer:
    """An answer over HTTP/2."""

    def __init__(self, response: Any, patience: Patience, name: str) -> None:  # noqa: ANN401  # httpx2's
        self._response, self._patience, self._name = response, patience, name
        self._parts = response.aiter_raw()
        self._next: asyncio.Future[bytes] | None = None
        self.status: int = response.status_code
        self.headers: Headers = [(key.lower(), value) for key, value in response.headers.raw]

    async def read(self) -> bytes | None:
        """The next bytes; b"" at the end; None after a tick of silence."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._parts, b""))
        done, _ = await asyncio.wait({self._next}, timeout=self._patience.tick_s)
        if not done:
            return None
        task, self._next = self._next, None
        try:
            return task.result()
        except (_library().HTTPError, OSError) as error:
            what = f"{self._name} closed the stream in the middle of its answer: {error}"
            raise UpstreamError(what) from error

    async def close(self) -> None:
        """Done with it; an unfinished stream is reset."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait({self._next})
        await self._response.aclose()


class Http2:
    """A pool of HTTP/2 connections."""

    def __init__(self) -> None:
        self._clients: dict[str, Any] = {}

    async def send(self, request: Outgoing, patience: Patience) -> Answer:
        """The answer, once its head has come."""
        library = _library()
        parts, host, port = origin(request.url)
        name = f"{parts.scheme}://{host}:{port}"
        client = self._client(parts.scheme)
        built = client.build_request(
            request.method, request.url, headers=request.headers, content=request.body or None
        )
        try:
            async with asyncio.timeout(patience.connect_s + patience.answer_s):
                response = await client.send(built, stream=True)
        except (TimeoutError, library.TimeoutException) as error:
            raise UpstreamTimeout(
                f"{name} gave no answer within {patience.answer_s:g} s"
            ) from error
        except (library.HTTPError, library.InvalidURL, OSError) as error:
            raise UpstreamError(f"{name} cannot be reached: {error}", hint="is it up?") from error
        return Http2Answer(response, patience, name)

    def _client(self, scheme: str) -> Any:  # noqa: ANN401  # httpx2's
        client = self._clients.get(scheme)
        if client is None:
            library = _library()
            client = self._clients[scheme] = library.AsyncClient(
                http2=True,
                http1=scheme == "https",
                timeout=library.Timeout(None, connect=10.0),
                limits=library.Limits(max_connections=None),
            )
        return client

    async def close(self) -> None:
        """Close every connection."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()


def _library() -> Any:  # noqa: ANN401  # a module
    for name in ("h2", "httpx2"):
        try:
            library = import_module(name)
        except ImportError as error:
            raise MissingExtra(name, extra="service") from error
    return library
