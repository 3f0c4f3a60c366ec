"""What each part of retrieval is worth."""

import math

import pytest
from bench.ablation import AS_SHIPPED, BM25, PARTS, compare, differences

from millgate.evaluate.labeled import Labeled, StoredSet
from millgate.evaluate.retrieval import Run
from millgate.settings import load

ROWS = [
    {"id": "a", "title": "", "text": "The Vega turbine was built by Marta Dias.", "collection": "main"},
    {"id": "b", "title": "", "text": "Marta Dias was born near Porto.", "collection": "main"},
    {"id": "c", "title": "", "text": "Rivers carry water to the sea.", "collection": "main"},
]  # fmt: skip
SET = Labeled("tiny", ROWS, [{"_id": "q", "text": "who built the Vega turbine"}], {"q": {"a": 1}})


def run_of(*values, seconds=0.004):
    run = Run(SET, seconds=[seconds])
    for value in values:
        run.ours.add({"ndcg@10": value, "part_answers@500": value})
        run.bm25.add({"ndcg@10": 0.0})
    return run


@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_switched_off_by_settings_that_exist(part):
    assert load(arguments=dict(PARTS[part])) != load(arguments={}) or part == "floor"


def test_a_row_has_the_difference_and_its_error():
    sets = [
        {AS_SHIPPED: run_of(1.0, 0.5), "names": run_of(0.5, 0.5, seconds=0.002)},
        {AS_SHIPPED: run_of(1.0, 1.0), "names": run_of(1.0, 1.0, seconds=0.004)},
    ]
    shipped, bm25, names = differences(sets)
    assert [row["without"] for row in (shipped, bm25, names)] == [AS_SHIPPED, BM25, "names"]
    assert shipped["ndcg@10"] == {"value": 0.875, "change": 0.0, "error": 0.0}
    assert bm25["ndcg@10"]["change"] == -0.875
    assert "p50_ms" not in bm25
    assert names["ndcg@10"]["value"] == 0.75
    assert names["ndcg@10"]["change"] == -0.125
    alone = math.sqrt(0.125) / math.sqrt(2)  # the standard error in the first set
    assert names["ndcg@10"]["error"] == pytest.approx(alone / 2)
    assert names["p50_ms"] == pytest.approx(3.0)
    assert "part_answers@500" not in names  # not of the same questions


def test_a_set_is_asked_as_it_ships_and_without_each_part():
    with StoredSet(SET) as stored:
        runs = compare(stored, ["names", "grade"], budget=200)
    assert [*runs] == [AS_SHIPPED, "names", "grade"]
    assert all(run.figures()["context_evidence@200"] == 1.0 for run in runs.values())
