"""Answers that are held before they can go on: bounded each and together, and large ones in turn."""

import asyncio

import pytest

from headgate.errors import UpstreamError
from headgate.guard.dialects.chat import ChatDialect
from headgate.guard.dialects.usage import UsageSum
from headgate.guard.rollback import Session
from headgate.service.proxy import answer_room
from headgate.service.proxy.answer_room import AnswerRoom, read_whole
from headgate.service.proxy.sse import Splitter
from headgate.service.proxy.whole_answer import guard_answer


class Body:
    """A response whose parts are there."""

    def __init__(self, *parts):
        self.parts = list(parts)

    async def read(self):
        return self.parts.pop(0) if self.parts else b""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(answer_room, "TOGETHER", 1_000)
    monkeypatch.setattr(answer_room, "ORDINARY", 100)


async def read(room, body, limit=5_000):
    with room.share() as take:
        return await read_whole(body, limit, take)


@pytest.mark.parametrize(("held", "size", "fits"), [(800, 200, True), (800, 201, False), (901, 100, True), (901, 101, False)])  # fmt: skip
async def test_all_together_may_hold_their_bound_and_an_ordinary_one_passes_beyond_it(held, size, fits):  # fmt: skip
    room = AnswerRoom()
    with room.share() as take:
        take(held)
        reading = read(room, Body(b"y" * size))
        if fits:
            assert len(await reading) == size
        else:
            with pytest.raises(UpstreamError, match="more at once"):
                await reading
    with room.share() as take:
        take(1_000)  # all that was held is given back


async def test_one_answer_beyond_its_own_limit_is_refused_and_gives_its_room_back():
    room = AnswerRoom()
    for _ in range(3):
        with pytest.raises(UpstreamError, match="max_answer_bytes 500"):
            await read(room, Body(b"x" * 600), 500)


@pytest.mark.parametrize(("size", "fits"), [(500, True), (501, False)])
async def test_an_answer_may_be_as_large_as_its_limit(size, fits):
    reading = read(AnswerRoom(), Body(b"x" * 200, b"x" * (size - 200)), 500)
    if fits:
        assert len(await reading) == size
    else:
        with pytest.raises(UpstreamError, match="max_answer_bytes"):
            await reading


def test_events_that_have_not_ended_share_the_room_and_give_it_back_when_they_end():
    room = AnswerRoom()
    with room.share() as take, room.share() as take_other:
        splitter, other = Splitter(5_000, take), Splitter(5_000, take_other)
        splitter.feed(b"data: " + b"x" * 794)
        with pytest.raises(UpstreamError, match="more at once"):
            other.feed(b"y" * 201)
        other.end()
        splitter.feed(b"\n\nda")
        assert other.feed(b"y" * 998) == []
        assert splitter.end() == b"da"
        assert other.feed(b"y" * 2) == []


async def test_large_answers_are_worked_on_one_at_a_time_and_ordinary_ones_at_once():
    room, entered = AnswerRoom(), []

    async def work(name, size, until):
        async with room.turn(size):
            entered.append(name)
            await until.wait()

    go = asyncio.Event()
    tasks = [asyncio.ensure_future(work(*one, go)) for one in (("first", 101), ("second", 101), ("ordinary", 100))]  # fmt: skip
    await asyncio.sleep(0)
    assert entered == ["first", "ordinary"]
    go.set()
    await asyncio.gather(*tasks)
    assert entered[-1] == "second"


async def test_the_guard_waits_for_the_turn_of_each_answer_and_lets_it_go_while_the_model_is_asked_again():
    room, sizes = AnswerRoom(), []
    loop = b'{"choices": [{"message": {"role": "assistant", "content": "%b"}}]}' % (b"and so on, " * 900)  # fmt: skip
    good = b'{"choices": [{"message": {"role": "assistant", "content": "The end of it."}}]}'

    def turn(size):
        sizes.append(size)
        return room.turn(size)

    async def call_again(_):
        async with room.turn(101):
            return good

    async with asyncio.timeout(20):
        said = await guard_answer(loop, ChatDialect(), Session([]), UsageSum(), call_again, turn=turn)  # fmt: skip
    assert sizes == [len(loop), len(good)]
    assert b"The end of it." in said
