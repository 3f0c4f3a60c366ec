"""Values that the proxy remembers: how many, and in a process that was forked."""

import asyncio
import os
import warnings

from headgate.service.proxy.remembered import PRUNE_EVERY, Remembered


def in_child(work):
    """The exit code of a forked child that does the work: 0 where it returns something true."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # a fork beside threads is what is tested
        pid = os.fork()
    if pid == 0:
        os._exit(0 if work() else 1)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def test_a_child_forked_while_the_lock_is_held_can_read_and_write(tmp_path):
    remembered = Remembered(tmp_path / "proxy.db")
    assert remembered._write(b"a", b"1") == b"1"

    def work():
        return remembered._read(b"a") == b"1" and remembered._write(b"b", b"2") == b"2"

    with remembered._lock:
        assert in_child(work) == 0
    assert asyncio.run(remembered.get(b"b")) == b"2"
    remembered.close()


def test_a_child_leaves_the_parents_connection_alone(tmp_path):
    remembered = Remembered(tmp_path / "proxy.db")
    remembered._write(b"a", b"1")
    assert in_child(lambda: remembered._connection is None and len(remembered._inherited) == 1) == 0
    assert remembered._connection is not None
    assert remembered._read(b"a") == b"1"
    remembered.close()


def test_memory_holds_so_many_bytes_and_the_latest_stay():
    remembered = Remembered(memory_bytes=10)

    async def keep():
        for key in (b"a", b"b", b"a", b"c", b"d"):
            await remembered.put(key, b"1234")
        return [await remembered.get(key) for key in (b"a", b"b", b"c", b"d")]

    assert asyncio.run(keep()) == [None, None, b"1234", b"1234"]


def test_the_oldest_leave_a_file_that_is_too_large(tmp_path):
    remembered = Remembered(tmp_path / "proxy.db", file_bytes=100_000)
    for n in range(PRUNE_EVERY + 1):
        remembered._write(b"%d" % n, b"x" * 1000)
    held = [n for n in range(PRUNE_EVERY + 1) if remembered._read(b"%d" % n)]
    assert held[-1] == PRUNE_EVERY
    assert 0.7 * PRUNE_EVERY < len(held) < 0.8 * PRUNE_EVERY
    assert held == list(range(held[0], PRUNE_EVERY + 1))
    remembered.close()
