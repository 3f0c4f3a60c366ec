"""What a store writes is for its owner alone."""

import logging
import os
import shutil
import stat
import subprocess
import sys

import pytest
from click.testing import CliRunner

from millgate.cli import app
from millgate.gateway import Millgate
from millgate.integrations.mcp_clients import Entry, Place
from millgate.operations.backup import backup, restore
from millgate.settings import Settings
from millgate.stores.sqlite.store import SqliteStore

pytestmark = pytest.mark.skipif(os.name != "posix", reason="permissions of files are POSIX's")


@pytest.fixture(autouse=True)
def _usual_umask():
    former = os.umask(0o022)
    yield
    os.umask(former)


def test_folder_and_files_are_the_owners(tmp_path):
    with Millgate.open(settings=Settings(store=str(tmp_path / "kb"))) as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
        gate.context("refunds")
        files = [file for file in (tmp_path / "kb").iterdir() if file.is_file()]
        assert {"millgate.db", "millgate.db-wal", "retrieval-performance.log"} <= {
            f.name for f in files
        }
        held = {f.name: stat.S_IMODE(f.stat().st_mode) for f in files}
        assert set(held.values()) == {0o600}, held
    assert stat.S_IMODE((tmp_path / "kb").stat().st_mode) == 0o700


def test_a_new_store_is_kept_out_of_git_and_a_folder_that_was_there_is_left_alone(tmp_path):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / "own").mkdir()
    for name in ("kb", "own"):
        SqliteStore(tmp_path / name).close()
    listed = subprocess.run(
        ["git", "-C", tmp_path, "status", "--porcelain", "--untracked-files=all"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert listed.split() == ["??", "own/millgate.db"]


def test_a_store_that_others_may_read_is_warned_of(tmp_path, caplog):
    SqliteStore(tmp_path / "kb").close()
    (tmp_path / "kb" / "millgate.db").chmod(0o644)
    with caplog.at_level(logging.WARNING, "millgate.store"):
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
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add([{"id": "a", "text": "Refunds are paid within 14 days."}])
    for work, made in ((backup, tmp_path / "copy"), (restore, tmp_path / "back")):
        with Modes(made) as modes:
            work(tmp_path / ("kb" if work is backup else "copy"), made)
        assert modes.seen
        assert set().union(*modes.seen.values()) == {0o600}, modes.seen
        assert mode(made) == 0o700
        assert mode(made / "millgate.db") == 0o600


def test_an_export_is_the_owners(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
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
        assert Place("Claude Code", config).install(Entry("millgate", "millgate"))
    assert set().union(*modes.seen.values()) == {0o600}, modes.seen


_ANY_PATH = ["--bounding-set=-dac_override,-dac_read_search"]  # what lets root read any path


@pytest.fixture
def run_denied(tmp_path):
    """Runs a command in a folder beside `closed`, which it may not read."""
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    root = os.geteuid() == 0
    if root and not shutil.which("setpriv"):
        pytest.skip("root may read everything, and there is no setpriv that takes this right away")
    take_right = ["setpriv", *_ANY_PATH] if root else []

    def run(*args):
        words = [*take_right, sys.executable, "-m", "millgate", *args]
        return subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)

    yield run
    closed.chmod(0o700)


@pytest.mark.parametrize(
    "command",
    [
        ("context", "hi", "--store", "closed/kb"),
        ("status", "--store", "closed/kb"),
        ("add", "note.txt", "--store", "closed/kb"),
        ("store", "copy", "closed/kb", "other"),
        ("xray", "closed/sessions"),
    ],
)
def test_a_path_that_may_not_be_read_is_an_error_of_two_lines(run_denied, tmp_path, command):
    (tmp_path / "note.txt").write_text("a note")
    done = run_denied(*command)
    assert done.returncode == 2
    assert "Permission denied" in done.stderr
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["error", "hint"]


def test_a_hint_passes_over_folders_that_may_not_be_read(run_denied, tmp_path):
    SqliteStore(tmp_path / "kb").close()
    done = run_denied("context", "hi", "--store", "kbb")
    assert done.returncode == 2
    assert "did you mean 'kb'?" in done.stderr
