"""RecordContract: what every store promises about edges, facts, secrets, reviews and traces."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from millgate.errors import InputError, StoreError
from millgate.protocols import Store
from millgate.types import Edge, Fact, Review, TrustChange


class RecordContract:
    """Edges, facts, secrets, reviews and traces."""

    def test_edges_touch_their_ends_strongest_first(self, store: Store) -> None:
        weak, strong = Edge("a", "uses", "b", 0.2), Edge("b", "uses", "c", 0.9, "doc")
        assert not store.has_edges("t")
        assert store.link("t", [weak, strong]) == 2
        assert store.has_edges("t")
        assert not store.has_edges("u")
        assert store.edges_touching("t", ["b"]) == [strong, weak]
        assert store.edges_touching("t", ["b"], direction="out") == [strong]
        assert store.edges_touching("t", ["b"], direction="in") == [weak]
        assert store.edges_touching("t", ["a", "b", "c"]) == [strong, weak]
        assert store.edges_touching("u", ["b"]) == []
        with pytest.raises(InputError, match="direction"):
            store.edges_touching("t", ["b"], direction="up")

    def test_a_hub_does_not_crowd_the_others_out(self, store: Store) -> None:
        hub = [Edge("hub", "has", f"n{n}", 1.0) for n in range(20)]
        quiet = Edge("quiet", "has", "one", 0.1)
        store.link("t", [*hub, quiet])
        found = store.edges_touching("t", ["hub", "quiet"], limit=3)
        assert [edge.target for edge in found] == ["n0", "n1", "n10", "one"]

    def test_linking_again_sets_weight_and_unlinking_removes(self, store: Store) -> None:
        edge = Edge("a", "is_a", "b", 0.5)
        store.link("t", [edge])
        assert store.link("t", [edge]) == 0
        assert store.link("t", [replace(edge, weight=0.7)]) == 1
        assert store.edges_touching("t", ["a"]) == [replace(edge, weight=0.7)]
        assert store.unlink("t", [edge, edge]) == 1
        assert store.edges_touching("t", ["a", "b"]) == []
        assert not store.has_edges("t")

    def test_names_of_nodes_are_compared_without_case(self, store: Store) -> None:
        edges = [Edge("Payments", "uses", "Ledger"), Edge("ledger", "uses", "Öl-Depot", 0.5)]
        assert store.link("t", edges) == 2
        for name in ("ledger", "LEDGER", "Ledger"):
            assert store.edges_touching("t", [name]) == edges
            assert store.edges_touching("t", [name], direction="in") == edges[:1]
        assert store.edges_touching("t", ["öl-depot", "ÖL-DEPOT"]) == edges[1:]
        assert store.link("t", [Edge("payments", "uses", "ledger", 0.2)]) == 1
        assert [edge.source for edge in store.edges_touching("t", ["PAYMENTS"])] == [
            "Payments",
            "payments",
        ]
        assert store.unlink("t", [Edge("PAYMENTS", "uses", "LEDGER")]) == 2
        assert store.unlink("t", [Edge("ledger", "uses", "öl-depot")]) == 1
        assert not store.has_edges("t")

    @pytest.mark.parametrize(
        "bad", [Edge("", "p", "b"), Edge("a", "", "b"), Edge("a", "p", "b", float("nan"))]
    )
    def test_an_edge_needs_ends_and_a_weight(self, store: Store, bad: Edge) -> None:
        with pytest.raises(InputError):
            store.link("t", [Edge("x", "p", "y"), bad])
        assert store.edges_touching("t", ["x"]) == []

    def test_a_repeated_fact_is_the_existing_one(self, store: Store) -> None:
        steps = (TrustChange(1.0, 0.5, 0.55, "helpful"),)
        fact = Fact("1", "water is wet", tags=("a", "b"), trust=0.7, history=steps)
        assert store.save_fact("t", fact) == fact
        assert store.save_fact("t", Fact("2", "water is wet")) == fact
        assert store.facts("t") == [fact]
        assert store.fact("t", "1") == fact
        assert store.facts("u") == []
        assert store.save_fact("u", Fact("1", "water is wet")).trust == 0.5

    def test_case_spaces_and_a_closing_stop_make_no_other_fact(self, store: Store) -> None:
        first = store.save_fact("t", Fact("1", "Water is wet."))
        assert store.save_fact("t", Fact("2", "water  is wet")) == first
        assert store.save_fact("t", Fact("1", "WATER is wet")).content == "WATER is wet"
        assert [fact.id for fact in store.facts("t")] == ["1"]

    def test_saving_a_fact_again_updates_it(self, store: Store) -> None:
        store.save_fact("t", Fact("1", "old"))
        store.save_fact("t", Fact("1", "new"))
        assert store.facts("t") == [Fact("1", "new")]
        assert store.save_fact("t", Fact("2", "old")) == Fact("2", "old")

    def test_no_feedback_is_lost_between_writers(self, store: Store) -> None:
        store.save_fact("t", Fact("1", "x"))

        def praise(_: int) -> None:
            for _step in range(10):
                store.amend_fact("t", "1", lambda fact: replace(fact, helpful=fact.helpful + 1))

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(praise, range(4)))
        fact = store.fact("t", "1")
        assert fact
        assert fact.helpful == 40
        assert store.amend_fact("t", "none", lambda fact: fact) is None
        with pytest.raises(InputError, match="cannot change"):
            store.amend_fact("t", "1", lambda fact: replace(fact, content="y"))

    def test_forgetting_frees_the_content(self, store: Store) -> None:
        store.save_fact("t", Fact("1", "x"))
        assert store.forget("t", "1")
        assert not store.forget("t", "1")
        assert store.fact("t", "1") is None
        assert store.save_fact("t", Fact("2", "x")).id == "2"

    def test_the_fact_feed_gives_each_fact_at_its_last_change(self, store: Store) -> None:
        for n in range(3):
            store.save_fact("t", Fact(str(n), f"fact {n}"))
        store.save_fact("t", Fact("0", "fact 0"))
        before = [change.id for change in store.fact_changes("t", 0)]
        assert before == ["0", "1", "2"], "an equal fact changes nothing"
        store.amend_fact("t", "0", lambda fact: replace(fact, trust=0.9))
        store.forget("t", "1")
        lines = store.fact_changes("t", 0)
        assert [(line.id, line.fact and line.fact.trust) for line in lines] == [
            ("2", 0.5),
            ("0", 0.9),
            ("1", None),
        ]
        assert [line.id for line in store.fact_changes("t", lines[0].seq)] == ["0", "1"]
        assert store.fact_changes("t", lines[-1].seq) == []
        assert store.fact_changes("u", 0) == []

    def test_a_review_is_decided_once(self, store: Store) -> None:
        review = Review("r", "why?", grades={"a": 0.25}, created=2.0)
        store.save_review("t", review)
        store.save_review("t", Review("q", "how?", created=1.0))
        assert [r.id for r in store.reviews("t")] == ["q", "r"]
        answered = replace(review, status="answered", answer="so", who="ann", decided=3.0)
        assert store.decide("t", answered)
        assert not store.decide("t", replace(review, status="rejected"))
        assert not store.decide("u", answered)
        assert store.review("t", "r") == answered
        assert [r.id for r in store.reviews("t", status="pending")] == ["q"]
        with pytest.raises(InputError, match="already answered"):
            store.save_review("t", review)

    def test_a_decision_and_its_fact_are_one(self, store: Store) -> None:
        review = Review("r", "why?", created=1.0)
        store.save_review("t", review)
        store.save_fact("t", Fact("found", "found before"))
        answered = replace(review, status="answered", answer="so")

        def fail(_: Fact) -> Fact:
            raise StoreError("in the middle")

        with pytest.raises(StoreError):
            store.decide("t", answered, fact=Fact("f", "why? so"), ids=["found"], amend=fail)
        assert store.review("t", "r") == review
        assert store.fact("t", "f") is None

        def trust(fact: Fact) -> Fact:
            return replace(fact, trust=0.9)

        ids = ["found", "no fact"]
        assert store.decide("t", answered, fact=Fact("f", "why? so"), ids=ids, amend=trust)
        assert {f.id: f.trust for f in store.facts("t")} == {"f": 0.5, "found": 0.9}
        assert not store.decide("t", answered, fact=Fact("g", "late"))
        assert store.fact("t", "g") is None

    def test_an_answer_that_is_known_already_amends_the_known_fact(self, store: Store) -> None:
        store.save_review("t", Review("r", "why?"))
        store.save_fact("t", Fact("old", "Why? So."))
        decided = Review("r", "why?", status="answered")
        fact = Fact("new", "why? so", trust=0.9)
        assert store.decide("t", decided, fact=fact, amend=lambda f: replace(f, trust=0.9))
        assert [(f.id, f.trust) for f in store.facts("t")] == [("old", 0.9)]

    def test_no_more_reviews_wait_than_are_allowed(self, store: Store) -> None:
        one, two = Review("1", "why?"), Review("2", "how?")
        assert store.save_review("t", one, most=1)
        assert not store.save_review("t", two, most=1)
        assert store.review("t", "2") is None
        assert store.save_review("u", two, most=1)
        assert store.save_review("t", replace(one, note="once more"), most=1)
        assert store.decide("t", replace(one, status="rejected"))
        assert store.save_review("t", two, most=1)

    def test_of_many_deciders_one_wins(self, store: Store) -> None:
        review = Review("r", "why?")
        store.save_review("t", review)

        def judge(n: int) -> bool:
            return store.decide("t", replace(review, status="approved", who=str(n)))

        with ThreadPoolExecutor(8) as pool:
            wins = list(pool.map(judge, range(8)))
        assert sum(wins) == 1
        decided = store.review("t", "r")
        assert decided
        assert decided.who == str(wins.index(True))

    def test_a_secret_is_made_once_and_is_its_own_for_each_tenant(self, store: Store) -> None:
        with ThreadPoolExecutor(4) as pool:
            made = set(pool.map(store.secret, ["t"] * 8))
        assert len(made) == 1
        assert len(store.secret("t")) == 32
        assert store.secret("u") != store.secret("t")

    def test_a_rotated_secret_is_still_known(self, store: Store) -> None:
        first = store.secret("t")
        fresh = store.rotate("t", expires=100.0)
        assert store.secret("t") == fresh.key != first
        latest = store.rotate("t", expires=200.0)
        known = store.secrets("t")
        assert [s.key for s in known] == [latest.key, fresh.key, first]
        assert [s.expires for s in known] == [None, 200.0, 100.0]
