"""The log of requests, a line each, and what a request saved, as lists of requests show it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import MOST_S

from millgate import Millgate
from millgate.explain.log import NAME, tokens_saved

ROWS = [{"id": "a", "text": "Refunds take five days."}, {"id": "b", "text": "-" * 900}]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_request_is_one_line_with_its_report(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(ROWS)
        context = gate.context("how do refunds work?")
    (line,) = lines(tmp_path / "kb" / NAME)
    assert line["trace"] == context.trace.id
    assert (line["kept"], line["tokens"]) == (1, context.token_estimate)
    assert line["total_candidates"] == line["kept"] + line["evicted"]
    assert [stage["stage"] for stage in line["stages"]] == [s.stage for s in context.trace.steps]
    assert "query" not in line


def test_the_file_is_rotated_and_old_ones_go(tmp_path):
    log = {"max_bytes": 2000, "backups": 2, "text": True}
    with Millgate.open(tmp_path / "kb", log=log) as gate:
        gate.add(ROWS)
        for n in range(15):
            gate.context(f"how do refunds work, {n}?")
    files = sorted(path.name for path in (tmp_path / "kb").glob(NAME + "*"))
    files.remove(NAME + ".lock")
    assert files == [NAME, NAME + ".1", NAME + ".2"]
    assert all((tmp_path / "kb" / name).stat().st_size <= 2000 for name in files)
    last = lines(tmp_path / "kb" / NAME)[-1]
    assert last["query"] == "how do refunds work, 14?"


@pytest.mark.parametrize("redact", [True, False])
def test_a_secret_in_a_query_is_not_written_unless_told_so(tmp_path, redact):
    secret = "mg_" + 43 * "x"
    with Millgate.open(tmp_path / "kb", redact=redact, log={"text": True}) as gate:
        gate.add(ROWS)
        gate.context(f"does {secret} get refunds?")
    (line,) = lines(tmp_path / "kb" / NAME)
    assert (secret in line["query"]) is not redact
    assert ("[redacted millgate-key" in line["query"]) is redact


WRITING = """
import sys
from millgate import Millgate
with Millgate.open(":memory:", log={"path": sys.argv[1], "max_bytes": 5000, "backups": 50}) as gate:
    gate.add([{"id": "a", "text": "Refunds take five days."}])
    for n in range(40):
        gate.context("how do refunds work?", session=f"{sys.argv[2]}-{n}")
"""


@pytest.mark.slow
def test_processes_that_share_a_file_lose_no_line(tmp_path):
    line = [sys.executable, "-c", WRITING, str(tmp_path / NAME)]
    writers = [subprocess.Popen([*line, name]) for name in "abc"]
    assert [writer.wait(MOST_S) for writer in writers] == [0, 0, 0]
    files = [path for path in tmp_path.glob(NAME + "*") if path.suffix != ".lock"]
    assert len(files) > 3
    written = sorted(entry["session_id"] for file in files for entry in lines(file))
    assert written == sorted(f"{name}-{n}" for name in "abc" for n in range(40))


def test_a_log_that_cannot_be_written_leaves_the_answer(tmp_path):
    with Millgate.open(tmp_path / "kb", log={"path": str(tmp_path / "no" / "where.log")}) as gate:
        gate.add(ROWS)
        context = gate.context("how do refunds work?")
    assert context.chunks
    assert any(line.startswith("log: not written") for line in context.degraded)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_store_in_memory_and_an_off_switch_write_nothing(tmp_path, monkeypatch, enabled):
    monkeypatch.chdir(tmp_path)
    with Millgate.open(
        ":memory:" if enabled else tmp_path / "kb", log={"enabled": enabled}
    ) as gate:
        gate.add(ROWS)
        gate.context("how do refunds work?")
    assert not list(tmp_path.rglob("*.log"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_costs_the_line_and_never_the_context(tmp_path):
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    with Millgate.open(tmp_path / "kb", log={"path": str(path)}) as gate:
        gate.add([{"id": "a", "text": "Ferries leave at six."}])
        for _ in range(3):
            context = gate.context("when do ferries leave?")
            assert context.chunks
            assert "log: not written" in context.degraded[0]
            assert "No space left" in context.degraded[0]
        path.unlink()
        assert not gate.context("when do ferries leave?").degraded
    assert path.read_text().count("\n") == 1


def test_a_stored_request_says_what_it_saved_in_its_row_and_its_last_stage():
    text = "Refunds are paid within 14 days to the card."
    with Millgate.open(":memory:") as gate:
        gate.add(
            [{"id": "a", "text": text}, {"id": "b", "text": "Send a photo of the refund label."}]
        )
        made = gate.context("refunds", window=[text], budget=500).trace
        (row,) = gate.traces()
        assert row.saved == tokens_saved(made) > 0
        assert gate.trace(row.id).steps[-1].facts["saved_tokens"] == row.saved
        assert "saved_tokens" not in made.steps[-1].facts, "the caller's own trace stays as it is"


def test_noise_that_was_not_sent_saves_nothing():
    rows = [
        {"id": f"n{n}", "text": f"The refund of parcel {n} left by rail on day {n}."}
        for n in range(40)
    ]
    rows.append({"id": "a", "text": "Refunds are paid within 14 days to the card."})
    with Millgate.open(":memory:") as gate:
        gate.add(rows)
        made = gate.context("when are refunds paid to the card?", budget=500)
        assert any(candidate.dropped for candidate in made.trace.candidates)
        assert tokens_saved(made.trace) == 0
