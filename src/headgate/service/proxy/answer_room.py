"""Answer room: what answers hold before anything of them can go on, bounded together.

An answer that is read whole, or an event that has not ended, may be large; a small compressed one may become so, and a
hostile upstream sends many at once. So all share a bound, and large ones are worked on in turn. An answer of ordinary
size is never refused because of others, and never waits for them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext

from headgate.errors import UpstreamError
from headgate.service.proxy.transport import Response

TOGETHER = 24 << 20  # bytes of all answers that are held in this process
ORDINARY = 1 << 20  # bytes that an answer may hold whatever others do

Take = Callable[[int], None]
"""Hold so many bytes more, or fewer."""


class AnswerRoom:
    """Counts what answers hold, and lets large ones be worked on one at a time."""

    def __init__(self) -> None:
        self._held = 0
        self._turn = asyncio.Semaphore(1)

    @contextmanager
    def share(self) -> Iterator[Take]:
        """What one answer holds, given back in the end. UpstreamError where all together are too large."""
        own = 0

        def take(more: int) -> None:
            nonlocal own
            own += more
            self._held += more
            if self._held > TOGETHER and own > ORDINARY:
                raise UpstreamError(
                    "the upstreams answer more at once than can be held",
                    hint="ask again later, or for less",
                )

        try:
            yield take
        finally:
            self._held -= own

    def turn(self, size: int) -> AbstractAsyncContextManager[object]:
        """The turn of an answer of that size to be worked on: parsed, it takes several times its bytes."""
        return self._turn if size > ORDINARY else nullcontext()


async def read_whole(response: Response, limit: int, take: Take) -> bytes:
    """The whole body of a response; UpstreamError where it is too large."""
    body = bytearray()
    async for data in read_parts(response):
        body += data
        take(len(data))
        if len(body) > limit:
            raise UpstreamError(
                f"the upstream answered more than max_answer_bytes {limit}",
                hint="ask for less, or as a stream",
            )
    return bytes(body)


async def read_parts(response: Response) -> AsyncIterator[bytes]:
    """The body of a response as it comes."""
    while data := await response.read():
        yield data
