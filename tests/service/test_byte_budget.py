"""One budget of bytes: large bodies wait for bytes in the order of arrival, ordinary ones never wait."""

import asyncio
import platform
import subprocess
import sys
from contextlib import suppress

import pytest

from millgate.errors import BusyError
from millgate.service.edge import byte_budget
from millgate.service.edge.byte_budget import ORDINARY, ByteBudget, Share, machine_memory

TOTAL = 10 * ORDINARY


async def turn_of_the_loop():
    """Let everything that is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_does_not_fit_waits_until_it_does():
    budget = ByteBudget(TOTAL)
    first, second = Share(budget), Share(budget)
    await first.hold(TOTAL - ORDINARY)
    waiting = asyncio.ensure_future(second.hold(2 * ORDINARY))
    await turn_of_the_loop()
    assert not waiting.done()
    first.drop(ORDINARY)
    await waiting
    assert (first.held, second.held, budget.held) == (8 * ORDINARY, 2 * ORDINARY, TOTAL)


async def test_newcomers_wait_in_the_order_they_came():
    budget, order = ByteBudget(TOTAL), []
    shares = {name: Share(budget) for name in "abcd"}

    async def hold(name, size):
        await shares[name].hold(size)
        order.append(name)

    await hold("a", TOTAL)
    waiting = [asyncio.ensure_future(hold(*one)) for one in (("b", TOTAL), ("c", 2 * ORDINARY), ("d", 2 * ORDINARY))]  # fmt: skip
    await turn_of_the_loop()
    assert order == ["a"]
    shares["a"].close()
    await turn_of_the_loop()
    assert order == ["a", "b"], "the small ones do not pass the large one"
    shares["b"].close()
    await asyncio.gather(*waiting)
    assert order == ["a", "b", "c", "d"]


async def test_who_waits_in_vain_is_told_the_limit_and_when_to_come_again():
    budget = ByteBudget(TOTAL, wait_s=0.01)
    first, second = Share(budget), Share(budget)
    await first.hold(TOTAL)
    with pytest.raises(BusyError, match=f"{TOTAL:,}") as refused:
        await second.hold(2 * ORDINARY)
    assert refused.value.retry_after > 0
    assert "service.memory_bytes" in refused.value.hint
    assert (second.held, budget.held) == (0, TOTAL)


async def test_what_is_ordinary_never_waits_whatever_others_hold():
    budget = ByteBudget(TOTAL, wait_s=0)
    first, waiting = Share(budget), Share(budget)
    await first.hold(TOTAL)
    with pytest.raises(BusyError):
        await waiting.hold(2 * ORDINARY)
    for _ in range(20):
        await Share(budget).hold(ORDINARY)


async def test_a_large_one_beside_ordinary_ones_is_let_in_however_small_the_budget():
    budget = ByteBudget(1, wait_s=0)
    for _ in range(3):
        await Share(budget).hold(ORDINARY)
    large, other = Share(budget), Share(budget)
    await large.hold(99 * ORDINARY)
    await large.hold(99 * ORDINARY)
    with pytest.raises(BusyError):
        await other.hold(2 * ORDINARY)
    large.close()
    await other.hold(2 * ORDINARY)


async def test_nothing_more_is_held_at_once_even_behind_those_who_wait():
    budget = ByteBudget(TOTAL)
    first, second = Share(budget), Share(budget)
    await first.hold(TOTAL)
    waiting = asyncio.ensure_future(second.hold(TOTAL))
    await turn_of_the_loop()
    await first.hold(0)
    first.close()
    await waiting


async def test_an_answer_asks_without_waiting():
    budget = ByteBudget(TOTAL)
    first, second = Share(budget), Share(budget)
    assert first.try_hold(TOTAL)
    assert second.try_hold(ORDINARY), "what is ordinary"
    assert not second.try_hold(1)
    assert (first.held, second.held) == (TOTAL, ORDINARY)
    first.drop(TOTAL)
    assert second.try_hold(1)


async def test_one_that_gives_up_while_it_waits_lets_the_next_in():
    budget = ByteBudget(TOTAL)
    first = Share(budget)
    await first.hold(8 * ORDINARY)
    large = asyncio.ensure_future(Share(budget).hold(TOTAL))
    small = asyncio.ensure_future(Share(budget).hold(2 * ORDINARY))
    await turn_of_the_loop()
    large.cancel()
    await small
    assert budget.held == TOTAL


async def test_one_that_gives_up_just_when_it_was_let_in_gives_it_back():
    budget = ByteBudget(TOTAL)
    first, second = Share(budget), Share(budget)
    await first.hold(TOTAL)
    waiting = asyncio.ensure_future(second.hold(TOTAL))
    await turn_of_the_loop()
    first.close()
    waiting.cancel()  # let in, and not yet run
    await asyncio.wait([waiting])
    assert (second.held, budget.held) == (0, 0)


async def test_a_share_is_given_back_at_its_end_whatever_happens():
    budget = ByteBudget(TOTAL)
    with suppress(ZeroDivisionError), budget.share() as share:
        await share.hold(TOTAL)
        assert budget.held == TOTAL
        raise ZeroDivisionError
    assert budget.held == 0


def test_the_memory_of_a_container_is_what_it_may_use(tmp_path, monkeypatch):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(byte_budget, "_CGROUP_LIMITS", (limit, tmp_path / "missing"))
    whole = machine_memory()
    assert whole > ORDINARY
    limit.write_text("max\n")
    assert machine_memory() == whole
    limit.write_text("1048576\n")
    assert machine_memory() == 1_048_576
    assert ByteBudget().total == 1_048_576 // 4


THREADS_THAT_ALLOCATE = """
import ctypes, sys, threading
from millgate.service.edge.byte_budget import keep_heaps_small

keep_heaps_small()
all_here = threading.Barrier(16)

def hold():
    kept = [bytes(4000) for _ in range(100)]
    all_here.wait()
    kept.append(bytes(4000))

threads = [threading.Thread(target=hold) for _ in range(16)]
for thread in threads: thread.start()
for thread in threads: thread.join()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, file)
libc.fclose(file)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_threads_share_two_heaps(tmp_path):
    report = tmp_path / "heaps.xml"
    subprocess.run([sys.executable, "-c", THREADS_THAT_ALLOCATE, str(report)], check=True)
    assert 1 <= report.read_text().count("<heap nr=") <= 2
