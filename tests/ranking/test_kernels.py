"""The numeric kernels against formulas written out by hand."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.index.indexes import Indexes
from millgate.pipeline.stages.propagate import PropagatePolicy, propagate
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve
from millgate.ranking.arrays import best, top
from millgate.ranking.fields import pack, table
from millgate.ranking.score import Node, carry, edge_charges, find_seeds, idf, link_nodes, saturate
from millgate.stores.temporary import TemporaryStore
from millgate.types import Candidate, Chunk, Document, Edge, Sifted


def view_of(*texts, titles=()):
    store = TemporaryStore()
    chunks = [
        Chunk(f"c{n}", text, document=f"c{n}", title=title)
        for n, (text, title) in enumerate(zip(texts, [*titles, *[""] * len(texts)], strict=False))
    ]
    store.put("t", [Document(c.id, chunks=(c,)) for c in chunks])
    return Indexes(store).snapshot("t", "main")


def in_order(keys):
    """A snapshot whose chunks are read in the order of these keys."""
    return SimpleNamespace(reading_order_key=lambda ords: keys[ords])


def scores(found):
    return {c.chunk.id: c.score for c in found.kept}


def test_the_lexical_score_is_bm25f_with_a_heavier_title():
    view = view_of(
        "turbine pump pump", "valve harbor turbine river", "river", titles=["", "Turbine"]
    )
    policy = RetrievePolicy(phrase=0, head_weight=0, feedback=0)
    found = scores(retrieve("turbine", view, policy))
    lengths = np.array([3.0, 6.0, 1.0])
    f = np.array([1.0, 3.0]) / (0.25 + 0.75 * lengths[:2] / lengths.mean())
    value = f / (f + 1.2)
    assert found == pytest.approx({"c1": 1.0, "c0": value[0] / value[1]})


def test_in_a_conversation_neighbors_count_before_saturation():
    lines = ["we met", "about the zither", "yes", "of course", "good", "bye then", "see you"]
    view = view_of(*(f"[1 May] {'AB'[n % 2]}nn: {line}" for n, line in enumerate(lines)))
    assert view.conversational
    found = scores(retrieve("zither", view, RetrievePolicy(phrase=0, feedback=0)))
    assert view.norms(b=0.75, title=2.0, head=False)[1] == pytest.approx(1.0)  # of mean length
    f = 1.0
    want = [w * f / (w * f + 1.2) / (f / (f + 1.2)) for w in (0.5, 1.0, 0.5, 0.3)]
    assert found == pytest.approx({"c0": want[0], "c1": 1.0, "c2": want[2], "c3": want[3]})


def test_phrases_lift_terms_that_stand_side_by_side():
    view = view_of("pump valve river stone", "valve river stone pump", "stone river harbor lake")
    found = scores(retrieve("stone pump", view, RetrievePolicy(feedback=0)))
    assert max(found, key=found.get) == "c1"


def test_a_phrase_tells_less_the_more_of_the_holders_of_its_words_have_it():
    def lift(others):
        view = view_of("stone pump", *[f"{others} {n}" for n in range(5)], "a mill")
        plain, found = (
            retrieve(
                "stone pump", view, RetrievePolicy(feedback=0, head_weight=0, phrase=phrase)
            ).scores.every[0]
            for phrase in (0, 1)
        )
        return found - plain

    assert lift("stone mill pump") > 3 * lift("stone pump") > 0


@pytest.mark.parametrize("query", ["대한민국", "get_user_name", "co-pilot"])
def test_the_terms_of_one_word_are_no_phrase(query):
    view = view_of(f"{query} stone", "stone river", "harbor lake", "lake river")
    plain = retrieve(query, view, RetrievePolicy(feedback=0, phrase=0)).scores.every
    found = retrieve(query, view, RetrievePolicy(feedback=0, phrase=9)).scores.every
    assert plain[0] > 0
    assert found.tolist() == plain.tolist()


def test_words_of_korean_side_by_side_are_a_phrase():
    view = view_of("강물 서울 대한민국 호수", "대한민국 서울 강물 호수", "호수 강물")
    found = scores(retrieve("대한민국 서울", view, RetrievePolicy(feedback=0, head_weight=0)))
    assert found["c1"] > found["c0"]


def test_a_query_term_in_a_title_adds_its_rarity_once():
    text, rest = "valve harbor turbine river", "river lake lake"
    view = view_of(text, text, rest, titles=["Turbine turbine", "Harbor", "Lake"])
    plain = retrieve(
        "turbine", view, RetrievePolicy(phrase=0, head_weight=0, feedback=0)
    ).scores.every
    lifted = retrieve(
        "turbine", view, RetrievePolicy(phrase=0, head_weight=2, feedback=0)
    ).scores.every
    idf = math.log1p((3 - 2 + 0.5) / (2 + 0.5))
    f = np.array([5.0, 1.0]) / view.norms(b=0.75, title=2.0, head=True)[:2]
    value = 2.2 * idf * f / (f + 1.2)
    assert plain[1] / plain[0] == pytest.approx(value[1] / value[0])
    assert lifted[1] / lifted[0] == pytest.approx(value[1] / (value[0] + 2 * idf))


@pytest.mark.parametrize(("lead", "first"), [(2, "c1"), (4, "c0")])
def test_an_untitled_text_opens_with_what_it_is_about(lead, first):
    view = view_of("pump valve stone zither", "pump zither stone valve lake", "lake stone")
    policy = RetrievePolicy(phrase=0, feedback=0, lead=lead, head_weight=5)
    assert retrieve("zither", view, policy).kept[0].chunk.id == first


def test_the_head_of_a_chat_line_is_no_title():
    view = view_of(*(f"[1 May] {'AB'[n % 2]}nn: zither number {n}" for n in range(6)))
    assert view.conversational
    assert scores(retrieve("zither", view, RetrievePolicy(head_weight=9))) == scores(
        retrieve("zither", view, RetrievePolicy(head_weight=0))
    )


def test_feedback_finds_what_the_query_does_not_say():
    view = view_of("zither strings bridge", "zither strings bridge wood", "strings bridge", "lake")
    assert "c2" not in scores(retrieve("zither", view, RetrievePolicy(feedback=0)))
    policy = RetrievePolicy(feedback_common=0.9, feedback_agreement=0)
    lifted = scores(retrieve("zither", view, policy))
    assert 0 < lifted["c2"] < lifted["c0"]


def test_feedback_that_leads_away_from_the_best_chunk_is_left_out():
    view = view_of("zither strings bridge", "zither strings bridge wood", "strings bridge", "lake")
    drifting = retrieve("zither", view, RetrievePolicy(feedback_common=0.9, feedback_agreement=1))
    assert scores(drifting) == scores(retrieve("zither", view, RetrievePolicy(feedback=0)))


PASSAGES = (
    "It is said that Marta Dias plays for Vega United since the war.",
    "They say that Vega United was founded by a harbor clerk.",
    "A clerk of the harbor wrote it down.",
    "Rivers and lakes and Vega somewhere.",
    *(f"Filler number {n} about rivers." for n in range(20)),
)


def test_a_shared_name_leads_from_the_hit_to_the_answer():
    view = view_of(*PASSAGES)
    query = "where does Marta Dias play near lakes"
    found = retrieve(query, view, RetrievePolicy(feedback=0))
    assert "c1" not in scores(found)
    wired = propagate(found, query, view, PropagatePolicy())
    assert {c.chunk.id for c in wired.kept[:3]} == {"c0", "c1", "c3"}
    [note] = [c.notes[-1] for c in wired.kept if c.chunk.id == "c1"]
    assert note.reason in {"shares the name 'vega united'", "shares the name 'united'"}
    assert {c.chunk.id for c in wired.added} >= {"c1"}


def test_an_answer_in_one_place_needs_no_second_one():
    view = view_of(*PASSAGES)
    found = retrieve("where does Marta Dias play", view, RetrievePolicy(feedback=0))
    wired = propagate(found, "where does Marta Dias play", view, PropagatePolicy())
    assert wired.added == ()
    assert [c.chunk.id for c in wired.kept] == [c.chunk.id for c in found.kept]


@pytest.mark.parametrize("mode", ["entities", "off"])
def test_propagation_conserves_what_came(mode):
    view = view_of(*PASSAGES)
    found = retrieve("Marta Dias rivers harbor", view, RetrievePolicy())
    wired = propagate(found, "Marta Dias rivers harbor", view, PropagatePolicy(mode=mode, keep=5))
    came = {c.chunk.id for c in found.kept} | {c.chunk.id for c in wired.added}
    assert sorted(c.chunk.id for c in (*wired.kept, *wired.dropped)) == sorted(came)
    assert all(0 <= c.score <= 1 for c in wired.kept)


def test_a_given_edge_leads_to_a_chunk_and_to_a_name():
    view = view_of(*PASSAGES, "Sorrel keeps bees.")
    query = "harbor clerk"
    found = retrieve(query, view, RetrievePolicy(feedback=0))
    edges = [Edge("harbor", "near", "c24"), Edge("clerk", "knows", "Marta Dias", 0.5)]
    seeds = find_seeds(found, query, view, PropagatePolicy().seeds)
    wired = propagate(found, query, view, PropagatePolicy(), seeds=seeds, edges=edges)
    assert {"c24", "c0"} <= {c.chunk.id for c in wired.added}
    charged = edge_charges(seeds, view, PropagatePolicy().edge)
    assert {"harbor", "clerk", *(c.chunk.id for c in found.kept[:1])} <= {n.text for n in charged}


def test_propagation_works_from_plain_candidates():
    view = view_of(*PASSAGES)
    plain = Sifted(kept=(Candidate(Chunk("c0", PASSAGES[0], document="c0"), 0.9),))
    wired = propagate(plain, "Marta Dias lakes", view, PropagatePolicy())
    assert "c1" in {c.chunk.id for c in wired.added}


def test_a_signal_at_the_floor_is_carried_on():
    edges = [Edge("s", "p", "x", 0.5), Edge("x", "p", "y", 0.5), Edge("y", "p", "z", 0.5)]
    links = link_nodes(edges, view_of("words"))
    carried = carry({Node("s"): 1.0}, links, leak=1.0, floor=0.25, hops=3)
    assert carried == {Node("x"): 0.5, Node("y"): 0.25}


def test_the_idf_of_a_term_falls_with_the_chunks_that_hold_it():
    frequencies = [0, 1, 7, 10]
    want = [math.log(11 / (frequency + 0.5)) for frequency in frequencies]
    assert idf(10, frequencies) == pytest.approx(want)


def test_more_of_the_same_term_counts_less_and_less():
    found = saturate(np.array([0.0, 1.0, 2.0, 1e9]), 1.2, 2.2)
    assert found == pytest.approx([0, 1, 2.2 * 2 / 3.2, 2.2])
    assert saturate(2, 1.2, 2.2) == pytest.approx(found[2])


def test_a_term_in_more_chunks_than_were_counted_is_as_common_as_can_be():
    assert idf(5, 9) == idf(9, 9) > 0


def test_edges_carry_the_strongest_signal_both_ways():
    edges = [Edge("A", "p", "B"), Edge("C", "p", "B", 0.5), Edge("C", "p", "D", 0.02)]
    links = link_nodes(edges, view_of("words"))
    got = carry({Node("a"): 1.0}, links, leak=0.85, floor=0.02, hops=3)
    assert got == pytest.approx({Node("b"): 0.85, Node("c"): 0.85 * 0.5 * 0.85})


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"), st.sampled_from("bcde"), st.sampled_from([0.3, 0.6, 1.0])
        ),
        max_size=8,
    ),
    st.randoms(use_true_random=False),
)
def test_a_name_is_one_node_however_each_edge_spells_it(wired, dice):
    view = view_of("words")
    plain = [Edge(one, "p", other, weight) for one, other, weight in wired]
    cased = [
        Edge(dice.choice([e.source, e.source.upper()]), "p", dice.choice([e.target, e.target.upper()]), e.weight)
        for e in plain
    ]  # fmt: skip
    walk = {"leak": 0.85, "floor": 0.02, "hops": 3}
    reached = [carry({Node("a"): 1.0}, link_nodes(e, view), **walk) for e in (plain, cased)]
    assert reached[0] == reached[1]


def test_chunks_whose_ids_differ_in_case_alone_are_two_nodes():
    view = view_of("the first", "the second")
    edges = [Edge("harbor", "p", "c0"), Edge("C0", "p", "c1")]
    walk = {"leak": 0.5, "floor": 0.02, "hops": 3}
    reached = carry({Node("harbor"): 1.0}, link_nodes(edges, view), **walk)
    assert reached == {Node("c0", is_chunk=True): 0.5}, "the name C0 is another node"


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), max_size=900),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)
def test_top_is_a_sort_with_ties_in_reading_order(values, k, dice):
    scores = np.array(values, float)
    reading = np.array(dice.sample(range(len(values)), len(values)), np.int64)
    want = sorted(
        (i for i in range(len(values)) if values[i] > 0), key=lambda i: (-values[i], reading[i])
    )
    assert top(scores, k, in_order(reading)).tolist() == want[:k]
    if values:
        full = sorted(range(len(values)), key=lambda i: (-values[i], reading[i]))
        assert best(scores, k, np.arange(len(values)), in_order(reading)).tolist() == full[:k]


def test_counts_by_field_are_packed_and_weighed():
    n = np.array([[1, 20], [0, 2], [3, 9], [7, 999]])
    packed_counts = pack(*n)
    assert table(title=2.0)[packed_counts].tolist() == [9.0, 285.0]
    assert table(title=1.0, speaker=1.0, date=1.0)[packed_counts].tolist() == [11.0, 275.0]


@pytest.mark.parametrize("k", [1, 7, 40])
def test_the_best_of_many_are_those_of_a_full_sort(k):
    dice = np.random.default_rng(3)
    for size in (500, 20_011):
        scores = np.round(dice.random(size), 3)
        scores[dice.random(size) < 0.7] = 0.0
        found = top(scores, k, in_order(-np.arange(len(scores))))
        wanted = np.lexsort((-np.arange(size), -scores))[:k]
        assert found.tolist() == wanted.tolist()


def test_of_many_without_a_score_none_is_best():
    scores = np.zeros(20_000)
    assert top(scores, 5, in_order(np.arange(len(scores)))).tolist() == []
    scores[[3, 19_999]] = 0.5
    assert top(scores, 5, in_order(np.arange(len(scores)))).tolist() == [3, 19_999]
