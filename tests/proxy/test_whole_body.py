"""Answers that are read whole, bounded each and together; long ones go through the guard piece by piece."""

import asyncio

import pytest

from headgate.errors import UpstreamError
from headgate.service.proxy import whole_body
from headgate.service.proxy.whole_body import WholeBodies


class Body:
    """A response whose parts come when they are let in."""

    def __init__(self, *parts):
        self.parts, self.go = list(parts), asyncio.Event()

    async def read(self):
        await self.go.wait()
        return self.parts.pop(0) if self.parts else b""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(whole_body, "TOGETHER", 1_000)
    monkeypatch.setattr(whole_body, "ORDINARY", 100)


async def test_together_answers_hold_no_more_than_their_bound_but_ordinary_ones_always_pass():
    bodies, first = WholeBodies(), Body(b"x" * 900)

    async def hold():
        await asyncio.sleep(0.2)
        return b""

    first.go.set()
    original = first.read

    async def read():
        return await original() if first.parts else await hold()

    first.read = read
    reading = asyncio.ensure_future(bodies.read(first, 5_000))
    await asyncio.sleep(0.01)
    large, ordinary = Body(b"y" * 200), Body(b"z" * 100)
    large.go.set()
    ordinary.go.set()
    with pytest.raises(UpstreamError, match="more at once"):
        await bodies.read(large, 5_000)
    assert await bodies.read(ordinary, 5_000) == b"z" * 100
    assert len(await reading) == 900


async def test_one_answer_beyond_its_own_limit_is_refused_and_gives_its_room_back():
    bodies = WholeBodies()
    for _ in range(3):
        body = Body(b"x" * 600)
        body.go.set()
        with pytest.raises(UpstreamError, match="max_answer_bytes 500"):
            await bodies.read(body, 500)
