"""An upstream's answer that several can read, from any place."""

import asyncio

import pytest

from millgate.errors import UpstreamError
from millgate.service.proxy.http_client import Address, UpstreamRequest
from millgate.wrap.turn import Recording

REQUEST = UpstreamRequest("POST", Address("http", "127.0.0.1", 1), "/")


class Answer:
    """A transport whose one response comes when it is told to."""

    status, headers = 200, [(b"content-type", b"text/plain")]

    def __init__(self):
        self.parts, self.closed = asyncio.Queue(), False

    async def send(self, request):
        return self

    async def read(self, tick_s=None):
        part = await self.parts.get()
        if isinstance(part, Exception):
            raise part
        return part

    async def close(self):
        self.closed = True


async def read_all(recording, at=0):
    found = b""
    while data := await recording.read(at + len(found)):
        found += data
    return found


async def test_readers_at_different_places_get_the_same_bytes():
    answer = Answer()
    recording = Recording(answer, REQUEST)
    readers = asyncio.gather(read_all(recording), read_all(recording, 3))
    for part in (b"one ", b"two ", b"three", b""):
        await answer.parts.put(part)
        await asyncio.sleep(0)
    assert await readers == [b"one two three", b" two three"]
    assert await read_all(recording, 4) == b"two three"
    assert answer.closed


async def test_an_answer_that_breaks_off_is_no_complete_one():
    answer = Answer()
    recording = Recording(answer, REQUEST)
    await answer.parts.put(b"half")
    await answer.parts.put(UpstreamError("gone"))
    await recording.head()
    with pytest.raises(UpstreamError, match="gone"):
        await read_all(recording)
    assert recording.body == b"half"


async def test_severing_closes_the_upstream():
    answer = Answer()
    recording = Recording(answer, REQUEST)
    await answer.parts.put(b"half")
    assert await recording.read(0) == b"half"
    await recording.close()
    assert answer.closed
    with pytest.raises(UpstreamError, match="severed"):
        await recording.read(4)
