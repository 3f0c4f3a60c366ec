"""Recording: an upstream's answer while it comes in, kept for the gateway and for who goes on in its place.

It belongs to no reader. When the one that asked for it goes away it comes in all the same, until it is severed.
"""

import asyncio

from millgate.errors import UpstreamError
from millgate.service.proxy.transport import Transport, UpstreamRequest
from millgate.service.wire import Headers


class Recording:
    """The answer to one request."""

    def __init__(self, transport: Transport, request: UpstreamRequest) -> None:
        self.status = 0
        self.headers: Headers = []
        self.body = bytearray()
        self.ended = self.complete = self.severed = False
        self.error: UpstreamError | None = None
        self._changed = asyncio.Event()
        self._task = asyncio.ensure_future(self._fill(transport, request))

    async def _fill(self, transport: Transport, request: UpstreamRequest) -> None:
        try:
            response = await transport.send(request)
            try:
                self.status, self.headers = response.status, response.headers
                self._notify()
                while data := await response.read():
                    self.body += data
                    self._notify()
                self.complete = True
            finally:
                await response.close()
        except UpstreamError as error:
            self.error = error
        finally:
            self.ended = True
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def head(self) -> None:
        """Wait for status and headers; UpstreamError if none came."""
        while not self.status and not self.ended:
            await self._changed.wait()
        if not self.status:
            raise self.error or UpstreamError("the answer was severed before it began")

    async def read(self, at: int) -> bytes:
        """What has come behind the first `at` bytes, once there is any; b"" at the end. UpstreamError if it broke."""
        while len(self.body) <= at and not self.ended:
            await self._changed.wait()
        if len(self.body) <= at and not self.complete:
            raise self.error or UpstreamError("the answer was severed")
        return bytes(self.body[at:])

    def sever(self) -> None:
        """Stop the upstream at once: what comes now is paid for and not wanted."""
        if not self.ended:
            self.severed = True
            self._task.cancel()

    async def close(self) -> None:
        """Sever it, and wait until its connection is closed."""
        self.sever()
        await asyncio.wait({self._task})
