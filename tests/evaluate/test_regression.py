"""Regression tests for context: what is recorded holds, and what no longer enters is explained."""

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate import InputError, Millgate
from millgate.evaluate.regression import (
    Case,
    Recorded,
    as_toml,
    case_of,
    describe,
    junit,
    read_cases,
    record_case,
    run_case,
)

ROWS = [
    {"id": "refunds", "text": "Refunds are paid within 14 days to the card that was charged."},
    {"id": "parcels", "text": "Parcels leave the warehouse every weekday at noon."},
    {"id": "gifts", "text": "Gift cards are not refunded; their value moves to a new card."},
]


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as gate:
        gate.add(ROWS)
        yield gate


def test_what_was_recorded_passes(gate):
    case = record_case(gate, "when are refunds paid?", budget=300, collection="main")
    assert "refunds" in case.must
    assert run_case(gate, case).failures == ()


def test_a_recorded_trace_keeps_its_window(gate):
    trace = gate.context("when are refunds paid?", window=["user: hello"], budget=200, k=1).trace
    case = case_of(gate, trace)
    assert (case.window, case.budget, case.k) == (("user: hello",), 200, 1)


def test_a_chunk_that_no_longer_fits_is_named_with_the_budget_that_admits_it(gate):
    case = Case("when are refunds paid?", must=("refunds",), budget=20)
    (failure,) = run_case(gate, case).failures
    assert (failure.kind, failure.what) == ("missing", "refunds")
    budget = int(failure.change.removeprefix("it would enter with budget = ").split()[0])
    assert run_case(gate, Case(case.question, must=case.must, budget=budget)).failures == ()
    assert run_case(gate, Case(case.question, must=case.must, budget=budget - 1)).failures != ()


def test_a_document_that_is_gone_is_said_to_be_gone(gate):
    case = record_case(gate, "when are refunds paid?", budget=300, collection="main")
    gate.remove(documents=["refunds"])
    outcome = run_case(gate, case)
    assert "nothing in collection 'main' has that id" in outcome.failures[0].why
    assert "refunds is gone" in outcome.since


def test_a_changed_text_and_a_changed_setting_are_named(gate):
    case = record_case(gate, "when are refunds paid?", budget=300, collection="main")
    rows = [{**ROWS[0], "text": "Nothing to see."}, *ROWS[1:]]
    with Millgate.open(":memory:", gate={"min_ratio": 0.01}) as other:
        other.add(rows)
        since = run_case(other, case).since
    assert "the text of refunds has changed" in since
    assert "gate.min_ratio was default and is 0.01" in since


def test_a_release_that_changed_is_named(gate):
    case = Case("when are refunds paid?", must=("zebra",), recorded=Recorded("0.0.1"))
    assert run_case(gate, case).since[0].startswith("millgate 0.0.1 is now ")


def test_what_must_not_enter_and_what_must_be_said(gate):
    question = "when are refunds paid?"
    assert (
        run_case(gate, Case(question, must_not=("parcels*",), contains=("14 days",))).failures == ()
    )
    failures = run_case(gate, Case(question, must_not=("ref*",), contains=("zebra",))).failures
    assert [failure.kind for failure in failures] == ["entered", "text"]
    assert "[1]" in failures[0].why


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(TEXT, st.lists(TEXT, min_size=1, max_size=4), st.lists(TEXT, max_size=3), st.integers(0, 9999))  # fmt: skip
def test_a_test_is_read_as_it_was_written(tmp_path_factory, question, must, window, budget):
    case = Case(
        question, question, tuple(must), window=tuple(window), budget=budget,
        recorded=Recorded("1", {"a.b": "c"}, dict.fromkeys(must, "x")),
    )  # fmt: skip
    file = tmp_path_factory.mktemp("t") / "t.toml"
    file.write_text(as_toml(case), encoding="utf-8")
    assert read_cases(file) == [case]


def test_what_stands_above_the_tests_holds_for_all(tmp_path):
    file = tmp_path / "t.toml"
    file.write_text('budget = 70\n[[test]]\nquestion = "a"\nmust = ["x"]\n'
                    '[[test]]\nquestion = "b"\nbudget = 9\ncontains = ["x"]\nwindow = "w"\n')  # fmt: skip
    one, two = read_cases(file)
    assert (one.budget, two.budget, two.window) == (70, 9, ("w",))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[test]", "is not valid TOML"),
        ("", "holds no tests"),
        ('[[test]]\nquestion = "a"\n', "test 1 expects nothing"),
        ('[[test]]\nmust = ["a"]\n', "test 1: question"),
        ('[[test]]\nquestion = "a"\nmsut = ["a"]\n', "'msut' is unknown"),
        ('budgte = 3\n[[test]]\nquestion = "a"\nmust = ["a"]\n', "'budgte' is unknown"),
        ("test = [1]", "holds no tests"),
        ("a = " + "[" * 5_000, "not valid TOML"),
    ],
)
def test_a_file_with_a_mistake_says_where(tmp_path, text, said):
    file = tmp_path / "t.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        read_cases(file)


def test_the_report_is_xml_that_names_failures(gate):
    good = run_case(gate, Case("when are refunds paid?", "good", must=("refunds",)))
    bad = run_case(gate, Case("when are refunds paid?", "bad \x00 <name>", must=("refunds",), budget=20))  # fmt: skip
    root = ET.fromstring(junit([good, bad], suite="kb"))
    suite = root.find("testsuite")
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    passed, failed = suite.findall("testcase")
    assert passed.find("failure") is None
    assert "would enter with budget" in failed.find("failure").text
    assert describe(bad)[0].startswith("refunds does not enter")


def test_a_test_that_passes_still_says_that_its_document_has_changed(gate):
    case = record_case(gate, "How long do refunds take?", budget=400, collection="main")
    gate.add(
        [{"id": case.must[0], "text": "Refunds take 15 days now, and refunds are paid by card."}]
    )
    outcome = run_case(gate, case)
    assert outcome.failures == ()
    assert f"the text of {case.must[0]} has changed" in outcome.since
