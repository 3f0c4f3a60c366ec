"""Judgments of a user's own questions: read from test files and reviews, and fitted on."""

import json

import pytest
from click.testing import CliRunner

from millgate import Millgate
from millgate.cli.evaluate import evaluation
from millgate.errors import InputError
from millgate.evaluate.fit import OWN, REJECTED, compare, observe_judged, read_judgments
from millgate.ranking.model import read_model

TOPICS = ("refunds", "shipping", "invoices", "warranty", "passwords", "vouchers", "returns")


@pytest.fixture
def store(tmp_path):
    """A folder with a store of seven short texts, whose reviews hold two approvals and a rejection."""
    place = tmp_path / "kb"
    with Millgate.open(place) as gate:
        texts = [
            f"Our {topic} desk opens at {n + 8} in hall {n}." for n, topic in enumerate(TOPICS)
        ]
        gate.add([{"id": t, "text": text} for t, text in zip(TOPICS, texts, strict=True)])
        ask = gate.reviews.ask
        for topic in ("refunds", "shipping"):
            query = f"When does the {topic} desk open?"
            gate.reviews.approve(ask(query, collection="main", grades={topic: 0.4}, reason="").id)
        wrong = ask("How tall is the shipping tower?", collection="main", grades={"shipping": 0.1}, reason="")  # fmt: skip
        gate.reviews.reject(wrong.id)
        other = ask("Who sells invoices?", collection="main", grades={"invoices": 0.3}, reason="")
        gate.reviews.answer(other.id, "Nobody.")
    return place


@pytest.fixture
def tests_file(tmp_path):
    """A file of tests for five of the texts, and one test that names no chunk."""
    file = tmp_path / "context.toml"
    tests = [
        f'[[test]]\nquestion = "In which hall is the {t} desk?"\nmust = ["{t}"]' for t in TOPICS[2:]
    ]
    file.write_text("\n".join([*tests, '[[test]]\nquestion = "x"\ncontains = ["x"]']))
    return file


def test_tests_and_decided_reviews_are_judgments(store, tests_file):
    with Millgate.open(store) as gate:
        found = read_judgments(gate, [tests_file])
        asked = [one for judgment in found for one in observe_judged(gate, judgment)]
    assert [right for _, right in found] == [*((t,) for t in TOPICS[2:]), *((t,) for t in TOPICS[:2]), ()]  # fmt: skip
    assert [one.source for one in asked] == [OWN] * 7 + [REJECTED]
    assert [one.labeled.sum() for one in asked] == [1] * 7 + [0]


def test_too_few_judgments_are_an_error_that_says_how_to_make_some(store):
    with Millgate.open(store) as gate, pytest.raises(InputError, match="fewer than 5") as caught:
        read_judgments(gate, [])
    assert "--record" in caught.value.hint


def test_contexts_are_compared_before_and_after(store, tests_file, tmp_path):
    with Millgate.open(store) as gate:
        found = read_judgments(gate, [tests_file])
        before, after = compare(gate, found, start=read_model(), folder=tmp_path)
        assert not gate.traces(limit=10)  # comparing leaves no traces behind
    for outcomes in (before, after):
        assert (outcomes["evidence"], outcomes["empty"]) == (1.0, 0.0)
        assert outcomes["tokens"] > 0


def test_the_command_writes_weights_that_can_be_used(store, tests_file, tmp_path):
    out = tmp_path / "weights.json"
    asked = ["fit", "--from-feedback", str(tests_file), "--store", str(store), "--out", str(out)]
    printed = CliRunner().invoke(evaluation, asked, catch_exceptions=False).output
    assert "7 questions with chunks that are right, 1 rejected" in printed
    assert "before  after" in printed
    data = json.loads(out.read_text())
    assert data["held_out"].keys() == {"before", "after"}
    model, shipped = read_model(out), read_model()
    assert model.lower <= shipped.lower  # a handful of questions refuses no more than before
    assert model.knows == pytest.approx(shipped.knows, abs=1)
    with Millgate.open(store, grade={"weights": str(out)}) as gate:
        assert gate.context("When does the refunds desk open?").chunks[0].id == "refunds"


def test_nothing_to_fit_on_is_an_error():
    result = CliRunner().invoke(evaluation, ["fit"])
    assert isinstance(result.exception, InputError)
