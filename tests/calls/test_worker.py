"""Writes behind the answer: in order, bounded, said when lost, done before the end."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.waiting import MOST_S

from millgate.calls.bugs import set_strict
from millgate.calls.worker import DeferredWrites
from millgate.errors import InputError, StoreError


def test_writes_are_done_in_order_and_before_the_end():
    done = []
    writes = DeferredWrites()
    for n in range(50):
        assert writes.put("one", lambda n=n: done.append(n)) == ""
    assert writes.flush()
    assert done == list(range(50))
    writes.put("last", lambda: done.append("last"))
    writes.close()
    assert done[-1] == "last"


def test_a_full_queue_says_what_it_drops():
    go = threading.Event()
    writes = DeferredWrites(most=2)
    writes.put("stuck", go.wait)
    writes.put("waiting", lambda: None)
    assert writes.put("too much", lambda: None) == "not stored: 2 writes are waiting"
    assert writes.dropped == 1
    go.set()
    writes.close()


def test_items_that_wait_next_to_each_other_are_written_together_and_in_order():
    go, done = threading.Event(), []
    writes = DeferredWrites()
    writes.put("stuck", go.wait)
    for n in range(3):
        writes.put_item("one", done.append, n)
    writes.put("other", lambda: done.append("other"))
    writes.put_item("one", done.append, 3)
    go.set()
    assert writes.flush()
    assert done == [[0, 1, 2], "other", [3]]
    writes.close()


def test_if_items_fail_together_each_is_written_alone(monkeypatch, caplog):
    monkeypatch.setattr("millgate.calls.worker.PAUSE_S", 0.01)
    go, tried = threading.Event(), []

    def save(items):
        tried.append(items)
        if "bad" in items:
            raise StoreError("too large")

    writes = DeferredWrites()
    writes.put("stuck", go.wait)
    for item in ("a", "bad", "b"):
        writes.put_item(item, save, item)
    go.set()
    assert writes.flush()
    assert tried == [["a", "bad", "b"], ["a"], ["bad"], ["bad"], ["bad"], ["b"]]
    assert writes.dropped == 1
    assert "bad is lost: not stored: too large" in caplog.text
    writes.close()


def test_what_is_gathered_waits_for_nobody_who_needs_it(monkeypatch):
    monkeypatch.setattr("millgate.calls.worker.GATHER_S", 600.0)
    done, half = [], threading.Event()
    writes = DeferredWrites(most=4)
    for n in range(3):
        writes.put("one", lambda n=n: done.append(n))
        assert writes.flush()
    writes.put("gathered", lambda: done.append(3))
    writes.put("half of what fits", half.set)
    assert half.wait(MOST_S)
    writes.put("last", lambda: done.append(4))
    writes.close()
    assert done == [0, 1, 2, 3, 4]


def test_what_follows_soon_is_gathered(monkeypatch):
    monkeypatch.setattr("millgate.calls.worker.GATHER_S", 600.0)
    done = []
    writes = DeferredWrites()
    writes.put_item("first", done.append, 0)
    assert writes.flush()
    for n in range(1, 9):
        writes.put_item("more", done.append, n)
    writes.close()
    assert done == [[0], [1, 2, 3, 4, 5, 6, 7, 8]]


def test_a_write_that_fails_is_tried_again_and_once_it_is_done_nobody_is_told(monkeypatch):
    monkeypatch.setattr("millgate.calls.worker.PAUSE_S", 0.01)
    tries = []

    def fail_once():
        tries.append(1)
        if len(tries) == 1:
            raise StoreError("the store is held")

    writes = DeferredWrites()
    writes.put("trace", fail_once)
    assert writes.flush()
    assert len(tries) == 2
    assert writes.dropped == 0
    assert writes.put("next", lambda: None) == ""
    writes.close()


def test_each_answer_says_what_was_lost_until_a_good_write(monkeypatch):
    monkeypatch.setattr("millgate.calls.worker.PAUSE_S", 0.01)

    def fail():
        raise StoreError("the store is held")

    writes = DeferredWrites()
    writes.put("trace", fail)
    assert writes.flush()
    assert writes.put("next", fail) == "not stored: the store is held"
    assert writes.put("good", lambda: None) == "not stored: the store is held"
    assert writes.flush()
    assert writes.put("after", lambda: None) == ""
    assert writes.dropped == 2
    writes.close()


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (PermissionError(13, "Permission denied", "/home/ann/kb"), "PermissionError: Permission denied"),
        (InputError("it is no JSON"), "it is no JSON"),
        (KeyError("role"), "a bug (KeyError)"),
    ],
)  # fmt: skip
def test_what_no_second_try_can_mend_is_counted_too_and_told_without_a_path(caplog, error, logged):
    def fail():
        raise error

    before = set_strict(False)
    try:
        writes = DeferredWrites()
        writes.put("trace 7", fail)
        assert writes.flush()
    finally:
        set_strict(before)
    assert writes.dropped == 1
    assert f"trace 7 is lost: not stored: {logged}" in caplog.text
    assert writes.put("next", lambda: None) == f"not stored: {logged}"
    writes.close()


def test_what_cannot_be_written_is_dropped_and_counted(monkeypatch, caplog):
    monkeypatch.setattr("millgate.calls.worker.PAUSE_S", 0.01)

    def fail():
        raise StoreError("the disk is full")

    writes = DeferredWrites()
    writes.put("trace 7", fail)
    assert writes.flush()
    assert writes.dropped == 1
    assert "trace 7 is lost: not stored: the disk is full" in caplog.text
    writes.close()


def test_closing_does_not_wait_for_a_stuck_write_and_logs_what_is_lost(caplog):
    go = threading.Event()
    writes = DeferredWrites()
    writes.put("stuck", go.wait)
    writes.put("behind it", lambda: None)
    writes.close(timeout_s=0.01)
    assert "writes were waiting at the end and are lost" in caplog.text
    assert writes.put("late", lambda: None).startswith("not stored")
    go.set()


def test_a_flush_waits_for_what_is_queued_and_not_for_what_comes_after():
    stop, written = threading.Event(), []
    writes = DeferredWrites()

    def write_and_queue_another():
        written.append(1)
        if not stop.is_set():
            writes.put("another", write_and_queue_another)

    writes.put("first", write_and_queue_another)
    try:
        assert writes.flush(timeout_s=MOST_S)
        assert written
    finally:
        stop.set()
        writes.close()


def test_a_flush_ends_when_what_it_waits_for_is_given_up_at_the_end():
    began, go = threading.Event(), threading.Event()
    writes = DeferredWrites()

    def wait():
        began.set()
        go.wait()

    writes.put("slow", wait)
    began.wait()
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(writes.flush, 30)
        writes.close(timeout_s=0)
        assert flushed.result()
        go.set()
