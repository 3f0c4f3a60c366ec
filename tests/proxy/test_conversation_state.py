"""Values that the proxy remembers: how many and for how long."""

import asyncio
from threading import Event

from tests.waiting import MOST_S

from millgate.errors import StoreError
from millgate.service import conversation_state
from millgate.service.conversation_state import (
    AGE_S,
    PRUNE_EVERY,
    ConversationState,
    answer_key,
)


def test_memory_holds_so_many_bytes_and_the_latest_stay():
    state = ConversationState(memory_bytes=10)

    async def keep():
        for key in (b"a", b"b", b"a", b"c", b"d"):
            await state.put(key, b"1234")
        return [await state.get(key) for key in (b"a", b"b", b"c", b"d")]

    assert asyncio.run(keep()) == [None, None, b"1234", b"1234"]


def test_the_oldest_leave_a_file_that_is_too_large(tmp_path):
    state = ConversationState(tmp_path / "proxy.db", file_bytes=100_000)
    for n in range(PRUNE_EVERY + 1):
        state._write(b"%d" % n, b"x" * 1000)
    held = [n for n in range(PRUNE_EVERY + 1) if state._read([b"%d" % n])]
    assert held[-1] == PRUNE_EVERY
    assert 0.7 * PRUNE_EVERY < len(held) < 0.8 * PRUNE_EVERY
    assert held == list(range(held[0], PRUNE_EVERY + 1))
    state.close()


def test_the_first_value_stays_in_memory_and_in_the_file(tmp_path):
    for state in (ConversationState(), ConversationState(tmp_path / "proxy.db")):

        async def twice(state=state):
            await state.put(b"a", b"1")
            return await state.put(b"a", b"2"), await state.get(b"a")

        assert asyncio.run(twice()) == (b"1", b"1")
        assert asyncio.run(state.get(b"never")) is None
        state.close()
    again = ConversationState(tmp_path / "proxy.db")
    assert asyncio.run(again.get(b"a")) == b"1"
    again.close()
    again.close()


def test_values_are_known_while_they_are_written_and_what_the_file_has_stays(tmp_path):
    state, other = (ConversationState(tmp_path / "proxy.db") for _ in range(2))
    written, go = state._write, Event()

    def write_late(key, value, **how):
        assert go.wait(MOST_S)
        return written(key, value, **how)

    async def ask_at_once():
        await other.put(b"b", b"of another worker")
        state._write = write_late
        writing = asyncio.ensure_future(state.put_all({b"a": b"1", b"b": b"2"}))
        await asyncio.sleep(0)
        early = await state.get_all([b"a", b"b", b"c"])
        go.set()
        await writing
        return early, await state.get_all([b"a", b"b"])

    whole = {b"a": b"1", b"b": b"of another worker"}
    assert asyncio.run(ask_at_once()) == (whole, whole)
    assert state._writing == {}
    state.close()
    other.close()


def test_what_is_old_or_one_too_many_leaves_the_file_when_it_is_pruned(tmp_path, monkeypatch):
    state = ConversationState(tmp_path / "proxy.db")
    now = [1_000_000_000.0]
    monkeypatch.setattr(conversation_state.time, "time", lambda: now[0])
    monkeypatch.setattr(conversation_state, "ROWS", 3)
    state._write(b"old", b"x")
    now[0] += AGE_S + 1
    for n in range(5):
        now[0] += 1
        state._write(b"%d" % n, b"x")
    assert state._read([b"old"]) == {b"old": b"x"}, "it is pruned now and then, not at each write"
    state._writes = PRUNE_EVERY
    now[0] += 1
    state._write(b"5", b"x")
    left = [key for key in (b"old", *(b"%d" % n for n in range(6))) if state._read([key])]
    assert left == [b"2", b"3", b"4", b"5"]
    state.close()


def test_a_file_that_cannot_be_opened_is_said_and_the_value_stands(tmp_path):
    state = ConversationState(tmp_path / "no" / "folder.db")
    assert state._write(b"a", b"1") == b"1"
    assert state._read([b"a"]) == {}
    assert "No such file" in state.failure
    (tmp_path / "no").mkdir()
    state._write(b"a", b"1")
    assert state.failure == ""
    state.close()


def test_a_failure_that_is_over_is_forgotten_and_named_no_path(tmp_path):
    folder = tmp_path / "kb"
    state = ConversationState(folder / "proxy.db")  # its folder is not there
    assert state._read([b"a"]) == {}
    assert state.failure == "FileNotFoundError: No such file or directory"
    folder.mkdir()
    assert state._read([b"a"]) == {}
    assert state.failure == "", "a read that works is enough: there may be nothing to write"
    state.close()


class SharedValues:
    """A store that gateways share, which is down for a while."""

    def __init__(self):
        self.down = True

    def recall(self, tenant, keys):
        if self.down:
            raise StoreError("the server does not answer")
        return {}


def test_a_failure_of_a_shared_store_is_forgotten_when_it_answers():
    shared = SharedValues()
    state = ConversationState(shared=shared, tenant="t")
    asyncio.run(state.get(b"a"))
    assert state.failure == "the server does not answer"
    shared.down = False
    asyncio.run(state.get(b"a"))
    assert state.failure == ""


def test_an_answer_is_known_to_the_tenant_that_got_it_alone():
    state = ConversationState()

    async def ask():
        await state.put(answer_key("acme", "resp_1"), b"resp_2")
        return [await state.stored_answer(tenant, "resp_1") for tenant in ("acme", "beta")]

    assert asyncio.run(ask()) == ["resp_2", "resp_1"]
