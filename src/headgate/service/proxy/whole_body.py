"""Whole bodies: answers that must be read to their end before anything of them goes on, bounded each and together.

A small compressed answer may become a large one, and a hostile upstream sends many at once. So all that are being read
share a bound; an answer of ordinary size is never refused because of others.
"""

import asyncio
from collections.abc import AsyncIterator

from headgate.errors import UpstreamError
from headgate.service.proxy.transport import Response

TOGETHER = 32 << 20  # bytes of all bodies that are being read in this process
ORDINARY = 1 << 20  # bytes of a body that is read whatever others hold
TURN = 1 << 20  # bytes after which other requests get their turn


class WholeBodies:
    """Reads bodies whole, and counts what they hold meanwhile."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, response: Response, limit: int) -> bytes:
        """The whole body of a response; UpstreamError where it, or all together, are too large."""
        body, turn = bytearray(), 0
        try:
            async for data in read_parts(response):
                body += data
                self._held += len(data)
                turn += len(data)
                if len(body) > limit:
                    raise UpstreamError(
                        f"the upstream answered more than max_answer_bytes {limit}",
                        hint="ask for less, or as a stream",
                    )
                if self._held > TOGETHER and len(body) > ORDINARY:
                    raise UpstreamError(
                        "the upstreams answer more at once than can be held",
                        hint="ask again later, or as a stream",
                    )
                if turn > TURN:
                    turn = 0
                    await asyncio.sleep(0)  # bytes that are there already are read without waiting
            return bytes(body)
        finally:
            self._held -= len(body)


async def read_parts(response: Response) -> AsyncIterator[bytes]:
    """The body of a response as it comes."""
    while data := await response.read():
        yield data
