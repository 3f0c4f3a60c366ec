"""StoreContract: what every store promises, as tests.

Inherit from it and give a `store` fixture that yields an empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self): ...
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from millgate.errors import InputError, StoreError
from millgate.protocols import Store
from millgate.testing.samples import add, document, follow, texts, trace
from millgate.types import (
    Attachment,
    Change,
    Chunk,
    Document,
    Edge,
    Fact,
    Key,
    Review,
    Size,
    Spend,
    SpendScope,
    TrustChange,
    Window,
)
from millgate.types.notes import Stage

BOTH: list[tuple[SpendScope, str]] = [("session", "s"), ("tenant", "")]


def _add(rows: list[Spend]) -> list[Spend]:
    return [replace(row, tokens=row.tokens + 1, last=row.last + 1) for row in rows]


class DocumentContract:
    """Documents, chunks, and the change feed."""

    def test_an_empty_store_answers_with_nothing(self, store: Store) -> None:
        assert list(store.scan("t", "main")) == []
        assert store.chunks("t", "main", ["a"]) == []
        assert store.changes("t", "main", 0) == []
        assert store.head("t", "main") == 0
        assert dict(store.collections("t")) == {}
        assert dict(store.digests("t", "main")) == {}
        assert dict(store.kinds("t", "main")) == {}
        assert store.remove("t", "main") == 0

    def test_a_chunk_comes_back_whole(self, store: Store) -> None:
        chunk = Chunk(
            "a",
            "line\n\x00 é 漢 🜁",
            document="d",
            collection="c",
            source="turn",
            title="T",
            position=3,
            metadata={"deep": {"list": [1, 2.5, None, "x"]}},
            admission="0badge",
        )
        store.put("t", [Document("d", collection="c", chunks=(chunk,))])
        assert store.chunks("t", "c", ["a"]) == [chunk]
        assert list(store.scan("t", "c")) == [chunk]

    def test_chunks_come_in_the_order_asked_and_once(self, store: Store) -> None:
        store.put("t", [document("a", "1"), document("b", "2"), document("c", "3")])
        found = store.chunks("t", "main", ["c", "nobody", "a", "c"])
        assert [chunk.id for chunk in found] == ["c", "a"]

    def test_a_chunk_without_a_document_takes_the_one_it_stands_in(self, store: Store) -> None:
        store.put("t", [Document("d", collection="c", chunks=(Chunk("x", "text"),))])
        (chunk,) = store.chunks("t", "c", ["x"])
        assert (chunk.document, chunk.collection) == ("d", "c")

    def test_many_ids_can_be_asked_for_at_once(self, store: Store) -> None:
        names = [f"n{n}" for n in range(2500)]
        store.put("t", [document(name, name) for name in names])
        assert [chunk.id for chunk in store.chunks("t", "main", names)] == names
        assert len(store.digests("t", "main", names)) == len(names)

    def test_a_document_replaces_its_former_self_whole(self, store: Store) -> None:
        add(store, "a", "one", "two", "three", digest="old")
        add(store, "a", "one", "zwei", digest="new")
        assert texts(store) == ["one", "zwei"]
        assert dict(store.digests("t", "main")) == {"a": "new"}

    def test_of_two_documents_with_one_id_the_later_stands(self, store: Store) -> None:
        store.put("t", [document("a", "first"), document("b", "x"), document("a", "second")])
        assert {chunk.text for chunk in store.scan("t", "main")} == {"second", "x"}

    def test_only_what_changed_reaches_the_feed(self, store: Store) -> None:
        assert store.put("t", [document("a", "one", "two"), document("b", "three")]) == 3
        head = store.head("t", "main")
        assert store.put("t", [document("a", "one", "TWO"), document("b", "three")]) == 1
        assert [change.id for change in store.changes("t", "main", head)] == ["a#1"]

    def test_an_unchanged_put_leaves_the_feed_alone(self, store: Store) -> None:
        add(store, "a", "one", "two")
        head = store.head("t", "main")
        assert add(store, "a", "one", "two", digest="other") == 0
        assert store.head("t", "main") == head
        assert dict(store.digests("t", "main")) == {"a": "other"}

    def test_a_changed_metadata_is_a_change(self, store: Store) -> None:
        add(store, "a", "one")
        head = store.head("t", "main")
        one = document("a", "one")
        marked = replace(one.chunks[0], metadata={"k": "v"})
        store.put("t", [replace(one, chunks=(marked,))])
        (change,) = store.changes("t", "main", head)
        assert change.chunk == marked

    def test_the_feed_tells_removals(self, store: Store) -> None:
        store.put("t", [document("a", "one"), document("b", "two")])
        head = store.head("t", "main")
        assert store.remove("t", "main", documents=["a"]) == 1
        (change,) = store.changes("t", "main", head)
        assert (change.id, change.chunk) == ("a", None)
        assert follow(store, "t", "main").keys() == {"b"}

    def test_a_chunk_stands_in_the_feed_once(self, store: Store) -> None:
        for text in ("one", "two", "three"):
            add(store, "a", text)
        store.remove("t", "main", documents=["a"])
        add(store, "a", "four")
        (change,) = store.changes("t", "main", 0)
        assert change.chunk
        assert change.chunk.text == "four"

    def test_the_feed_comes_in_pages(self, store: Store) -> None:
        store.put("t", [document(f"d{n}", "x", "y") for n in range(10)])
        store.remove("t", "main", documents=["d3", "d4"])
        assert len(store.changes("t", "main", 0, 7)) == 7
        assert follow(store, "t", "main") == {c.id: c for c in store.scan("t", "main")}

    def test_reading_order_survives_replacement(self, store: Store) -> None:
        store.put("t", [document("z", "1"), document("a", "2", "3"), document("m", "4")])
        add(store, "z", "one")
        order = [chunk.id for chunk in store.scan("t", "main")]
        assert order == ["z", "a#0", "a#1", "m"]

        def spot(change: Change) -> tuple[int, int]:
            assert change.chunk
            return change.place, change.chunk.position

        placed = sorted(store.changes("t", "main", 0), key=spot)
        assert [change.id for change in placed] == order

    def test_one_document_can_be_read(self, store: Store) -> None:
        store.put("t", [document("a", "1"), document("b", "2", "3")])
        assert [c.text for c in store.scan("t", "main", document="b")] == ["2", "3"]
        assert list(store.scan("t", "main", document="nobody")) == []

    def test_two_documents_cannot_claim_one_chunk(self, store: Store) -> None:
        add(store, "a", "one")
        thief = Document("b", chunks=(Chunk("a", "mine", document="b"),))
        with pytest.raises(InputError, match="both claim the chunk id 'a'"):
            store.put("t", [document("c", "three"), thief])
        assert texts(store) == ["one"], "nothing of the batch stays"
        same_ids = [Document(d, chunks=(Chunk("x", d, document=d),)) for d in ("p", "q")]
        with pytest.raises(InputError, match="both claim"):
            store.put("t", same_ids)

    def test_a_chunk_may_move_to_another_document_of_the_same_put(self, store: Store) -> None:
        store.put("t", [Document("a", chunks=(Chunk("x", "text", document="a"),))])
        moved = Document("b", chunks=(Chunk("x", "text", document="b"),))
        store.put("t", [Document("a"), moved])
        (chunk,) = store.chunks("t", "main", ["x"])
        assert chunk.document == "b"

    def test_removing_a_chunk_keeps_the_rest_and_clears_the_digest(self, store: Store) -> None:
        store.put("t", [document("a", "one", "two"), document("b", "three")])
        assert store.remove("t", "main", chunks=["a#0", "b", "nobody"]) == 2
        assert [c.id for c in store.scan("t", "main")] == ["a#1"]
        assert dict(store.digests("t", "main")) == {"a": ""}

    def test_removing_a_collection_leaves_the_others(self, store: Store) -> None:
        store.put("t", [document("a", "one", "two"), document("b", "three", collection="other")])
        assert store.remove("t", "main") == 2
        assert list(store.collections("t")) == ["other"]
        assert follow(store, "t", "main") == {}

    def test_collections_tell_their_size(self, store: Store) -> None:
        store.put("t", [document("a", "12", "345"), document("b", "6", collection="other")])
        store.put("t", [document("a", "12", "3456"), Document("e", digest="x")])
        assert dict(store.collections("t")) == {
            "main": Size(documents=2, chunks=2, chars=6),
            "other": Size(documents=1, chunks=1, chars=1),
        }

    def test_one_collection_tells_its_size(self, store: Store) -> None:
        add(store, "a", "12", "345")
        assert store.size("t", "main") == Size(documents=1, chunks=2, chars=5)
        assert store.size("t", "other") == store.size("u", "main") == Size()

    def test_the_last_two_marks_of_an_index_are_known(self, store: Store) -> None:
        assert store.index_marks("t", "main") == ()
        store.mark_index("t", "main", "one", former="")
        assert store.index_marks("t", "main") == ("one",)
        store.mark_index("t", "main", "two", former="one")
        assert store.index_marks("t", "main") == ("two", "one")
        assert store.index_marks("t", "other") == store.index_marks("u", "main") == ()

    def test_an_empty_document_keeps_its_digest(self, store: Store) -> None:
        store.put("t", [Document("a", digest="seen")])
        assert dict(store.digests("t", "main", ["a", "b"])) == {"a": "seen"}


class AttachmentContract:
    """Attachments: kept by chunk and kind, gone with the text they were computed from."""

    def test_attachments_come_back_and_go_with_their_chunk(self, store: Store) -> None:
        store.put("t", [document("a", "one", "two", "three"), document("b", "four")])
        values = {"a#0": b"\x00\x01", "a#1": b"", "a#2": b"z", "b": b"w", "nobody": b"x"}
        assert store.attach("t", "main", "print/1", values) == 4
        assert store.attach("t", "main", "vector/2", {"b": b"v"}) == 1
        assert store.attachments("t", "main", "print/1", ["a#1", "a#0", "q"]) == {
            "a#1": b"",
            "a#0": b"\x00\x01",
        }
        add(store, "a", "one", "TWO")
        store.remove("t", "main", documents=["b"])
        names = ["a#0", "a#1", "a#2", "b"]
        assert store.attachments("t", "main", "print/1", names) == {"a#0": b"\x00\x01"}
        assert dict(store.kinds("t", "main")) == {"print/1": 1}

    def test_attachments_stay_when_only_metadata_changes(self, store: Store) -> None:
        add(store, "a", "one")
        store.attach("t", "main", "k", {"a": b"1"})
        one = document("a", "one")
        store.put("t", [replace(one, chunks=(replace(one.chunks[0], metadata={"x": 1}),))])
        assert store.attachments("t", "main", "k", ["a"]) == {"a": b"1"}

    def test_bytes_of_an_older_text_are_refused(self, store: Store) -> None:
        store.put("t", [document("a", "old"), document("b", "same")])
        seen = store.head("t", "main")
        add(store, "a", "new")
        assert store.attach("t", "main", "k", {"a": b"old", "b": b"same"}, seen=seen) == 1
        assert store.attachments("t", "main", "k", ["a", "b"]) == {"b": b"same"}

    def test_bytes_put_with_their_documents_belong_to_them(self, store: Store) -> None:
        add(store, "b", "other")
        given = [
            Attachment("main", "a#1", "k", b"two"),
            Attachment("main", "b", "k", b"not of this put"),
            Attachment("elsewhere", "a#1", "k", b"nor this"),
        ]
        store.put("t", [document("a", "one", "two")], attachments=given)
        assert store.attachments("t", "main", "k", ["a#0", "a#1", "b"]) == {"a#1": b"two"}
        clash = Document("c", chunks=(Chunk("b", "mine", document="c"),))
        with pytest.raises(InputError, match="both claim"):
            store.put("t", [document("a", "ONE", "TWO"), clash], attachments=[])
        assert store.attachments("t", "main", "k", ["a#1"]) == {"a#1": b"two"}

    def test_attaching_again_replaces(self, store: Store) -> None:
        add(store, "a", "one")
        store.attach("t", "main", "k", {"a": b"1"})
        store.attach("t", "main", "k", {"a": b"2"})
        assert store.attachments("t", "main", "k", ["a"]) == {"a": b"2"}


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


class TraceContract:
    """Traces: whole if that matters, bounded in number, age and bytes, and listed by their summaries."""

    def test_a_trace_comes_back_whole(self, store: Store) -> None:
        one = trace("1")
        store.save_trace(one)
        assert store.trace("t", "1") == one
        assert store.trace("u", "1") is None
        assert store.trace("t", "2") is None

    def test_a_trace_can_be_kept_without_text(self, store: Store) -> None:
        store.save_trace(trace("1"), text=False)
        kept = store.trace("t", "1")
        assert kept
        assert kept.request.query == ""
        assert not kept.request.window
        assert kept.candidates[0].chunk.text == ""
        assert kept.candidates[0].chunk.admission == "token"
        assert kept.candidates[0].notes == trace("1").candidates[0].notes
        assert store.traces("t")[0].query == ""

    def test_traces_come_newest_first_as_summaries(self, store: Store) -> None:
        for n in range(6):
            store.save_trace(trace(str(n), created=n), keep=4)
        store.save_trace(trace("x", tenant="u"), keep=4)
        assert [t.id for t in store.traces("t")] == ["5", "4", "3", "2"]
        assert [t.id for t in store.traces("t", limit=2)] == ["5", "4"]
        assert [t.id for t in store.traces("u")] == ["x"]
        newest = store.traces("t")[0]
        assert (newest.query, newest.candidates, newest.kept, newest.created) == ("who?", 1, 1, 5.0)

    def test_the_first_candidates_keep_all_notes_and_the_others_the_last(
        self, store: Store
    ) -> None:
        one = trace("1")
        (candidate,) = one.candidates
        twice = replace(candidate, notes=candidate.notes * 2)
        many = tuple(replace(twice, chunk=Chunk(f"c{n}", "")) for n in range(30))
        store.save_trace(replace(one, candidates=many))
        kept = store.trace("t", "1")
        assert kept
        assert [len(c.notes) for c in kept.candidates] == [2] * 20 + [1] * 10
        assert [c.chunk.id for c in kept.candidates] == [c.chunk.id for c in many]

    def test_the_text_of_a_stored_chunk_comes_back(self, store: Store) -> None:
        page = document("a", "a text that the store holds")
        store.put("t", [page])
        one = trace("1")
        (candidate,) = one.candidates
        with_chunk = replace(one, candidates=(replace(candidate, chunk=page.chunks[0]),))
        store.save_trace(with_chunk)
        assert store.trace("t", "1") == with_chunk

    def test_a_huge_window_is_not_kept_and_the_trace_says_so(self, store: Store) -> None:
        one = trace("1")
        huge = replace(one.request, window=Window(("word " * 100_000,)))
        store.save_trace(replace(one, request=huge))
        kept = store.trace("t", "1")
        assert kept
        assert not kept.request.window
        last = kept.steps[-1]
        assert (last.stage, last.facts["window_chars"]) == (Stage.TRACE, 500_000)

    def test_pruning_holds_count_age_and_bytes_for_every_tenant(self, store: Store) -> None:
        clock = 1_000_000.0

        def fill(tenant: str) -> None:
            for n in range(6):
                store.save_trace(trace(str(n), tenant=tenant, created=clock + n))

        def ids(tenant: str) -> list[str]:
            return [one.id for one in store.traces(tenant)]

        fill("t")
        fill("u")
        assert store.prune_traces(keep=10) == 0
        assert store.prune_traces(keep=4) == 4
        assert ids("t") == ids("u") == ["5", "4", "3", "2"]
        assert store.prune_traces(keep=10, max_bytes=1) == 8
        fill("t")
        assert store.prune_traces(keep=0) == 6
        fill("t")
        assert store.prune_traces(keep=10, age_s=1.0) == 6

    def test_a_trace_saved_again_replaces_itself(self, store: Store) -> None:
        store.save_trace(trace("1"))
        again = replace(trace("1"), created=9.0)
        store.save_trace(again)
        assert store.trace("t", "1") == again
        assert len(store.traces("t")) == 1


class KeyContract:
    """API keys: found by hash, listed and revoked by tenant."""

    def test_a_key_is_found_by_its_hash_and_listed_for_its_tenant(self, store: Store) -> None:
        mine = Key("1", "hash-1", "t", ("read", "write"), "laptop", created=2.0)
        other = Key("1", "hash-2", "u", ("admin",), created=1.0)
        store.save_key(mine)
        store.save_key(other)
        assert store.key("hash-1") == mine
        assert store.key("hash-3") is None
        assert store.keys("t") == [mine]
        assert store.keys() == [other, mine]

    def test_a_key_is_revoked_once_and_by_its_own_tenant(self, store: Store) -> None:
        store.save_key(Key("1", "hash-1", "t"))
        assert not store.revoke("u", "1")
        assert store.revoke("t", "1")
        assert not store.revoke("t", "1")
        found = store.key("hash-1")
        assert found
        assert found.revoked is not None
        assert store.keys("t") == [found]

    @pytest.mark.parametrize(
        "bad",
        [
            Key("2", "hash-1", "t"),
            Key("1", "hash-2", "t"),
            Key("", "hash-2", "t"),
            Key("2", "", "t"),
            Key("2", "hash-2", ""),
            Key("2", "hash-2", "t", ()),
        ],
    )
    def test_no_two_keys_are_alike_and_none_is_empty(self, store: Store, bad: Key) -> None:
        good = Key("1", "hash-1", "t")
        store.save_key(good)
        with pytest.raises(InputError):
            store.save_key(bad)
        assert store.keys() == [good]


class SpendContract:
    """Spends: changed several at a time and as one step, listed newest first."""

    def test_spends_begin_at_zero_and_are_kept(self, store: Store) -> None:
        first = store.amend_spends("t", BOTH, _add)
        assert [(row.scope, row.name, row.tokens) for row in first] == [
            ("session", "s", 1),
            ("tenant", "", 1),
        ]
        assert [row.tokens for row in store.amend_spends("t", BOTH[:1], _add)] == [2]
        assert [row.tokens for row in store.spends("t")] == [2, 1]
        assert [row.scope for row in store.spends("t", scope="tenant")] == ["tenant"]
        assert store.spends("t", limit=1)[0].scope == "session"
        assert store.spends("u") == []

    def test_no_spend_is_lost_between_writers(self, store: Store) -> None:
        def spend(_: int) -> None:
            for _step in range(10):
                store.amend_spends("t", BOTH, _add)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(spend, range(4)))
        assert [row.tokens for row in store.spends("t")] == [40, 40]

    def test_a_change_that_fails_changes_nothing(self, store: Store) -> None:
        store.amend_spends("t", BOTH, _add)

        def break_off(rows: list[Spend]) -> list[Spend]:
            raise KeyError(rows[0].name)

        with pytest.raises(KeyError):
            store.amend_spends("t", BOTH, break_off)
        assert [row.tokens for row in store.spends("t")] == [1, 1]

    def test_a_change_keeps_to_the_rows_it_was_given(self, store: Store) -> None:
        with pytest.raises(InputError):
            store.amend_spends("t", BOTH, lambda rows: rows[:1])
        with pytest.raises(InputError):
            store.amend_spends("t", BOTH, lambda rows: [replace(row, name="x") for row in rows])
        with pytest.raises(InputError):
            store.amend_spends("", BOTH, _add)
        assert store.spends("t") == []

    def test_sessions_that_were_idle_are_forgotten(self, store: Store) -> None:
        store.amend_spends("t", BOTH, _add)
        store.amend_spends("t", [("session", "new")], lambda rows: [replace(rows[0], last=9.0)])
        assert store.forget_spends("t", idle_since=5.0) == 1
        assert [(row.scope, row.name) for row in store.spends("t")] == [
            ("session", "new"),
            ("tenant", ""),
        ]


class ValidationContract:
    """Bad documents and names are refused, and nothing of their batch is written."""

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (Document(""), "document id"),
            (Document("a", collection=""), "collection"),
            (Document("a" * 2000), "at most 1024"),
            (Document("a", chunks=(Chunk("", "x", document="a"),)), "chunk id"),
            (Document("a", chunks=(Chunk("x", "\ud800", document="a"),)), "surrogate"),
            (Document("a", chunks=(Chunk("x", "t" * 1_000_001),)), "at most 1,000,000"),
            (Document("a", chunks=(Chunk("x", "t", document="b"),)), "stands in document 'a'"),
            (Document("a", chunks=(Chunk("x", "t"), Chunk("y", "t"))), "in order"),
            (Document("a", chunks=(Chunk("x", "t"), Chunk("x", "t", position=1))), "twice"),
            (Document("a", chunks=(Chunk("x", "t", metadata={"k": object()}),)), "JSON"),
        ],
    )
    def test_what_cannot_be_stored_is_refused_whole(
        self, store: Store, bad: Document, says: str
    ) -> None:
        with pytest.raises(InputError, match=says):
            store.put("t", [document("good", "text"), bad])
        assert dict(store.collections("t")) == {}

    def test_a_tenant_needs_a_name(self, store: Store) -> None:
        with pytest.raises(InputError, match="tenant"):
            store.put("", [document("a", "x")])


class StoreContract(
    DocumentContract,
    AttachmentContract,
    RecordContract,
    TraceContract,
    KeyContract,
    SpendContract,
    ValidationContract,
):
    """Everything a store promises; give a `store` fixture and inherit."""

    @pytest.fixture
    def store(self) -> Iterator[Store]:
        """An empty store; every test class that keeps this contract gives its own."""
        raise AssertionError("override the `store` fixture with one that yields an empty store")

    def test_tenants_see_nothing_of_each_other(self, store: Store) -> None:
        add(store, "a", "ours", "too")
        store.attach("t", "main", "k", {"a#0": b"1"})
        store.put("u", [document("a", "theirs")])
        assert [c.text for c in store.scan("u", "main")] == ["theirs"]
        assert store.chunks("u", "main", ["a#0"]) == []
        assert store.attachments("u", "main", "k", ["a#0"]) == {}
        assert store.remove("u", "main") == 1
        assert len(list(store.scan("t", "main"))) == 2
        assert follow(store, "u", "main") == {}
        assert len(follow(store, "t", "main")) == 2
        assert dict(store.collections("u")) == {}

    def test_collections_of_a_tenant_are_apart(self, store: Store) -> None:
        store.put("t", [document("a", "one"), document("a", "two", collection="other")])
        assert [c.text for c in store.scan("t", "other")] == ["two"]
        assert follow(store, "t", "other").keys() == {"a"}

    def test_many_threads_write_and_read_at_once(self, store: Store) -> None:
        def work(n: int) -> int:
            for step in range(5):
                add(store, f"d{n}-{step}", "x", "y")
                assert len(list(store.scan("t", "main"))) >= 2 * (step + 1)
            return store.head("t", "main")

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
        assert len(follow(store, "t", "main", limit=50)) == 80

    def test_a_closed_store_says_so(self, store: Store) -> None:
        add(store, "a", "one")
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.head("t", "main")
