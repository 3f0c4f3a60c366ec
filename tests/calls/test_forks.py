"""A gate in a forked child: one clear error, the parent goes on, and the child may open a gate of its own."""

import os
import traceback
import warnings

import pytest

from millgate import Millgate
from millgate.errors import StoreError

REFUSAL = "opened before the process was forked"


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
        except BaseException:  # noqa: BLE001  (the parent is told by the code)
            traceback.print_exc()
        finally:
            os._exit(2)
    return child


def succeeds(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def row(id):
    return {"id": id, "text": f"The page {id} is about the ferry."}


@pytest.mark.parametrize("place", ["folder", ":memory:"])
def test_each_call_in_a_child_says_that_the_gate_is_the_parents(tmp_path, place):
    with Millgate.open(tmp_path if place == "folder" else place) as gate:
        gate.add([row("a")])
        facts = gate.facts

        def refused():
            for call in (
                lambda: gate.context("the ferry"),
                lambda: gate.for_tenant("other").collections(),
                lambda: facts.search("the ferry"),
            ):
                with pytest.raises(StoreError, match=REFUSAL) as caught:
                    call()
                assert "Millgate.open" in caught.value.hint
            gate.close()
            return True

        assert succeeds(fork_child(refused))
        assert gate.context("the ferry").chunks
    assert succeeds(fork_child(lambda: True))


def test_a_child_opens_the_same_store_for_itself_and_what_it_wrote_stays(tmp_path):
    gate = Millgate.open(tmp_path)
    gate.add([row("parent")])
    (wrote, tell_wrote), (closed, tell_closed) = os.pipe(), os.pipe()

    def write():
        with Millgate.open(tmp_path) as own:
            own.add([row("before")])
            os.write(tell_wrote, b"x")
            os.read(closed, 1)
            own.add([row("after")])
            return len(own.context("the ferry").chunks) == 3

    child = fork_child(write)
    os.close(tell_wrote)  # else a child that failed would be waited for
    os.read(wrote, 1)
    gate.close()
    os.write(tell_closed, b"x")
    assert succeeds(child)
    for descriptor in (wrote, closed, tell_closed):
        os.close(descriptor)
    with Millgate.open(tmp_path) as again:
        found = {chunk.id for chunk in again.store.scan("default", "main")}
    assert found == {"parent", "before", "after"}


def test_a_child_that_was_forked_in_the_middle_of_a_call_cannot_open_the_store(tmp_path):
    with Millgate.open(tmp_path) as gate:
        gate.add([row("a")])

        def refused():
            with pytest.raises(StoreError, match="in use when this process was forked"):
                Millgate.open(tmp_path)
            return True

        with gate.store._pool.read():
            child = fork_child(refused)
        assert succeeds(child)
        assert gate.context("the ferry").chunks
