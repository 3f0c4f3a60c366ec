"""Retrieval measured on labeled data."""

import json
import math

import pytest
from bench import retrieval as bench
from bench.fixtures.published_gating import PublishedGating
from click.testing import CliRunner

from millgate.cli.evaluate import evaluation
from millgate.errors import InputError
from millgate.evaluate.labeled import (
    SETTINGS,
    Labeled,
    StoredSet,
    copies,
    read,
    sample,
    sets,
)
from millgate.evaluate.retrieval import (
    Run,
    evaluate,
    find_missed,
    foreign,
    rank_figures,
    ranking_of,
)
from millgate.evaluate.shown import fill, order_by_value, size
from millgate.gateway import Millgate
from millgate.pipeline.stages.propagate import propagate
from millgate.pipeline.stages.retrieve import retrieve
from millgate.types import Candidate, Chunk

CORPUS = [
    {"_id": "a", "title": "Vega", "text": "The Vega turbine was built in Lisbon by Marta Dias."},
    {"_id": "b", "title": "", "text": "A harbor contract was signed in the spring."},
    {"_id": "c", "title": "", "text": "Rivers carry water to the sea, and turbines turn."},
    {"_id": "d", "title": "", "text": "Marta Dias was born near Porto, they say."},
]
QUERIES = [
    {"_id": "q1", "text": "who built the Vega turbine"},
    {"_id": "q2", "text": "harbor contract"},
    {"_id": "q3", "text": "never labeled"},
    {"_id": "q4", "text": "submarine volcano"},
]
LABELS = "query\tpassage\tgrade\nq1\ta\t2\nq1\tc\t0\nq2\tb\t1\nq4\tc\t1\n"


def lines(rows):
    return "\n".join(json.dumps(row) for row in rows)


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "tiny"
    path.mkdir()
    (path / "corpus.jsonl").write_text(lines(CORPUS))
    (path / "queries.jsonl").write_text(lines(QUERIES))
    (path / "qrels.tsv").write_text(LABELS)
    return path


def measured(labeled, embedder="none", **how):
    with StoredSet(labeled, embedder) as stored:
        return evaluate(stored, **how)


def test_a_passage_is_shown_where_a_copy_of_it_is(folder):
    copy = {"_id": "b2", "title": "", "text": "A harbor contract was signed, in the spring!"}
    (folder / "corpus.jsonl").write_text(lines([*CORPUS, copy]))
    (folder / "qrels.tsv").write_text(f"{LABELS}q2\tb2\t1\n")
    figures = measured(read(folder), budgets=[500]).figures()
    assert figures["context_evidence@500"] == pytest.approx(2 / 3)
    assert figures["baselines"]["bm25"]["context_evidence@500"] == pytest.approx(2 / 3)


def test_copies_have_the_same_words_in_the_same_collection(folder):
    same = {"_id": "b2", "title": "", "text": "a harbor contract  was signed in the spring"}
    away = {**same, "_id": "b3", "collection": "other"}
    blank = [{"_id": f"blank{n}", "title": "", "text": " ... "} for n in range(2)]
    (folder / "corpus.jsonl").write_text(lines([*CORPUS, same, away, *blank]))
    assert copies(read(folder)) == {"b": {"b", "b2"}, "b2": {"b", "b2"}}


def test_figures_are_means_over_labeled_queries(folder):
    figures = measured(read(folder), budgets=[10, 500]).figures()
    assert figures["queries"] == 3
    assert figures["passages"] == 4
    assert figures["ndcg@10"] == pytest.approx(2 / 3)
    assert figures["recall@10"] == figures["evidence@500"] == pytest.approx(2 / 3)
    assert figures["evidence@10"] == 0  # both answers are longer than ten tokens
    assert figures["context_evidence@500"] == pytest.approx(2 / 3)
    assert figures["whole_evidence@500"] == pytest.approx(2 / 3)
    assert 0 < figures["tokens@500"] < 500
    assert "answers@500" not in figures  # the set has none
    assert figures["empty@500"] == pytest.approx(1 / 3)  # nothing holds a word of q4
    assert "stopped" not in figures  # there is no other set
    low, high = figures["intervals"]["ndcg@10"]
    assert low <= figures["ndcg@10"] <= high
    assert figures["baselines"]["bm25"]["recall@10"] == pytest.approx(2 / 3)
    assert figures["baselines"]["bm25"]["context_evidence@500"] == pytest.approx(2 / 3)
    assert figures["misses"] == [{"query": "q4", "text": "submarine volcano", "missed": {"c": 0}}]


