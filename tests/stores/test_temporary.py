"""The store that ':memory:' names keeps the contract, and leaves nothing behind."""

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from millgate import Millgate
from millgate.errors import StoreError
from millgate.stores import temporary
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FailingStore, FixedClock, StoreContract
from millgate.testing.samples import document


class TestTemporaryStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = TemporaryStore()
        yield store
        store.close()


def test_it_is_private_and_gone_when_it_is_closed():
    store = TemporaryStore()
    folder = store.path.parent
    assert folder.stat().st_mode & 0o077 == 0
    store.close()
    store.close()
    assert not folder.exists()


def test_it_is_gone_when_nobody_holds_it():
    store = TemporaryStore()
    folder = store.path.parent
    del store
    gc.collect()
    assert not folder.exists()


SCRIPT = """
from millgate import Millgate
gate = Millgate.open(":memory:")
gate.add([{"id": "a", "text": "The tide turns."}])
print(gate.store.path.parent)
"""


def run(ending):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT + ending],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Path(done.stdout.splitlines()[0]), done.stderr


@pytest.mark.parametrize("ending", ["", "gate.close()", "raise SystemExit(3)"])
def test_it_is_gone_when_the_process_ends(ending):
    folder, errors = run(ending)
    assert not folder.exists()
    assert errors == ""


def test_what_a_killed_process_left_is_deleted_by_the_next():
    folder, _ = run("import os, signal; print(flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    assert folder.exists()
    TemporaryStore().close()
    assert folder.exists()  # it might be one that is being opened
    os.utime(folder, (1, 1))
    TemporaryStore().close()
    assert not folder.exists()


def test_a_store_in_use_is_not_taken_for_one_that_was_left():
    with Millgate.open(":memory:") as first:
        os.utime(first.store.path.parent, (1, 1))
        with Millgate.open(":memory:"):
            assert first.store.path.exists()


def test_a_forked_child_does_not_delete_it_under_its_parent():
    store = TemporaryStore()
    store.put("t", [document("a", "one")])
    child = os.fork()
    if not child:
        store.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert list(store.digests("t", "main")) == ["a"]
    store.close()


def test_without_memory_it_lies_among_the_temporary_files(monkeypatch, tmp_path):
    monkeypatch.setattr(temporary, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    store = TemporaryStore()
    assert store.path.parent.parent == tmp_path
    store.close()


def test_where_nothing_can_be_written_the_error_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(temporary, "_MEMORY", tmp_path / "none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StoreError, match="finds no folder") as raised:
        Millgate.open(":memory:")
    assert "TMPDIR" in raised.value.hint


def test_a_failing_store_fails_where_told_and_mends():
    store = FailingStore(TemporaryStore(), methods={"head"}, after=1)
    assert store.head("t", "main") == 0
    assert list(store.scan("t", "main")) == []
    with pytest.raises(StoreError, match="down"):
        store.head("t", "main")
    assert store.failed == 1
    store.repair()
    assert store.head("t", "main") == 0


def test_a_failing_store_without_methods_fails_everywhere():
    store = FailingStore(TemporaryStore())
    with pytest.raises(StoreError):
        store.secret("t")
    store.close()


def test_a_fixed_clock_moves_only_when_told():
    clock = FixedClock(10.0)
    assert (clock(), clock(), clock.advance(5.0), clock()) == (10.0, 10.0, 15.0, 15.0)
    assert TemporaryStore(clock=clock).rotate("t", expires=1.0).created == 15.0
