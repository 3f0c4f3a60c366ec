"""`headgate test`, as a person or a CI job runs it."""

import json
import xml.etree.ElementTree as ET

import pytest

from headgate import Headgate

QUESTION = "when do parcels leave?"


@pytest.fixture
def store(run):
    with Headgate.open("kb") as hg:
        hg.add([
            {"id": "parcels", "text": "Parcels leave the warehouse every weekday at noon."},
            {"id": "refunds", "text": "Refunds are paid within 14 days."},
        ])  # fmt: skip
        return hg.context(QUESTION).trace.id


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