def test_the_command_prints_the_figures_of_one_set_and_of_many(folder):
    one = CliRunner().invoke(evaluation, ["retrieval", str(folder), "--json", "--budget", "500"])
    many = CliRunner().invoke(evaluation, ["retrieval", str(folder.parent), "--json"])
    assert {"ndcg@10", "recall@10", "evidence@500", "context_evidence@500", "p50_ms", "p95_ms",
            "passages", "queries"} <= json.loads(one.stdout).keys()  # fmt: skip
    assert "evidence@4096" in json.loads(many.stdout)["sets"]["tiny"]


def test_the_published_pipeline_and_a_random_order_of_its_candidates_are_measured(folder):
    found = bench.published(read(folder), 500)
    assert found == dict.fromkeys(("BM25", "published", "random", "ours"), pytest.approx(2 / 3))


def test_the_published_pipeline_adds_what_shares_a_name_and_fills_by_entropy(folder):
    with StoredSet(read(folder)) as stored, stored.open() as gate:
        pipeline = PublishedGating(gate.index("main"))
        shown, _ = pipeline.fill({"_id": "q", "text": "Vega turbine"}, gate, 500)
        assert {"a", "d"} <= {row["id"] for row in shown}  # Marta Dias is in both
        entropies = [row["entropy"] for row in shown]
        assert entropies == sorted(entropies, reverse=True)
        assert pipeline.fill({"_id": "q", "text": "Vega turbine"}, gate, 3) == ([], [])


@pytest.fixture
def four(folder):
    for n in range(3):
        other = folder.parent / f"other{n}"
        other.mkdir()
        rows = [{"_id": "x", "text": f"Sorrel number {n} grows in the shade of the old mill."}]
        (other / "corpus.jsonl").write_text(lines(rows))
        (other / "queries.jsonl").write_text(lines([{"_id": "q", "text": f"sorrel number {n}"}]))
        (other / "qrels.tsv").write_text("query\tpassage\tgrade\nq\tx\t1\n")
    return folder.parent


def test_questions_of_other_sets_should_be_stopped(four):
    everyone = list(sets(four))
    run = measured(everyone[-1], budgets=[500], others=everyone)
    assert run.labeled.name == "tiny"
    assert run.figures()["stopped"] == 1  # no word of theirs stands here


@pytest.mark.slow
def test_each_set_can_be_judged_by_weights_fitted_without_it(four):
    runs = bench.held_out(list(sets(four)), [500], 2)
    found = {run.labeled.name: run.figures() for run in runs}
    assert found.keys() == {"tiny", "other0", "other1", "other2"}
    assert 0 <= found["tiny"]["context_evidence@500"] <= 2 / 3
    assert "calibration error over all pairs" in bench.bands([run.pairs for run in runs])


def test_the_command_measures_several_folders_and_their_mean(four):
    folders = [str(four / name) for name in ("tiny", "other0")]
    args = ["retrieval", *folders, "--budget", "500"]
    found = json.loads(CliRunner().invoke(evaluation, [*args, "--json"]).stdout)
    assert found["sets"].keys() == {"tiny", "other0"}
    assert found["mean"]["recall@10"] == pytest.approx((2 / 3 + 1) / 2)
    shown = CliRunner().invoke(evaluation, args).stdout
    assert "evidence: BM25" in shown
    assert "calibration error" in shown
    assert "mean" in shown


def test_a_sample_of_the_questions_is_the_same_in_every_run(folder):
    labeled = read(folder)
    few = sample(labeled, 2)
    assert len(few.queries) == 2
    assert few == sample(labeled, 2)
    assert sample(labeled, 3) == labeled
    assert sample(labeled, None) == labeled


