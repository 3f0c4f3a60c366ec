"""Evidence against tokens sent."""

import json

import pytest
from bench import ablation, curve
from bench.curve import BM25, FLOOR, FLOORS, LEVELS, PLAIN, draw, mean

from millgate.evaluate.labeled import Labeled, StoredSet

HARBOR = "The harbor master of Porto keeps the keys of the old lighthouse."
ROWS = [
    {"id": "key", "title": "", "text": HARBOR, "collection": "main"},
    *(
        {"id": f"n{n}", "title": "", "text": f"Harbor number {n} has {n} cranes and a pier.", "collection": "main"}
        for n in range(12)
    ),
]  # fmt: skip
QUERIES = [{"_id": "q", "text": "who keeps the keys of the lighthouse in the harbor"}]
SET = Labeled("harbors", ROWS, QUERIES, {"q": {"key": 1}}, {"q": ["harbor master"]})


@pytest.fixture(scope="module")
def points():
    with StoredSet(SET) as stored:
        return draw(stored, budget=300)


def test_every_rule_has_a_point_at_every_level(points):
    plain = [(rule, level) for rule in (BM25, PLAIN) for level in LEVELS]
    assert [*points] == [*plain, *((FLOOR, floor) for floor in FLOORS)]


def test_a_cut_sends_less_and_keeps_the_best(points):
    rows = {(row["rule"], row["level"]): row for row in mean([points])}
    for rule, levels in ((BM25, LEVELS), (PLAIN, LEVELS), (FLOOR, FLOORS)):
        sent = [rows[rule, level]["tokens"] for level in levels]
        assert sent == sorted(sent, reverse=True)
        assert sent[-1] < sent[0]
        assert rows[rule, 0.0]["saved"] == 0
        last = rows[rule, levels[-1]]
        assert last["saved"] == pytest.approx(1 - sent[-1] / sent[0])
        assert last["context_evidence"] == last["answers"] == 1.0
    assert rows[PLAIN, 0.0] == rows[FLOOR, 0.0] | {"rule": PLAIN}


def test_the_mean_weighs_each_set_the_same(points):
    empty = {point: type(tally)() for point, tally in points.items()}
    for tally in empty.values():
        for _ in range(9):
            tally.add({"context_evidence": 0.0, "tokens": 0.0})
    first = mean([points, empty])[0]
    assert first["context_evidence"] == 0.5
    assert first["answers"] == 1.0  # of the one set that has answers


def test_the_script_prints_a_line_for_each_level(tmp_path, monkeypatch, capsys):
    rows = [{**row, "_id": row["id"]} for row in ROWS]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "queries.jsonl").write_text(json.dumps(QUERIES[0]))
    (tmp_path / "qrels.tsv").write_text("query\tpassage\tgrade\nq\tkey\t1\n")
    for main, last in ((curve.main, FLOOR), (ablation.main, "grade")):
        monkeypatch.setattr("sys.argv", ["bench", str(tmp_path), "--budget", "200"])
        main()
        shown = capsys.readouterr().out.strip().splitlines()
        assert "at 200 tokens" in shown[0]
        assert shown[-1].startswith(last)
