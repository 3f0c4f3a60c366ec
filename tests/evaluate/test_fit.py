"""The model of relevance, fitted on some sets and tried on another."""

import json
import random

import numpy as np
import pytest
from bench.retrieval import fit_without
from click.testing import CliRunner

from millgate.cli.evaluate import evaluation
from millgate.evaluate.fit import (
    _RIDGE,
    REFUSED,
    Asked,
    _balance,
    _regress,
    as_data,
    fit,
)
from millgate.ranking.model import KNOWS, read_model

NONE = dict.fromkeys(KNOWS, 0.5) | {"bias": 1.0}


def asks(*names, own=0.8, away=0.2):
    """Questions whose cover tells where they belong, and rankings whose best chunk is mostly evidence."""
    dice = random.Random(3)
    rows = []
    for name in names:
        for source in [name] * 60 + ["elsewhere"] * 60:
            mine = source == name
            features = NONE | {"cover": dice.gauss(own if mine else away, 0.1)}
            scores = np.array([1.0, *(0.7 * dice.random() for _ in range(19))])
            labeled = np.zeros(20)
            if mine:
                labeled[0 if dice.random() < 0.8 else 1] = 1.0
            rows.append(Asked(name, source, features, scores, labeled))
    return rows


def known(model, rows):
    return [model.chance_known(one.features) for one in rows]


def test_a_fit_tells_answerable_questions_from_foreign_ones():
    rows = asks("a", "b", "c")
    model = fit(rows)
    own = [chance < model.lower for chance in known(model, [r for r in rows if r.answerable])]
    away = [chance < model.lower for chance in known(model, [r for r in rows if not r.answerable])]
    assert sum(own) / len(own) <= REFUSED
    assert sum(away) / len(away) > 0.8


def test_a_fit_gives_the_best_chunk_about_the_chance_that_it_has():
    rows = [one for one in asks("a", "b", "c") if one.answerable]
    model = fit(asks("a", "b", "c"))
    best = [model.chances_held(one.features, model.shares(one.scores))[0] for one in rows]
    assert np.mean(best) == pytest.approx(0.8, abs=0.12)


def test_a_set_is_left_out_with_its_texts_and_its_questions():
    strange = [Asked("a", "odd", NONE, np.ones(2), np.zeros(2))] * 500
    odd = asks("odd", own=0.0, away=1.0)
    assert fit_without("odd", [*asks("a", "b"), *odd, *strange]) == fit(asks("a", "b"))


def test_few_questions_leave_the_shipped_weights_nearly_as_they_are():
    shipped = read_model()
    few = fit(asks("a")[:2], start=shipped)
    assert few.knows == pytest.approx(shipped.knows, abs=0.5)


def test_the_ridge_pulls_weights_toward_where_they_start():
    x = np.array([[1.0, 1.0], [1.0, -1.0]] * 20)
    y = np.array([1.0, 0.0] * 20)
    for start in (0.0, 2.0):
        made = _regress(x, y, np.ones(40), {"bias": 0.0, "x": start}, ["bias", "x"])
        w = np.array([made["bias"], made["x"]])
        # at the optimum the pull of the data equals that of the ridge
        p = 1 / (1 + np.exp(-x @ w))
        assert (x.T @ (y - p))[1] == pytest.approx(_RIDGE * (w[1] - start), rel=1e-4)
        assert abs(w[0]) < 1e-6


def test_each_set_and_in_it_each_kind_weighs_the_same():
    cells = [("a", True), ("a", True), ("a", False), ("b", True)]
    assert _balance(cells).tolist() == [50.0, 50.0, 100.0, 100.0]


def test_the_command_writes_weights_that_can_be_used(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    rows = [{"_id": f"r{n}", "text": f"The pump of harbor {n} was built by {who}."} for n, who in
            enumerate(("Ann", "Ben", "Cleo", "Dora", "Emil"))]  # fmt: skip
    queries = [{"_id": f"q{n}", "text": f"who built the pump of harbor {n}"} for n in range(5)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    labels = "\n".join(f"q{n}\tr{n}\t1" for n in range(5))
    (folder / "qrels.tsv").write_text(f"query\tpassage\tgrade\n{labels}\n")
    out = tmp_path / "weights.json"
    made = CliRunner().invoke(evaluation, ["fit", str(folder), "--out", str(out)])
    assert made.exit_code == 0, made.output
    assert "log_share" in made.output
    model = read_model(out)
    assert model.about["sets"] == ["set"]
    assert as_data(model)["knows"] == json.loads(out.read_text())["knows"]
