"""Paths: they are bounded, canonical, scored as published, and no name can forge one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import ConfigError, InputError
from millgate.knowledge.edges import edge
from millgate.knowledge.paths import (
    HIGH_SIGNAL_PREDICATES,
    GraphPolicy,
    Path,
    anchors,
    base_score,
    paths,
    traverse,
)
from millgate.stores.temporary import TemporaryStore
from millgate.types import Edge

POLICY = GraphPolicy()


def store_of(*edges: Edge) -> TemporaryStore:
    store = TemporaryStore()
    store.link("t", edges)
    return store


def walks(store: TemporaryStore, start: str, **knobs) -> list[tuple[str, ...]]:
    direction = knobs.pop("direction", "both")
    policy = GraphPolicy(**knobs)
    return [p.nodes for p in traverse(store, start, policy, tenant="t", direction=direction)]


CHAIN = store_of(edge("a", "uses", "b"), edge("b", "uses", "c"), edge("c", "uses", "d"))


@pytest.mark.parametrize(
    ("start", "knobs", "expected"),
    [
        ("a", {}, [("a", "b"), ("a", "b", "c")]),
        ("a", {"max_hops": 3}, [("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")]),
        ("c", {"direction": "in"}, [("c", "b"), ("c", "b", "a")]),
        ("c", {"direction": "out"}, [("c", "d")]),
        ("b", {"max_hops": 1}, [("b", "a"), ("b", "c")]),
        ("a", {"max_hops": 3, "max_results": 1}, [("a", "b")]),
        ("nobody", {}, []),
    ],
)
def test_a_traversal_goes_as_far_as_it_may(start, knobs, expected):
    assert walks(CHAIN, start, **knobs) == expected


def test_stronger_edges_come_first_within_a_hop():
    store = store_of(edge("a", "uses", "weak", weight=0.2), edge("a", "uses", "strong", weight=0.9))
    assert walks(store, "a") == [("a", "strong"), ("a", "weak")]


def test_cycles_and_self_loops_end():
    store = store_of(edge("a", "uses", "b"), edge("b", "uses", "a"), edge("a", "uses", "a"))
    assert walks(store, "a", max_hops=9) == [("a", "b"), ("a", "b")]


def test_a_hub_fills_the_results_and_no_more():
    store = store_of(*(edge("hub", "uses", f"leaf{i:04}") for i in range(5_000)))
    assert len(walks(store, "hub", max_hops=3)) == 50
    assert len(walks(store, "leaf0000", max_hops=3)) == 50


def test_of_many_nodes_only_the_strongest_edges_are_followed():
    store = store_of(
        *(edge("a", "uses", f"b{i}") for i in range(6)),
        *(
            edge(f"b{i}", "uses", f"c{i}{j}", weight=(j + 1) / 10)
            for i in range(6)
            for j in range(9)
        ),
    )
    found = walks(store, "a", fan_out=2)
    assert [path for path in found if path[:2] == ("a", "b0")] == [
        ("a", "b0"),
        ("a", "b0", "c08"),
        ("a", "b0", "c07"),
    ]
    assert len(found) == 6 + 6 * 2


def test_a_direction_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="direction"):
        traverse(CHAIN, "a", tenant="t", direction="up")  # type: ignore[arg-type]


def test_tenants_do_not_share_knowledge():
    assert traverse(CHAIN, "a", tenant="other") == []


@pytest.mark.parametrize(
    ("predicates", "score"),
    [
        (["uses"], 0.60),
        (["uses", "part_of"], 0.70),
        (["mentions"], 0.45),  # noisy
        (["uses", "mentions"], 0.60),
        (["uses", "mentions", "mentions"], 0.55),  # long and noisy: once
        (["uses", "uses", "uses"], 0.75),  # long
        (["uses"] * 12, 1.0),
    ],
)
def test_the_base_score_is_the_published_one(predicates, score):
    edges = tuple(Edge(str(i), p, str(i + 1)) for i, p in enumerate(predicates))
    path = Path(tuple(str(i) for i in range(len(edges) + 1)), edges)
    assert base_score(path, POLICY) == pytest.approx(score)


def test_the_high_signal_predicates_are_the_published_ones():
    assert len(HIGH_SIGNAL_PREDICATES) == 21
    assert {"works_on", "description", "relates_to_project"} <= HIGH_SIGNAL_PREDICATES


def test_a_path_reads_the_same_from_both_ends():
    one, two = edge("api", "depends_on", "cache"), edge("worker", "uses", "cache")
    there = Path(("api", "cache", "worker"), (one, two))
    back = Path(("worker", "cache", "api"), (two, one))
    assert there.line == back.line == "api -[depends_on]-> cache <-[uses]- worker"


@given(st.text(min_size=1, max_size=40).filter(lambda s: s.strip() and s.isprintable()))
def test_no_name_can_forge_a_path(name):
    line = Path((name, "b"), (Edge(name, "uses", "b"),)).line
    assert line.endswith(" -[uses]-> b")
    head = line.removesuffix(" -[uses]-> b")
    assert head.startswith('"') or not set("[]<>") & set(head)


@pytest.mark.parametrize(
    "predicate", ["", "uses]-> root -[admits", "a\nb c!", "x" * 65, "1st", "naïve", "drop;table"]
)
def test_a_predicate_that_is_more_than_a_word_is_refused(predicate):
    with pytest.raises(InputError, match="predicate"):
        edge("a", predicate, "b")


def test_a_predicate_has_one_form():
    assert edge("a", " Depends On ", "b").predicate == "depends_on"
    assert edge("a", "built-with", "b").predicate == "built_with"


@pytest.mark.parametrize("weight", [0.0, -1.0, 1.5, float("nan"), float("inf")])
def test_a_weight_out_of_range_is_refused(weight):
    with pytest.raises(InputError, match="weight"):
        edge("a", "uses", "b", weight=weight)


@pytest.mark.parametrize("name", ["", " \n\t", "\x00", "x" * 513])
def test_a_name_that_is_none_is_refused(name):
    with pytest.raises(InputError, match="node name"):
        edge("a", "uses", name)


def test_a_name_is_one_line():
    assert edge("a\n\x00 b", "uses", "c\ud800").source == "a b"
    assert edge("a", "uses", "c\ud800").target == "c?"


def test_anchors_are_what_the_query_names():
    store = store_of(edge("payment-service", "uses", "PostgreSQL"), edge("Alice", "works_on", "x"))
    found = anchors(
        "how does the payment service of Alice use postgresql?", store, POLICY, tenant="t"
    )
    assert found == ("Alice", "payment-service", "PostgreSQL")
    assert anchors("PostgreSQL?", store, POLICY, tenant="t") == ("PostgreSQL",)
    assert anchors("", store, POLICY, tenant="t") == ()
    assert anchors("nothing known", store, POLICY, tenant="t") == ()


def test_paths_become_candidates_and_none_is_lost():
    store = store_of(
        edge("api", "depends_on", "cache", provenance="arch.md"),
        edge("api", "mentions", "weather"),
        edge("cache", "deployed_on", "eu"),
    )
    sifted = paths(["api", "cache"], store, POLICY, tenant="t")
    assert [c.chunk.text for c in sifted.kept] == [
        "api -[depends_on]-> cache -[deployed_on]-> eu",
        "api -[depends_on]-> cache",
        "cache -[deployed_on]-> eu",
        "cache <-[depends_on]- api -[mentions]-> weather",
    ]
    assert [c.chunk.text for c in sifted.dropped] == ["api -[mentions]-> weather"]
    assert set(sifted.added) == {*sifted.kept, *sifted.dropped}
    best = sifted.kept[0]
    assert (best.score, best.chunk.source, best.chunk.admission) == (0.7, "graph", None)
    assert best.chunk.document == "arch.md"
    assert sifted.dropped[0].notes[-1].reason == "no telling predicate"


def test_only_the_first_ten_paths_are_kept():
    store = store_of(*(edge("a", "uses", f"b{i:02}") for i in range(16)))
    sifted = paths(["a"], store, POLICY, tenant="t")
    assert len(sifted.kept) == 10
    assert len(sifted.dropped) == 6


def test_a_policy_with_a_strange_predicate_is_refused():
    with pytest.raises(ConfigError, match="not a predicate"):
        GraphPolicy(high_signal={"Uses It"})


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=30), st.randoms())
def test_the_order_of_linking_does_not_matter(pairs, random):
    edges = [edge(f"n{a}", "uses", f"n{b}") for a, b in pairs]
    shuffled = list(edges)
    random.shuffle(shuffled)
    one, two = store_of(*edges), store_of(*shuffled)
    assert walks(one, "n0", max_hops=3) == walks(two, "n0", max_hops=3)
