"""What is shown for a question, measured against its labels."""

import pytest
from bench.curve import cut_at_share

from millgate.evaluate.shown import (
    Piece,
    Truth,
    count_piece,
    fill,
    holds_answer,
    measure,
    pieces_of,
    rank_by_bm25,
    size,
    whole_pieces,
)
from millgate.gateway import Millgate
from millgate.text.fence import fence_cost
from millgate.types import Candidate, Chunk


def piece(text, *, document="a", title="", whole=True, score=1.0):
    return Piece(document, title, text, whole, score)


@pytest.mark.parametrize(
    ("answer", "text", "held"),
    [
        ("14 days", "Refunds take 14\ndays.", True),
        ("14 days", "Refunds take 14 working days.", False),
        ("11", "In 2011 it ended.", False),
        ("11", "They scored 11.", True),
        ("Café Zürich", "the CAFÉ, ZÜRICH, opens", True),
        ("four", "", False),
        ("1989년 2월", "그는 1989년 2월에 태어났다", True),  # a particle follows
        ("四次", "他们赢了四次冠军", True),
        ("ไทย", "ประเทศไทยมี", True),
        ("...", "any text ...", False),  # no word to look for
    ],
)
def test_an_answer_stands_as_words_side_by_side(answer, text, held):
    assert holds_answer([piece(text)], [answer]) is held


def test_an_answer_may_stand_in_a_title_but_not_across_pieces():
    assert holds_answer([piece("was built", title="Vega turbine")], ["vega turbine"])
    assert not holds_answer([piece("the Vega"), piece("turbine")], ["vega turbine"])


def test_whole_chunks_and_parts_are_counted_apart():
    truth = Truth({"a": 1, "b": 1, "c": 1, "d": 1}, ["1999"])
    shown = [piece("one"), piece("two", document="b", whole=False), piece("x", document="z")]
    figures = measure(shown, 30, truth)
    assert figures == {
        "context_evidence": 0.5, "whole_evidence": 0.25, "answers": 0.0, "tokens": 30.0, "empty": 0.0,
    }  # fmt: skip


def test_the_answer_is_looked_for_in_parts_if_no_labeled_passage_is_whole():
    truth = Truth({"a": 1}, ["1999"])
    elsewhere = piece("in 1999", document="z")
    figures = measure([piece("in spring", whole=False), elsewhere], 30, truth)
    assert (figures["answers"], figures["part_answers"]) == (1.0, 0.0)
    assert "part_answers" not in measure([elsewhere], 30, truth)
    assert "part_answers" not in measure([piece("in spring"), elsewhere], 30, truth)


def test_nothing_shown_is_empty():
    assert measure([], 0, Truth({"a": 1}, ["x"])) == {
        "context_evidence": 0.0, "whole_evidence": 0.0, "answers": 0.0, "tokens": 0.0, "empty": 1.0,
    }  # fmt: skip


def test_a_copy_counts_as_the_passage():
    truth = Truth({"a": 1}, copies={"a": frozenset("ab"), "b": frozenset("ab")})
    assert truth.labeled(["b"]) == {"a"}
    assert truth.labeled(["c"]) == set()


def test_the_plain_cut_keeps_what_scores_near_the_best():
    shown = [piece("a", score=0.5), piece("b", score=1.0), piece("c", score=0.2)]
    assert [p.text for p in cut_at_share(shown, 0.5)] == ["a", "b"]
    assert [p.text for p in cut_at_share(shown, 1.0)] == ["b"]
    assert cut_at_share(shown, 0.0) == shown
    assert cut_at_share([], 0.5) == []


def test_a_context_gives_its_pieces_with_scores_and_tokens():
    long = " ".join(f"The Vega turbine number {n} stands in hall {n}." for n in range(60))
    with Millgate.open(":memory:") as gate:
        gate.add([{"id": "long", "text": long}, {"id": "short", "text": "Vega turbines hum."}])
        given = gate.context("Vega turbine hall", budget=160)
        shown = pieces_of(given)
        assert {p.document: p.whole for p in shown} == {"long": False, "short": True}
        assert max(p.score for p in shown) == pytest.approx(1.0)
        counted = sum(count_piece(p.title, p.text, gate.count_tokens) for p in shown)
        framing = fence_cost(gate.count_tokens)
    # the fence is charged as if its nonce, which is random, were a dear one
    assert counted < given.token_estimate <= counted + framing


def test_bm25_ranks_by_plain_scores_and_fills_a_budget():
    with Millgate.open(":memory:") as gate:
        gate.add([
            {"id": "a", "text": "harbor harbor contract"},
            {"id": "b", "text": "harbor and much else that nobody asked about in the spring"},
            {"id": "c", "text": "rivers"},
        ])  # fmt: skip
        ranking = rank_by_bm25("harbor contract", gate.index())
        assert rank_by_bm25("submarine", gate.index()) == ()
    assert [c.chunk.id for c in ranking] == ["a", "b"]
    assert [p.document for p in whole_pieces(fill(ranking, 6, size))] == ["a"]


def test_what_does_not_fit_is_skipped_and_what_follows_is_taken():
    ranking = [Candidate(Chunk(str(n), "x" * n), s) for n, s in ((400, 1.0), (40, 0.5), (80, 0.4))]
    assert [c.chunk.id for c in fill(ranking, 30, size)] == ["40", "80"]
    assert fill(ranking, 100, size)[0].chunk.id == "400"