def test_the_command_asks_as_many_questions_as_it_is_told(four):
    args = ["retrieval", str(four), "--budget", "500", "--questions", "1", "--json"]
    found = json.loads(CliRunner().invoke(evaluation, [*args, "--foreign", "2"]).stdout)["sets"]
    assert {figures["queries"] for figures in found.values()} == {1}
    none = json.loads(CliRunner().invoke(evaluation, [*args, "--foreign", "0"]).stdout)["sets"]
    assert "stopped" in found["tiny"]
    assert "stopped" not in none["tiny"]


def test_the_table_names_misses_when_asked(folder):
    shown = CliRunner().invoke(evaluation, ["retrieval", str(folder), "--misses"])
    assert "missed c (not found)" in shown.stdout


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("qrels.tsv", "heading\nq1\ta\n", "line 2"),
        ("queries.jsonl", '{"_id": 1}', "line 1"),
        ("corpus.jsonl", "\n\n{\n", r"corpus.jsonl, line 3: not JSON \(.* at column"),
    ],
)
def test_a_broken_set_is_named_by_file_and_line(folder, file, content, said):
    (folder / file).write_text(content)
    with pytest.raises(InputError, match=said):
        read(folder)


def test_a_folder_without_sets_is_refused(tmp_path):
    with pytest.raises(InputError, match="no labeled set"):
        list(sets(tmp_path))


def test_a_line_separator_inside_a_text_ends_no_row(folder):
    row = json.dumps({"_id": "a", "text": "one\u2028two"}, ensure_ascii=False)
    (folder / "corpus.jsonl").write_text(f"{row}\n\n", "utf-8")
    assert [row["text"] for row in read(folder).rows] == ["one\u2028two"]


def ranked(*names, text="x" * 40):
    return [Candidate(Chunk(f"{name}#{n}", text, document=name), 1.0 - n / 100) for n, name in enumerate(names)]  # fmt: skip


def test_ndcg_weighs_grades_and_places_by_the_formula():
    labels = {"a": 2, "b": 1, "z": 1}
    figures = rank_figures(ranked("x", "a", "a", "b"), labels)
    gain = 3 / math.log2(3) + 1 / math.log2(4)
    most = 3 / math.log2(2) + 1 / math.log2(3) + 1 / math.log2(4)
    assert figures["ndcg@10"] == pytest.approx(gain / most)
    assert figures["recall@10"] == pytest.approx(2 / 3)
    assert rank_figures(ranked("a", "b", "z"), labels)["ndcg@10"] == pytest.approx(1.0)


def test_recall_looks_at_ten_documents():
    names = [f"n{n}" for n in range(12)]
    figures = rank_figures(ranked(*names), {"n4": 1, "n5": 1, "n9": 1, "n10": 1})
    assert figures["recall@10"] == 0.75


def test_a_missed_passage_is_named_with_its_place():
    names = [f"n{n}" for n in range(12)]
    found = find_missed(ranked(*names), {"n9": 1, "n10": 1, "n11": 1, "zz": 1})
    assert found == {"n10": 11, "n11": 12, "zz": 0}


@pytest.mark.parametrize(("budget", "count"), [(9, 0), (10, 1), (19, 1), (20, 2)])
def test_a_budget_is_filled_to_its_last_token(budget, count):
    assert len(fill(ranked("a", "b", "c"), budget, size)) == count


def test_short_passages_go_first_but_not_in_talk():
    short = Candidate(Chunk("s", "x" * 40, document="s"), 0.9)
    long = Candidate(Chunk("l", "x" * 400, document="l"), 1.0)
    assert [c.chunk.id for c in order_by_value([long, short], talk=True)] == ["l", "s"]
    assert [c.chunk.id for c in order_by_value([long, short], talk=False)] == ["s", "l"]
    titled = Candidate(Chunk("t", "x" * 40, document="t", title="abcdef"), 1.0)
    assert (size(short), size(titled)) == (10, 12)


