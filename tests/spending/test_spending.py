"""Spending: the fuse over a store, for many sessions, workers and lives of the gateway."""

import multiprocessing
import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from millgate import Millgate
from millgate.errors import BusyError, NotFound, PausedError
from millgate.spending.limits import HOLD_S
from millgate.spending.spending import CapPolicy, FusePolicy, Spending
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FixedClock
from millgate.types import Amount

CAP, CALL = 1_000, 130
POLICY = FusePolicy(caps={"session": CapPolicy(tokens=CAP)})


def spending(store, policy=POLICY):
    return Spending(store, "t", policy, clock=FixedClock(1.0))


def hold(book, session, key="", size=CALL):
    held = book.hold(session, key, Amount(size))
    if held.refusal:
        raise held.refusal
    return held


def spend(book, session, key="", size=CALL):
    book.settle(hold(book, session, key, size), Amount(size))


def test_a_session_is_paused_and_resumed_by_a_person():
    book = spending(TemporaryStore())
    for _ in range(8):
        spend(book, "s")
    with pytest.raises(
        PausedError, match="session s has spent 1,040 of 1,000 tokens and is paused"
    ) as caught:
        spend(book, "s")
    assert "millgate sessions resume s" in caught.value.hint
    spend(book, "other")
    assert book.resume("s").tokens == 0
    spend(book, "s")
    ((other, _), (row, reading)) = book.list_spends()
    assert {other.name, row.name} == {"s", "other"}
    assert reading is not None
    with pytest.raises(NotFound):
        book.resume("nobody")


def test_calls_at_once_wait_for_each_other_near_the_cap():
    book = spending(TemporaryStore())
    first = hold(book, "s", size=CAP)
    with pytest.raises(BusyError):
        hold(book, "s")
    book.settle(first, Amount(10))
    spend(book, "s")


def test_the_answer_is_warned_and_forecast():
    book = spending(TemporaryStore())
    for _ in range(7):
        spend(book, "s")
    (warning,) = book.hold("s", "", Amount(CALL)).warnings
    assert (
        warning.describe() == "session s has spent 910 of 1,000 tokens; full in 1 call at this rate"
    )


def test_keys_and_tenants_are_capped_over_their_sessions():
    caps = {"key": CapPolicy(tokens=300), "tenant": CapPolicy(tokens=500, period_s=10)}
    store = TemporaryStore()
    book = spending(store, FusePolicy(caps=caps))
    for n in range(3):
        spend(book, f"s{n}", "k1", 100)
    with pytest.raises(PausedError, match="key k1"):
        hold(book, "s9", "k1")
    for n in range(2):
        spend(book, f"s{n}", "k2", 100)
    with pytest.raises(PausedError, match="this tenant"):
        hold(book, "s9", "k3")
    later = Spending(store, "t", FusePolicy(caps=caps), clock=FixedClock(12.0))
    assert hold(later, "s9", "k3")


def test_without_a_cap_nothing_is_written():
    store = TemporaryStore()
    book = spending(store, FusePolicy())
    spend(book, "s")
    assert store.spends("t") == []


def test_the_gate_gives_its_own_spending():
    with Millgate.open(":memory:", fuse={"caps": {"session": {"tokens": 5}}}) as gate:
        spend(gate.spending, "s")
        with pytest.raises(PausedError):
            spend(gate.spending, "s")
        assert gate.spending.list_spends()[0][1].state == "paused"


def run_sessions(folder, seed):
    """A gateway: 100 sessions call it, two calls of each at a time, until all of them are paused."""
    store = SqliteStore(folder)
    book = Spending(store, "t", POLICY)
    chance = random.Random(seed)
    left = {f"s{n}" for n in range(100)}

    def call(session):
        try:
            held = hold(book, session)
        except PausedError:
            left.discard(session)
        except BusyError:
            return
        else:
            book.settle(held, Amount(chance.randint(CALL // 2, CALL)))

    with ThreadPoolExecutor(8) as pool:
        while left:
            list(pool.map(call, [session for session in sorted(left) for _ in range(2)]))
    store.close()


@pytest.mark.slow
def test_no_session_spends_more_than_its_cap_plus_one_call(tmp_path):
    context = multiprocessing.get_context("spawn")
    store = SqliteStore(tmp_path)

    def start():
        workers = [context.Process(target=run_sessions, args=(tmp_path, n)) for n in range(2)]
        for worker in workers:
            worker.start()
        return workers

    for calls in (150, 450):
        workers = start()
        while sum(row.total_calls for row in store.spends("t", limit=1000)) < calls:
            time.sleep(0.01)
        for worker in workers:
            worker.kill()
            worker.join()
        expire_holds(store)
    for worker in start():
        worker.join()
        assert worker.exitcode == 0
    rows = store.spends("t", limit=1000)
    store.close()
    assert len(rows) == 100
    assert max(row.total_tokens for row in rows) <= CAP + CALL
    assert min(row.total_tokens for row in rows) >= CAP
    assert all(row.paused is not None for row in rows)


def expire_holds(store):
    """Let the time pass after which what a dead worker held counts as spent."""
    late = time.time() + HOLD_S + 1
    for row in store.spends("t", limit=1000):
        with suppress(PausedError):
            book = Spending(store, "t", POLICY, clock=FixedClock(late))
            spend(book, row.name, size=0)


def test_a_call_under_a_small_cap_leaves_others_of_its_tenant_what_it_may_not_spend():
    """Its request may allow an answer of any length."""
    caps = {"key": CapPolicy(tokens=1_000), "tenant": CapPolicy(tokens=5_000, cost=10)}
    book = Spending(TemporaryStore(), "default", FusePolicy(caps=caps))
    held = book.hold("s", "greedy", Amount(2_000_000, 3))
    assert held.amount == Amount(1_000, 3)
    assert book.hold("s", "other", Amount(500)).refusal is None
    book.settle(held, Amount(1_200))
    assert isinstance(book.hold("s", "greedy", Amount(1)).refusal, PausedError)
