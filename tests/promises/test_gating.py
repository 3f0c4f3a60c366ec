"""What enters the budget, what is told of the rest, and what becomes of a question by how sure the evidence is.

The scores, the pruning, the report and the three actions of the entropy gating design.
"""

import pytest
from tests.surfaces import SURFACES

from millgate import Millgate
from millgate.published.entropy_gating import (
    annotate_chunks,
    calculate_shannon_entropy,
    calculate_token_entropy,
    eviction_report,
    prune_to_budget,
    score_chunk,
)
from millgate.testing import FixedClock
from millgate.types import Chunk

RATES = "Slushy pays 80% net, weekly, from $25, and holds for 14 days."
REFUND = "Refunds are paid to the card within five days of the request."
ROWS = [{"id": "refund", "text": REFUND}] + [
    {"id": f"roof{n}", "text": f"The roof of house {n} was painted {color} in the spring of {1900 + n}."}
    for n, color in enumerate(("red", "blue", "green", "white", "black", "brown", "gray", "pink"))
]  # fmt: skip
QUESTION = "within how many days are refunds paid to the card?"
HOUSES = "which roof of a house was painted in the spring of 1903?"
STRANGE = "What did the dentist of Melanie recommend after her marathon?"


# -- scores and pruning --------------------------------------------------------------------------


def test_entropy_counts_bits_of_characters_and_of_words():
    assert calculate_shannon_entropy("aaaa") == 0
    assert calculate_shannon_entropy("abcd") == 2
    assert calculate_token_entropy("One two THREE four one two three four") == 2


def test_the_score_is_six_tenths_words_and_four_tenths_characters():
    words, chars = calculate_token_entropy(RATES), calculate_shannon_entropy(RATES)
    expected = 0.6 * min(words / 6, 1) + 0.4 * min(chars / 5.5, 1)
    assert score_chunk({"content": RATES}) == round(expected, 4)
    assert score_chunk({"content": ""}) == 0


def test_pruning_takes_the_densest_rows_that_fit_and_none_under_the_floor():
    rows = annotate_chunks(
        [
            {"id": "ruler", "content": "-" * 40},
            {"id": "rates", "content": RATES},
            {"id": "again", "content": "pay pay pay rate rate rate pay"},
        ]
    )
    assert [row["id"] for row in prune_to_budget(rows)] == ["rates", "again"]
    only = prune_to_budget(rows, max_tokens=len(RATES) // 4)
    assert [row["id"] for row in only] == ["rates"]
    assert prune_to_budget(rows, max_tokens=0) == []


def test_the_published_report_names_what_was_evicted():
    rows = annotate_chunks([{"id": "a", "content": RATES}, {"id": "b", "content": "-" * 40}])
    report = eviction_report(rows, prune_to_budget(rows))
    assert (report["total_candidates"], report["kept"], report["evicted"]) == (2, 1, 1)
    assert report["evicted_ids"] == ["b"]
    assert report["avg_entropy_kept"] == pytest.approx(rows[0]["entropy"], abs=1e-4)
    assert report["avg_entropy_evicted"] == pytest.approx(rows[1]["entropy"], abs=1e-4)


# -- the gate that runs --------------------------------------------------------------------------


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as opened:
        opened.add(ROWS)
        yield opened


@pytest.mark.parametrize("budget", [0, 20, 40, 80, 160, 1000])
def test_the_budget_is_never_exceeded(gate, budget):
    context = gate.context(QUESTION, budget=budget)
    assert gate.count_tokens(context.text) <= budget
    assert context.token_estimate <= budget


def test_the_report_has_each_evicted_id_with_its_reason_over_http_too(tmp_path):
    with Millgate.open(tmp_path / "kb") as gate:
        gate.add(ROWS)
        mine = gate.context(HOUSES, k=2).report
    told = SURFACES["http"](tmp_path / "kb", HOUSES, k=2, budget=1000, include_report=True)[
        "report"
    ]
    assert mine.evicted == len(mine.evicted_ids) > 0
    assert told["evicted_ids"] == list(mine.evicted_ids)
    assert told["reasons"] == dict(mine.reasons)
    assert set(told["reasons"]) == set(told["evicted_ids"])
    assert all(": " in reason for reason in told["reasons"].values())


# -- the three actions ---------------------------------------------------------------------------


class Web:
    """A search outside that always brings one page."""

    def __init__(self):
        self.asked = []

    async def search(self, query, *, limit):
        self.asked.append(query)
        return [Chunk("https://example.org/", f"Outside it is said: {query}", source="web")]


class Grader:
    """A grader that is as sure of everything as it is told."""

    def __init__(self, mark):
        self.mark = mark

    async def grade(self, query, candidates):
        return [1.0 if c.chunk.source == "web" else self.mark for c in candidates]


@pytest.mark.parametrize(
    ("mark", "verdict", "own", "searched"),
    [(0.95, "correct", True, 0), (0.4, "ambiguous", True, 1), (0.01, "incorrect", False, 1)],
)
def test_sure_evidence_is_used_doubtful_is_searched_beside_and_wrong_is_replaced(
    mark, verdict, own, searched
):
    web = Web()
    with Millgate.open(":memory:", grader=Grader(mark), search=web) as gate:
        gate.add(ROWS)
        context = gate.context(QUESTION)
    shown = {chunk.id for chunk in context.chunks}
    assert len(web.asked) == searched
    assert ("refund" in shown) == own
    assert ("https://example.org/" in shown) == bool(searched)
    assert all(c.metadata["untrusted"] for c in context.chunks if c.source == "web")


def test_a_question_that_nothing_answers_waits_for_a_person():
    with Millgate.open(":memory:", review={"enabled": True, "on_refusal": True}, clock=FixedClock()) as gate:  # fmt: skip
        gate.add(ROWS)
        context = gate.context(STRANGE)
        assert context.text == ""
        assert context.fallback == "review"
        (waiting,) = gate.reviews.reviews()
        assert (waiting.id, waiting.query) == (context.review, STRANGE)


def test_an_answer_without_evidence_is_empty_and_says_why(gate):
    context = gate.context(STRANGE)
    assert context.text == ""
    assert "nothing relevant was found" in context.fallback_reason
