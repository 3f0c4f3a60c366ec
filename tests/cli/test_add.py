"""`millgate add` and `millgate store remove`, as a person or a script runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.waiting import MOST_S

from millgate.cli import app
from millgate.cli.add import SHOWN, summarize
from millgate.errors import InputError, NotFound
from millgate.gateway import Millgate
from millgate.ingest.load import Skip, Summary
from millgate.stores.sqlite.store import SqliteStore

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*words, input=None):
        result = CliRunner().invoke(app, list(words), input=input)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


def held(folder):
    store = SqliteStore(folder)
    chunks = {chunk.id: chunk.text for chunk in store.scan("default", "main")}
    store.close()
    return chunks


def test_a_folder_is_added_and_summed_up(run, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# Refunds\n\nwithin 30 days")
    (tmp_path / "docs" / "b.bin").write_bytes(b"\0\1")
    result = run("add", "docs", "--store", "kb")
    assert "added 1 document (1 chunk changed), 0 unchanged, 0 removed, 1 skipped" in result.stdout
    assert "docs/b.bin" in result.stderr
    assert "binary file" in result.stderr
    assert held("kb") == {"docs/a.md": "# Refunds\n\nwithin 30 days"}


def test_json_lists_what_was_skipped(run, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    (tmp_path / "b.txt").write_text("words")
    result = run("add", "a.bin", "b.txt", "--store", "kb", "--json")
    assert json.loads(result.stdout) == {
        "documents": 1,
        "chunks": 1,
        "unchanged": 0,
        "removed": 0,
        "missing": 0,
        "packed": 0,
        "skips": 1,
        "skipped": [{"what": "a.bin", "reason": "binary file"}],
    }


def test_adding_nothing_but_what_is_skipped_fails(run, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    assert run("add", "a.bin", "--store", "kb").exit_code == 1


def test_a_pipe_is_added_under_its_id(run):
    run("add", "-", "--store", "kb", "--id", "note", input="words from a pipe")
    assert held("kb") == {"note": "words from a pipe"}


def test_a_pipe_stands_alone(run):
    with pytest.raises(InputError, match="stands alone"):
        run("add", "-", "x.txt", "--store", "kb")


def test_pruning_follows_the_folder(run, tmp_path):
    (tmp_path / "docs").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "docs" / name).write_text(name)
    run("add", "docs", "--store", "kb")
    (tmp_path / "docs" / "a.txt").unlink()
    assert "1 removed" in run("add", "docs", "--store", "kb", "--prune").stdout
    assert list(held("kb")) == ["docs/b.txt"]


def test_documents_chunks_and_collections_are_removed(run):
    with Millgate.open("kb") as gate:
        gate.add([{"id": name, "text": name} for name in "abcd"])
    assert "removed 1 chunk" in run("store", "remove", "a", "--store", "kb").stdout
    answer = run("store", "remove", "--chunk", "b", "--store", "kb", "--json").stdout
    assert json.loads(answer) == {"removed": 1}
    with pytest.raises(NotFound, match="has the id zebra"):
        run("store", "remove", "zebra", "--store", "kb")
    assert run("store", "remove", "--all", "--store", "kb", input="n\n").exit_code == 1
    assert set(held("kb")) == {"c", "d"}
    run("store", "remove", "--all", "--yes", "--store", "kb")
    assert held("kb") == {}


@pytest.mark.parametrize("words", [[], ["a", "--all"]])
def test_what_to_remove_must_be_said(run, words):
    with pytest.raises(InputError, match="say what to remove"):
        run("store", "remove", *words, "--store", "kb")


def test_an_interrupt_leaves_a_consistent_store(tmp_path):
    rows = "".join(
        json.dumps({"id": f"r{n}", "text": f"row {n} " * 30}) + "\n" for n in range(40_000)
    )
    (tmp_path / "rows.jsonl").write_text(rows)
    process = subprocess.Popen(
        [sys.executable, "-m", "millgate", "add", "rows.jsonl", "--store", "kb"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        text=True,
    )
    while process.poll() is None and not (tmp_path / "kb" / "millgate.db-wal").exists():
        time.sleep(0.01)
    store = SqliteStore(tmp_path / "kb")
    while process.poll() is None and not store.head("default", "main"):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=MOST_S)
    assert process.returncode == 130, said
    assert "what was added is kept" in said
    assert "Traceback" not in said
    size = store.collections("default")["main"]
    assert 0 < size.chunks == len(list(store.scan("default", "main"))) < 40_000
    store.close()


def test_a_text_that_is_said_to_be_a_conversation_is_cut_at_its_lines(run, tmp_path):
    (tmp_path / "chat.txt").write_text("are you coming?\n\nyes, by train\nbring the boat\n")
    run("add", "chat.txt", "--conversation", "--store", "kb")
    assert [text.strip() for text in held("kb").values()] == [
        "are you coming?",
        "yes, by train",
        "bring the boat",
    ]
    with Millgate.open("kb") as gate:
        assert gate.index("main").conversational


@pytest.mark.parametrize("data", ['{"text": "yes, by train"}\n{"text": "good"}\n', "yes\ngood\n"])
def test_what_comes_over_a_pipe_may_be_a_conversation(run, data):
    run("add", "-", "--conversation", "--store", "kb", input=data)
    assert len(held("kb")) == 2
    with Millgate.open("kb") as gate:
        assert gate.index("main").conversational


def test_what_looks_like_a_chat_is_none_if_it_is_said_to_be_documents(run, tmp_path):
    (tmp_path / "log.txt").write_text("[8 May 2023] Ann: words\n[9 May 2023] Bob: more\n" * 9)
    run("add", "log.txt", "--documents", "--store", "kb")
    assert len(held("kb")) == 1
    with Millgate.open("kb") as gate:
        assert not gate.index("main").conversational


def test_a_conversation_and_documents_at_once_are_refused(run, tmp_path):
    (tmp_path / "log.txt").write_text("words")
    with pytest.raises(InputError, match="not both"):
        run("add", "log.txt", "--documents", "--conversation", "--store", "kb")


def test_a_folder_without_files_is_said_to_have_none(run, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / ".hidden.md").write_text("words")
    result = run("add", "docs", "--store", "kb")
    assert result.exit_code == 1
    assert "no files in it but hidden or ignored ones" in result.stderr


@pytest.mark.parametrize("more", [0, 3])
def test_so_many_skips_are_listed_and_the_rest_is_counted(more):
    skips = tuple(Skip(f"file{n}", "is empty") for n in range(SHOWN + more))
    said = summarize(Summary(documents=1, chunks=2, skips=len(skips), skipped=skips))
    assert said.text.startswith("added 1 document (2 chunks changed)")
    assert said.note.count("is empty") == 1
    assert said.note.count("  file") == SHOWN
    assert (f"and {more} more; --json lists them" in said.note) is bool(more)


def test_a_path_that_is_not_there_leaves_no_store_behind(run, tmp_path):
    with pytest.raises(NotFound):
        run("add", "nothere")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_files_makes_no_store_and_prunes_one_that_is_there(run, tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    assert run("add", "docs").exit_code == 1
    assert list(tmp_path.iterdir()) == [docs]
    (docs / "a.txt").write_text("words")
    os.utime(docs / "a.txt", (1e9, 1e9))
    run("add", "docs")
    (docs / "a.txt").unlink()
    (docs / "b.txt").write_text("other words")
    told = run("add", "docs")
    assert "0 removed" in told.stdout
    assert "1 file gone, but still in the store: --prune removes such documents" in told.stderr
    assert "1 removed" in run("add", "docs", "--prune").stdout


def test_adding_again_says_that_nothing_has_changed(run, tmp_path):
    (tmp_path / "a.txt").write_text("words")
    run("add", "a.txt")
    assert "nothing has changed: 1 document, 0 skipped" in run("add", "a.txt").stdout


def test_watch_adds_what_changes_until_it_is_interrupted(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.txt").write_text("words")
    command = [sys.executable, "-m", "millgate", "add", "docs", "--watch", "--store", "kb"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(SRC)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline().startswith("added 1 document")
        assert "watching" in process.stderr.readline()
        (tmp_path / "docs/b.txt").write_text("more words")
        assert process.stdout.readline().startswith("added 1 document")
        assert held(tmp_path / "kb").keys() == {"docs/a.txt", "docs/b.txt"}
        process.send_signal(signal.SIGINT)
        assert process.wait(MOST_S) == 0
