"""`millgate test`, as a person or a CI job runs it."""

import json
import xml.etree.ElementTree as ET

import pytest

from millgate import Millgate

QUESTION = "when do parcels leave?"


@pytest.fixture
def store(run):
    with Millgate.open("kb") as gate:
        gate.add([
            {"id": "parcels", "text": "Parcels leave the warehouse every weekday at noon."},
            {"id": "refunds", "text": "Refunds are paid within 14 days."},
        ])  # fmt: skip
        return gate.context(QUESTION).trace.id


def test_a_recorded_question_passes_until_the_corpus_changes(run, store, tmp_path):
    code, out, _ = run("test", "t.toml", QUESTION, "--record", "--store", "kb")
    assert (code, out) == (0, f"recorded: {QUESTION} -> parcels\n")
    assert run("test", "t.toml", "--store", "kb")[:2] == (
        0,
        f"ok    {QUESTION}\n1 passed, 0 failed\n",
    )
    run("store", "remove", "parcels", "--store", "kb")
    code, out, _ = run("test", "t.toml", "--store", "kb", "--junit", "out.xml")
    assert code == 1
    assert "parcels does not enter" in out
    assert out.startswith(f"FAIL  {QUESTION}\n      ")
    assert out.endswith("\n0 passed, 1 failed\n")
    assert "since it was recorded: parcels is gone" in out
    assert ET.parse(tmp_path / "out.xml").getroot().find("testsuite").get("failures") == "1"


def test_a_trace_is_recorded_by_the_beginning_of_its_id(run, store, tmp_path):
    run("test", "t.toml", QUESTION, "--record", "--store", "kb")
    assert run("test", "t.toml", "--record", "--trace", store[:7], "--store", "kb")[0] == 0
    rows = json.loads(run("test", "t.toml", "--store", "kb", "--json")[1])
    assert [(row["question"], row["passed"]) for row in rows] == [(QUESTION, True)] * 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["gone.toml"], "cannot read gone.toml"),
        (["t.toml", "a question"], "add --record"),
        (["t.toml", "--record"], "nothing to record"),
        (["t.toml", "--record", "zebra xylophone"], "nothing enters for"),
    ],
)
def test_what_is_wrong_is_said(run, store, tmp_path, args, said):
    code, _, err = run("test", *args, "--store", "kb")
    assert code == 2
    assert said in err
    assert not (tmp_path / "t.toml").exists()


def test_tests_that_pass_and_fail_are_counted_apart(run, store, tmp_path):
    passing = '[[test]]\nquestion = "when do parcels leave?"\nmust = ["parcels"]\n'
    failing = '[[test]]\nquestion = "when are refunds paid?"\nmust_not = ["refunds"]\n'
    (tmp_path / "t.toml").write_text(passing * 2 + failing)
    code, out, _ = run("test", "t.toml", "--store", "kb")
    assert code == 1
    assert out.endswith("\n2 passed, 1 failed\n")


ASKED = [{"role": "user", "content": "Mend the parser."}]
ANSWERED = [*ASKED, {"role": "assistant", "content": "Which?"}, {"role": "user", "content": "Ours."}]  # fmt: skip


def write_requests(path, *requests):
    lines = (json.dumps({"request": {"model": "m", "messages": said}}) for said in requests)
    path.write_text("\n".join(lines) + "\n")


def test_requests_that_only_add_pass(run, tmp_path):
    write_requests(tmp_path / "r.jsonl", ASKED, ANSWERED)
    code, out, _ = run("test", "r.jsonl")
    assert code == 0
    assert out.endswith(": 2 requests\n1 passed, 0 failed\n")


def test_the_first_request_that_changes_something_fails_with_its_name(run, tmp_path):
    changed = [ANSWERED[0], {"role": "assistant", "content": "Which one?"}, *ANSWERED[2:]]
    write_requests(tmp_path / "r.jsonl", ASKED, ANSWERED, [*changed, *ASKED])
    code, out, _ = run("test", "r.jsonl")
    assert code == 1
    assert (
        '      request 3: message 2 (assistant: "Which?") was changed, now assistant: "Which one?"\n'
        in out
    )
    (row,) = json.loads(run("test", "r.jsonl", "--json")[1])
    assert (row["passed"], row["broken_at"]) == (False, 3)


@pytest.mark.parametrize(
    ("text", "args", "said"),
    [
        ("{}\n", (), "holds no request"),
        (None, (), "there is no file"),
        ("{}\n", ("a question", "--record"), "is a file of requests"),
    ],
)
def test_what_is_wrong_with_a_file_of_requests_is_said(run, tmp_path, text, args, said):
    if text is not None:
        (tmp_path / "r.jsonl").write_text(text)
    code, _, err = run("test", "r.jsonl", *args)
    assert code == 2
    assert said in err
