"""Values that the proxy remembers, in a process that was forked."""

import asyncio
import os
import warnings

from headgate.service.proxy.remembered import Remembered


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
