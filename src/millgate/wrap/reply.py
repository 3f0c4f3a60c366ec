"""AgentReply: what the agent gets for one request, and what it has of it so far.

It remembers every byte, so that another writer can go on behind the last one. It tells no length: a
reply may be finished by another than the one that began it.
"""

import orjson
from aiohttp import web

from millgate.errors import MillgateError
from millgate.service.edge.reply import forwardable
from millgate.service.proxy.sse import KEEP_ALIVE
from millgate.service.proxy.transport import UpstreamReset, is_event_stream
from millgate.service.wire import Headers, reset_at_close


def response_for(status: int, headers: Headers) -> web.StreamResponse:
    """A response with these headers, those of the connection left out."""
    response = web.StreamResponse(status=status)
    for name, value in forwardable(headers, (b"content-length",)):
        response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
    return response


class AgentReply:
    """One reply."""

    def __init__(self, request: web.BaseRequest) -> None:
        self.sent = bytearray()
        """The body that the agent has."""
        self.waits_for_agent = False
        """Whether the agent is slow to take what there is."""
        self.response: web.StreamResponse | None = None
        self._request = request
        self._is_stream = False

    async def begin(self, status: int, headers: Headers) -> None:
        """Send status and headers, if that was not done before."""
        if self.response is None:
            self._is_stream = is_event_stream(headers)
            self.response = response_for(status, headers)
            await self.response.prepare(self._request)

    async def write(self, data: bytes) -> None:
        """Send more of the body."""
        self.sent += data
        await self._send(data)

    async def keep_alive(self) -> None:
        """Send a comment between two events, so that an agent that waits knows we are there."""
        whole = not self.sent or self.sent.endswith((b"\n\n", b"\r\n\r\n"))
        if self.response is not None and self._is_stream and whole:
            await self._send(KEEP_ALIVE)

    async def _send(self, data: bytes) -> None:
        assert self.response is not None
        self.waits_for_agent = True
        try:
            await self.response.write(data)
        finally:
            # also if the writer is cancelled: another goes on with the reply
            self.waits_for_agent = False

    async def end(self) -> None:
        """The reply is complete."""
        assert self.response is not None
        await self.response.write_eof()

    async def fail(self, error: MillgateError) -> None:
        """The reply cannot be completed: an error with a status if nothing was sent, else a severed connection."""
        if self.response is None:
            body = {"error": {"message": error.message, "type": "upstream_error", "code": "upstream_failed"}}  # fmt: skip
            await self.begin(502, [(b"content-type", b"application/json")])
            await self.write(orjson.dumps(body))
            await self.end()
        elif self._request.transport is not None:
            if isinstance(error, UpstreamReset):
                reset_at_close(self._request.transport.get_extra_info("socket"))
            self._request.transport.abort()
