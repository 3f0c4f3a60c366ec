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


def body_of(*parts):
    body = Body(*parts)
    body.go.set()
    return body


@pytest.mark.parametrize(("size", "fits"), [(500, True), (501, False)])
async def test_an_answer_may_be_as_large_as_its_limit(size, fits):
    reading = WholeBodies().read(body_of(b"x" * 200, b"x" * (size - 200)), 500)
    if fits:
        assert len(await reading) == size
    else:
        with pytest.raises(UpstreamError, match="max_answer_bytes"):
            await reading


@pytest.mark.parametrize(("held", "size", "fits"), [(800, 200, True), (800, 201, False), (901, 100, True), (901, 101, False)])  # fmt: skip
async def test_all_together_may_hold_their_bound_and_an_ordinary_one_passes_beyond_it(held, size, fits):  # fmt: skip
    bodies = WholeBodies()
    bodies._held = held
    reading = bodies.read(body_of(b"y" * size), 5_000)
    if fits:
        assert len(await reading) == size
    else:
        with pytest.raises(UpstreamError, match="more at once"):
            await reading
    assert bodies._held == held, "what was read is given back"


@pytest.mark.parametrize(("parts", "turns"), [((60, 60), 1), ((60, 40), 0), ((60, 60, 60, 41), 2)])
async def test_others_get_their_turn_after_so_many_bytes(monkeypatch, parts, turns):
    monkeypatch.setattr(whole_body, "TURN", 100)
    passes = []
    sleep = asyncio.sleep

    async def counted(seconds):
        passes.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(whole_body.asyncio, "sleep", counted)
    await WholeBodies().read(body_of(*(b"x" * size for size in parts)), 5_000)
    assert len(passes) == turns
