"""Entropy gating: the design's own examples, and a plain re-implementation beside ours on random inputs."""

import math
import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from tests.published.cases import random_cases

from millgate.errors import InputError
from millgate.published.entropy_gating import (
    annotate_chunks,
    calculate_shannon_entropy,
    calculate_token_entropy,
    eviction_report,
    prune_to_budget,
    reciprocal_rank_fusion,
    score_chunk,
)
from millgate.published.entropy_gating import integrate_and_fire as fire

WORDS = [
    "refund",
    "card",
    "days",
    "the",
    "The",
    "of",
    "gate",
    "14",
    "paid-within",
    "straße",
    "水",
    "ü",
    "a",
    "b",
]
PROSE = (
    "Refunds are paid to the card within fourteen days, and the shop writes when it has sent them."
)


def random_text(rng):
    if rng.random() < 0.2:
        return "".join(rng.choices("ab \n\t水é", k=rng.randrange(12)))
    return rng.choice(" \n").join(rng.choices(WORDS, k=rng.randrange(14)))


def plain_entropy(items):
    counts = Counter(items)
    total = sum(counts.values())
    return -sum(n / total * math.log2(n / total) for n in counts.values()) if total else 0.0


def plain_score(text):
    words = min(plain_entropy(text.lower().split()) / 6.0, 1.0)
    return 0.6 * words + 0.4 * min(plain_entropy(text) / 5.5, 1.0)


def test_the_examples():
    assert calculate_shannon_entropy("") == calculate_token_entropy("") == score_chunk("") == 0.0
    assert calculate_shannon_entropy("aaaa") == 0.0
    assert calculate_shannon_entropy("abab") == 1.0
    assert calculate_token_entropy("one two three four") == 2.0
    assert calculate_token_entropy("Same same SAME") == 0.0
    assert score_chunk("abab abab") < 0.2 < score_chunk(PROSE) < 1.0
    assert score_chunk({"id": "a", "content": PROSE}) == score_chunk(PROSE)


@random_cases
def test_entropies_and_scores_are_those_of_the_plain_formula(cases):
    rng = random.Random(1)
    texts = [random_text(rng) for _ in range(cases)]
    for text in texts:
        assert calculate_shannon_entropy(text) == pytest.approx(plain_entropy(text), abs=1e-9)
        words = plain_entropy(text.lower().split())
        assert calculate_token_entropy(text) == pytest.approx(words, abs=1e-9)
        assert abs(score_chunk(text) - plain_score(text)) <= 0.5e-4 + 1e-9


