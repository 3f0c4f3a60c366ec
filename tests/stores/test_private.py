"""What a store writes is for its owner alone."""

import logging
import os
import stat
import sys

import pytest
from click.testing import CliRunner

from headgate.cli import app
from headgate.gateway import Headgate
from headgate.integrations.mcp_clients.clients import Entry, Place
from headgate.integrations.mcp_clients.install import install
from headgate.operations.backup import backup, restore
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


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


class Modes:
    """Notes the mode of every file of a folder whenever Python makes a system call that could have made one."""

    def __init__(self, folder):
        self._folder, self.seen = folder, {}

    def __call__(self, _, event, called):
        if event == "c_return" and self._folder.exists():
            for file in self._folder.iterdir():
                self.seen.setdefault(file.name, set()).add(mode(file))

    def __enter__(self):
        sys.setprofile(self)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)


def test_a_backup_and_a_restored_store_are_the_owners_at_every_moment(tmp_path):
    with Headgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
    for work, made in ((backup, tmp_path / "copy"), (restore, tmp_path / "back")):
        with Modes(made) as modes:
            work(tmp_path / ("kb" if work is backup else "copy"), made)
        assert modes.seen
        assert set().union(*modes.seen.values()) == {0o600}, modes.seen
        assert mode(made) == 0o700
        assert mode(made / "headgate.db") == 0o600


def test_an_export_is_the_owners(tmp_path):
    with Headgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
    out = tmp_path / "all.jsonl"
    for _ in range(2):  # the second replaces the first
        done = CliRunner().invoke(app, ["store", "export", "--store", str(tmp_path / "kb"), "--output", str(out)])  # fmt: skip
        assert done.exit_code == 0, done.output
        assert mode(out) == 0o600
        assert len(out.read_text().splitlines()) == 1


def test_the_copy_of_an_agents_configuration_is_the_owners_at_every_moment(tmp_path):
    config = tmp_path / "home" / ".claude.json"
    config.parent.mkdir()
    config.write_text('{"apiKey": "sk-secret"}')
    config.chmod(0o600)
    with Modes(config.parent) as modes:
        assert install(Place("Claude Code", config), Entry("headgate", "headgate"))
    assert set().union(*modes.seen.values()) == {0o600}, modes.seen
