"""A gate in a forked child: it answers, adds and closes, and what it acknowledged stays."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from tests.waiting import MOST_S

from millgate import Millgate
from millgate.errors import StoreError
from millgate.stores.sqlite import connection as module

SCRIPT = """
import os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
from millgate import Millgate

gate = Millgate.open(sys.argv[1])
gate.add({"id": f"p{n}", "text": f"The refund {n} of the ferry is paid by card."} for n in range(50))
assert gate.context("refund of the ferry").chunks
gate.remember("Ada maintains the ferry.")
stop, at_work = threading.Event(), threading.Event()

def work():
    n = 0
    while not stop.is_set():
        n += 1
        gate.add([{"id": f"w{n % 20}", "text": f"version {n} of a page about the ferry"}])
        gate.context("the ferry")
        gate.recall("ferry")
        at_work.set()  # and has imported all that it needs: Python forks no import that is under way

worker = threading.Thread(target=work)
worker.start()
at_work.wait()
failed = 0
for n in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        try:
            __import__("faulthandler").dump_traceback_later(60, exit=True)
            assert gate.context("refund of the ferry").chunks
            gate.add([{"id": f"child{n}", "text": f"child {n} was here"}])
            assert gate.recall("who maintains the ferry")
            assert any(c.id == f"child{n}" for c in gate.context(f"child {n} was here").chunks)
            gate.close()
            os._exit(0)
        except BaseException:
            __import__("traceback").print_exc()
            os._exit(1)
    failed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
stop.set()
worker.join()
assert gate.context("refund of the ferry").chunks
gate.close()
print(failed)
"""


@pytest.mark.slow
def test_children_forked_beside_a_working_thread_all_answer_and_close(tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SCRIPT, str(tmp_path), "6"],
        check=False,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


def fork_child(work):
    """The process id of a forked child that ends with 0 if the work returns something true."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # a fork beside threads is what is tested
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return child


def succeeds(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def row(id):
    return {"id": id, "text": f"The page {id} is about the ferry."}


def test_what_a_child_wrote_stays_when_the_parent_closes_meanwhile(tmp_path):
    gate = Millgate.open(tmp_path)
    gate.add([row("parent")])
    (wrote, tell_wrote), (closed, tell_closed) = os.pipe(), os.pipe()

    def write():
        gate.add([row("before")])
        os.write(tell_wrote, b"x")
        os.read(closed, 1)
        gate.add([row("after")])
        return True

    child = fork_child(write)
    os.read(wrote, 1)
    gate.close()
    os.write(tell_closed, b"x")
    assert succeeds(child)
    for descriptor in (wrote, tell_wrote, closed, tell_closed):
        os.close(descriptor)
    with Millgate.open(tmp_path) as again:
        found = {chunk.id for chunk in again.store.scan("default", "main")}
    assert found == {"parent", "before", "after"}


def test_a_gate_in_memory_goes_on_in_a_child_with_what_it_holds():
    with Millgate.open(":memory:") as gate:
        other = gate.for_tenant("other")
        other.add([row("a")])
        assert other.context("the ferry").chunks

        def work():
            other.add([row("b")])
            return {chunk.id for chunk in other.context("the ferry page").chunks} == {"a", "b"}

        assert succeeds(fork_child(work))
        assert (
            other.collections()["main"].chunks == 2
        )  # both work on the store, which outlives the child


def test_a_child_that_was_forked_in_the_middle_of_a_call_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FORK_S", 0.0)
    with Millgate.open(tmp_path) as gate:
        gate.add([row("a")])

        def refused():
            with pytest.raises(StoreError, match="in use when this process was forked"):
                gate.collections()
            with pytest.raises(StoreError, match="in use when this process was forked"):
                Millgate.open(tmp_path)
            return True

        with gate.store._pool.read():
            child = fork_child(refused)
        assert succeeds(child)
        assert gate.context("the ferry").chunks


def test_a_child_that_closes_a_gate_leaves_the_parents_open(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add([row("a")])
        assert gate.context("the ferry").chunks

        def close():
            gate.close()
            with pytest.raises(StoreError, match="closed"):
                gate.context("the ferry")
            return True

        assert succeeds(fork_child(close))
        assert gate.context("the ferry").chunks
    assert succeeds(fork_child(close))
