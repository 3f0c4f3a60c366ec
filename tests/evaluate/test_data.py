"""What `make data` makes: labels that hold, on a machine that has only this repository."""

import json
import random

import pytest
from bench import data
from click.testing import CliRunner

from millgate.cli.evaluate import evaluation
from millgate.evaluate.guard import read as read_streams
from millgate.evaluate.labeled import read
from millgate.evaluate.shown import Piece, holds_answer


def read_set(folder, name, made):
    data.write_set(folder / name, *made)
    return read(folder / name)


def holds(labeled, query):
    texts = {row["id"]: row["text"] for row in labeled.rows}
    shown = [Piece(id, "", texts[id], True, 1.0) for id in labeled.labels[query["_id"]]]
    return holds_answer(shown, labeled.answers[query["_id"]])


def test_nearly_every_question_about_the_docs_is_answered_there(tmp_path, capsys):
    labeled = read_set(tmp_path, "docs", data.label_pages("docs", data.read_docs()))
    asked = [q for q in data.read_questions("docs") if q.get("answerable", True)]
    assert len(labeled.queries) >= 0.8 * len(asked), capsys.readouterr().err
    assert len(labeled.unanswerable) == 10
    assert all(holds(labeled, query) for query in labeled.queries)


def test_pythons_reference_answers_most_of_its_questions_whatever_its_version(tmp_path):
    labeled = read_set(tmp_path, "python", data.label_pages("python", data.read_python()))
    assert len(labeled.queries) >= 40
    assert all(holds(labeled, query) for query in labeled.queries)
    assert len({row["text"] for row in labeled.rows}) > 300


def test_every_question_about_the_chat_names_the_line_that_answers(tmp_path):
    labeled = read_set(tmp_path, "chat", data.label_chat())
    assert len(labeled.queries) == 30
    assert all(holds(labeled, query) for query in labeled.queries)


def test_a_question_whose_answer_is_gone_is_left_out_and_named(tmp_path, capsys):
    rows = [{"_id": "a", "title": "", "text": "x"}]
    asked = [{"_id": "q0", "text": "where?", "answers": ["y"]}, {"_id": "q1", "text": "who?", "answers": ["x"]}]  # fmt: skip
    data.write_set(tmp_path / "one", rows, asked, {"q0": [], "q1": ["a"]})
    assert [query["_id"] for query in read(tmp_path / "one").queries] == ["q1"]
    assert "no section holds the answer to 'where?'" in capsys.readouterr().err


@pytest.fixture
def texts():
    return ["\n\n".join(text for _, text in sections) for sections in data.read_docs().values()]


def test_a_loop_repeats_from_its_onset_to_the_end_and_not_before(texts):
    dice = random.Random(1)
    for _ in range(30):
        text, label = data.make_loop(dice, texts)
        onset, period = label["loop"]["onset"], label["loop"]["period"]
        assert text[onset:-period] == text[onset + period :]
        assert onset == 0 or text[onset - 1] != text[onset - 1 + period]
        assert len(text) - onset >= max(6 * period, 300)


def test_streams_are_the_same_in_every_run_and_of_every_kind(texts, tmp_path):
    for name in ("one", "two"):
        data.write_streams(tmp_path / name, texts)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    streams = list(read_streams(tmp_path / "one"))
    assert sum(stream.clean for stream in streams) == 150
    assert sum(stream.loop is not None for stream in streams) == 150
    assert sum(stream.brief for stream in streams) == 40
    lines = (tmp_path / "one").read_text().splitlines()
    assert "".join(json.loads(lines[0])["chunks"]) == "".join(streams[0].chunks)


@pytest.mark.slow
def test_the_figures_of_the_readme_can_be_printed(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["data", str(tmp_path)])
    data.main()
    command = ["retrieval", str(tmp_path / "retrieval"), "--budget", "1000", "--json"]
    found = json.loads(CliRunner().invoke(evaluation, command).stdout)
    assert found["sets"].keys() == {"chat", "code-std", "docs", "python"}
    mean = found["mean"]
    assert mean["context_evidence@1000"] > mean["bm25_context_evidence@1000"]
    assert mean["answers@1000"] > mean["bm25_answers@1000"]
    command = ["guard", str(tmp_path / "streams.jsonl"), "--json"]
    stopped = json.loads(CliRunner().invoke(evaluation, command).stdout)
    assert (stopped["found_long"], stopped["clean_cut"]) == (150, 0)