def plain_prune(rows, max_tokens, min_entropy):
    """Take the best row that still fits, again and again."""
    left, taken = [row for row in rows if row["entropy"] >= min_entropy], []
    while left:
        best = max(left, key=lambda row: row["entropy"])  # of equals the first
        left = [row for row in left if row is not best]
        if sum(len(row["content"]) // 4 for row in [*taken, best]) <= max_tokens:
            taken.append(best)
    return [row["id"] for row in taken]


@random_cases
def test_pruning_and_its_report_are_those_of_a_plain_loop(cases):
    rng = random.Random(2)
    for _ in range(cases):
        rows = [{"id": n, "content": random_text(rng)} for n in range(rng.randrange(7))]
        annotate_chunks(rows)
        if rng.random() < 0.5:  # ties
            for row in rows:
                row["entropy"] = round(row["entropy"], 1)
        most, least = rng.randrange(30), rng.choice([0.0, 0.1, 0.3])
        selected = prune_to_budget(rows, max_tokens=most, min_entropy=least)
        kept = plain_prune(rows, most, least)
        assert [row["id"] for row in selected] == kept
        report = eviction_report(rows, selected, min_entropy=least)
        gone = [row for row in rows if row["id"] not in kept]
        assert report["total_candidates"] == len(rows)
        assert (report["kept"], report["evicted"]) == (len(kept), len(gone))
        assert report["evicted_ids"] == [row["id"] for row in gone]
        bits = [row["entropy"] for row in gone]
        assert report["avg_entropy_evicted"] == pytest.approx(sum(bits) / len(bits) if bits else 0)
        low = {row["id"] for row in gone if row["entropy"] < least}
        assert {id for id, why in report["reasons"].items() if "entropy below" in why} == low


def test_the_published_bounds_are_the_defaults():
    rows = [{"id": "x", "content": "a" * 40}, {"id": "y", "content": PROSE}]
    assert [row["id"] for row in prune_to_budget(rows)] == ["y"]
    assert rows[0]["entropy"] == 0.0
    large = [{"id": "z", "content": PROSE * 200}]  # 4 650 tokens at 4 characters each
    assert prune_to_budget(large) == []


ROWS = [
    {"id": "a", "content": "aaaaaaaa"},
    {"id": "b", "content": PROSE},
    {"id": "c", "content": "The tide turns twice a day and the boats wait for it."},
]


def test_annotate_sets_the_published_score_in_each_row():
    rows = [dict(row) for row in ROWS]
    assert annotate_chunks(rows) == rows
    assert [row["entropy"] for row in rows] == [score_chunk(r["content"]) for r in ROWS]


def test_prune_orders_by_entropy_and_counts_four_characters_a_token():
    rows = [dict(row) for row in ROWS]
    assert [r["id"] for r in prune_to_budget(rows)] == ["b", "c"]
    exactly = len(ROWS[2]["content"]) // 4
    assert [r["id"] for r in prune_to_budget(rows, max_tokens=exactly)] == ["c"]
    assert [r["id"] for r in prune_to_budget(rows, min_entropy=0.0)] == ["b", "c", "a"]


def test_prune_keeps_the_entropies_it_is_given():
    rows = [dict(row) for row in ROWS]
    rows[0]["entropy"], rows[1]["entropy"] = 0.99, 0.05
    assert [r["id"] for r in prune_to_budget(rows)] == ["a", "c"]
    assert [row["entropy"] for row in rows[:2]] == [0.99, 0.05]
    assert rows[2]["entropy"] == score_chunk(ROWS[2]["content"])


@pytest.mark.parametrize("entropy", ["high", float("nan")])
def test_an_entropy_that_is_no_number_is_an_error_that_names_the_row(entropy):
    with pytest.raises(InputError, match="row 0 has the entropy"):
        prune_to_budget([{"id": "a", "content": "text", "entropy": entropy}])


def test_the_eviction_report_counts_and_explains():
    rows = [dict(row) for row in ROWS]
    selected = prune_to_budget(rows, max_tokens=len(ROWS[1]["content"]) // 4)
    seen = eviction_report(rows, selected)
    assert seen["total_candidates"] == 3
    assert (seen["kept"], seen["evicted"]) == (1, 2)
    assert seen["evicted_ids"] == ["a", "c"]
    assert seen["reasons"] == {"a": "entropy below 0.1", "c": "no room left"}
    assert seen["avg_entropy_kept"] == rows[1]["entropy"]
    assert seen["avg_entropy_evicted"] == pytest.approx(
        (rows[0]["entropy"] + rows[2]["entropy"]) / 2
    )


def test_empty_rows_give_an_empty_report():
    assert prune_to_budget([]) == []
    assert eviction_report([], [])["avg_entropy_kept"] == 0.0


@pytest.mark.parametrize("row", [{"id": "a", "content": None}, {"id": "a", "content": 3}])
def test_a_row_without_text_is_named(row):
    with pytest.raises(InputError, match="row 0"):
        annotate_chunks([row])


def test_a_row_without_an_id_or_a_text_has_the_published_ones():
    rows = [{"content": PROSE}, {"id": "a"}]
    assert [row["entropy"] for row in annotate_chunks(rows)] == [score_chunk(PROSE), 0.0]
    assert eviction_report(rows, [])["evicted_ids"] == ["?", "a"]


@random_cases
def test_rank_fusion_is_the_sum_of_reciprocal_ranks(cases):
    rng = random.Random(3)
    for _ in range(cases):
        size = rng.randrange(1, 12)
        rankings = [
            rng.sample(range(size), rng.randrange(size + 1)) for _ in range(rng.randrange(3))
        ]
        plain = [
            sum(1 / (60 + ranking.index(n) + 1) for ranking in rankings if n in ranking)
            for n in range(size)
        ]
        arrays = [np.array(ranking, np.int64) for ranking in rankings]
        assert reciprocal_rank_fusion(arrays, size).tolist() == pytest.approx(plain)


def plain_fire(seeds, weights):
    """Message passing over directed edges: what goes from a to b is all that a got from others than b."""
    edges = [(a, b, w) for a, near in weights.items() for b, w in near if a != b]
    seen, potential = {}, defaultdict(float)
    for step in range(3):
        sent = {}
        for a, b, w in edges:
            got = sum(s for (c, d), s in seen.items() if d == a and c != b)
            signal = (got + (step == 0 and a in seeds)) * w * 0.85
            if signal >= 0.02:
                sent[a, b] = signal
        for (_, b), signal in sent.items():
            potential[b] += signal
        seen = sent
    return {n: p for n, p in potential.items() if p >= 0.5 and n not in seeds}


@random_cases
def test_firing_is_that_of_plain_message_passing(cases):
    rng = random.Random(4)
    fired = 0
    for _ in range(cases):
        nodes = "abcdef"[: rng.randrange(2, 7)]
        weights = {a: [(b, rng.random()) for b in nodes if rng.random() < 0.4] for a in nodes}
        seeds = rng.sample(nodes, rng.randrange(1, 3))
        ours = fire(seeds, weights.__getitem__)
        assert ours == pytest.approx(plain_fire(seeds, weights))
        fired += bool(ours)
    assert fired > cases / 10


def wires(edges):
    return lambda node: edges.get(node, ())


def test_a_signal_does_not_return_over_the_edge_it_came_by():
    both_ways = {"s": [("x", 0.5)], "x": [("s", 0.5)]}
    assert fire(["s"], wires(both_ways)) == {}
    assert fire(["s"], wires(both_ways), threshold=0.0) == pytest.approx({"x": 0.425})


def test_a_node_that_points_at_itself_gains_nothing():
    looped = {"s": [("x", 0.5)], "x": [("x", 1.0)]}
    assert fire(["s"], wires(looped)) == {}


def test_a_node_fires_when_signals_add_up():
    edges = {"a": [("x", 0.3)], "b": [("x", 0.3)], "c": [("y", 0.5)]}
    assert fire(["a", "b", "c"], wires(edges)) == pytest.approx({"x": 0.51})


def test_signals_leak_at_every_hop_and_stop_after_three():
    chain = {"s": [("1", 1.0)], "1": [("2", 1.0)], "2": [("3", 1.0)], "3": [("4", 1.0)]}
    want = {"1": 0.85, "2": 0.85**2, "3": 0.85**3}
    assert fire(["s"], wires(chain)) == pytest.approx(want)


def test_weak_signals_are_discarded():
    many = {f"s{n}": [("x", 0.02)] for n in range(40)}  # each 0.017, together 0.68
    assert fire(list(many), wires(many)) == {}
    enough = {f"s{n}": [("x", 0.024)] for n in range(40)}
    assert fire(list(enough), wires(enough)) == pytest.approx({"x": 40 * 0.024 * 0.85})


def test_a_signal_at_the_floor_and_a_potential_at_the_threshold_count():
    halves = {"s": [("x", 0.5)], "x": [("y", 0.5)]}
    assert fire(["s"], wires(halves), leak=1.0, floor=0.25, threshold=0.5) == {"x": 0.5}
    passed = fire(["s"], wires(halves), leak=1.0, floor=0.25, threshold=0.25)
    assert passed == {"x": 0.5, "y": 0.25}
