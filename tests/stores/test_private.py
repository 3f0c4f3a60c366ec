"""What a store writes is for its owner alone."""

import logging
import os
import stat

import pytest

from headgate.gateway import Headgate
from headgate.settings import Settings
from headgate.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of files are POSIX's")


@pytest.fixture(autouse=True)
def _usual_umask():
    former = os.umask(0o022)
    yield
    os.umask(former)


def test_folder_and_files_are_the_owners(tmp_path):
    with Headgate.open(settings=Settings(store=str(tmp_path / "kb"))) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        gate.context("refunds")
        files = [file for file in (tmp_path / "kb").iterdir() if file.is_file()]
        assert {"headgate.db", "headgate.db-wal", "retrieval-performance.log"} <= {
            f.name for f in files
        }
        held = {f.name: stat.S_IMODE(f.stat().st_mode) for f in files if ".lock" not in f.name}
        assert set(held.values()) == {0o600}, held
    assert stat.S_IMODE((tmp_path / "kb").stat().st_mode) == 0o700


def test_a_store_that_others_may_read_is_warned_of(tmp_path, caplog):
    SqliteStore(tmp_path / "kb").close()
    (tmp_path / "kb" / "headgate.db").chmod(0o644)
    with caplog.at_level(logging.WARNING, "headgate.store"):
        SqliteStore(tmp_path / "kb").close()
    assert "others on this machine may read" in caplog.text