def test_times_are_milliseconds_and_none_are_zero():
    run = Run(Labeled("own", [], [], {}), seconds=[0.002, 0.004])
    run.ours.add({"recall@10": 1.0})
    figures = run.figures()
    assert (figures["p50_ms"], figures["p95_ms"]) == (pytest.approx(3.0), pytest.approx(3.9))
    run.seconds.clear()
    assert run.figures()["p50_ms"] == 0.0


def test_foreign_questions_come_from_every_other_set_in_turn():
    def labeled(name, *texts):
        return Labeled(name, [{"collection": "main"}], [{"_id": t, "text": t} for t in texts], {})

    own, other, third, empty = labeled("own", "q"), labeled("other", "a"), labeled("third", "b"), labeled("empty")  # fmt: skip
    asked = foreign(own, [own, other, empty, third], 5)
    assert [(source, text) for _, source, text in asked] == [("other", "a"), ("third", "b")] * 2 + [("other", "a")]  # fmt: skip
    assert foreign(own, [own, empty], 5) == []


@pytest.mark.parametrize(("most", "left"), [(None, 3), (4, 3), (3, 3), (2, 2)])
def test_a_sample_is_drawn_if_there_are_more_questions(folder, most, left):
    assert len(sample(read(folder), most).queries) == left


def test_no_embedder_means_none_whatever_is_set(folder, monkeypatch):
    monkeypatch.setenv("MILLGATE_EMBED__MODEL", "/no/such/folder")
    assert measured(read(folder), budgets=[500]).ours.values
    monkeypatch.setenv("MILLGATE_EMBED__MODEL", "none")
    assert measured(read(folder), embedder=SETTINGS, budgets=[500]).ours.values


def test_the_ranking_in_a_trace_is_that_of_the_stages():
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": row["_id"], "title": row["title"], "text": row["text"]} for row in CORPUS])
        view = gate.index()
        found = retrieve("Marta Dias turbine", view, gate.settings.retrieve)
        wanted = propagate(found, "Marta Dias turbine", view, gate.settings.propagate).kept
        given = gate.context("Marta Dias turbine", budget=60)
    assert [c.chunk.id for c in ranking_of(given)] == [c.chunk.id for c in wanted]


def test_settings_change_what_is_measured(folder):
    refused = {"grade": {"lower": 1.0, "upper": 1.0}}
    assert measured(read(folder), budgets=[500], settings=refused).figures()["empty@500"] == 1.0


def answered(folder):
    queries = [
        {**QUERIES[0], "answers": ["marta dias", "Dias, Marta"]},
        {**QUERIES[1], "answers": ["in the autumn"]},
        {"_id": "q5", "text": "submarine volcano eruption", "answerable": False},
        {"_id": "q6", "text": "who signed the harbor contract", "answerable": False},
    ]
    (folder / "queries.jsonl").write_text(lines(queries))
    return read(folder)


def test_the_words_of_the_answer_are_looked_for_in_the_text(folder):
    figures = measured(answered(folder), budgets=[500]).figures()
    assert figures["answers@500"] == 0.5
    assert figures["baselines"]["bm25"]["answers@500"] == 0.5


def test_questions_without_an_answer_should_be_stopped(folder):
    labeled = answered(folder)
    assert [query["_id"] for query in labeled.unanswerable] == ["q5", "q6"]
    assert measured(labeled, budgets=[500]).figures()["unanswerable_stopped"] == 0.5
    assert len(sample(labeled, 1).unanswerable) == 1


def test_answers_that_are_no_list_of_strings_are_refused(folder):
    (folder / "queries.jsonl").write_text(lines([{**QUERIES[0], "answers": "Marta"}]))
    with pytest.raises(InputError, match="q1: `answers` is not a list of strings"):
        read(folder)


def test_two_runs_give_the_same_figures(four):
    def run():
        args = ["retrieval", str(four), "--budget", "60", "--foreign", "3", "--json"]
        found = json.loads(CliRunner().invoke(evaluation, args).stdout)
        for figures in (*found["sets"].values(), found["mean"], found["intervals"]):
            figures.pop("p50_ms"), figures.pop("p95_ms")
        return found

    assert run() == run()
