"""QuotaContract: what a store promises that bounds how much one tenant may hold.

Inherit from it and give a `store` fixture that yields an empty store in which a tenant may hold 10 000 bytes.
"""

import pytest

from millgate.errors import QuotaError
from millgate.testing.samples import document
from millgate.types import Chunk, Document, Edge, Fact


class QuotaContract:
    """Documents, facts and edges count together, as UTF-8, and inside the write."""

    def test_a_write_beyond_the_quota_is_refused_whole_and_says_which_limit(self, store):
        store.put("t", [document("a", "x" * 6_000)])
        with pytest.raises(QuotaError, match=r"limits\.tenant_bytes allows 10,000"):
            store.put("t", [document("b", "y"), document("c", "x" * 6_000)])
        assert list(store.digests("t", "main")) == ["a"]

    def test_a_tenant_that_is_full_may_remove_shrink_and_then_add_again(self, store):
        store.put("t", [document("a", "x" * 9_900)])
        with pytest.raises(QuotaError):
            store.put("t", [document("b", "x" * 500)])
        store.put("t", [document("a", "x" * 100)])
        store.put("t", [document("b", "x" * 9_000)])
        store.remove("t", "main", documents=["b"])
        store.put("t", [document("c", "x" * 9_000)])

    def test_other_tenants_have_their_own(self, store):
        store.put("t", [document("a", "x" * 9_000)])
        store.put("u", [document("a", "x" * 9_000)])
        store.link("v", [_edge(9_000)])
        store.link("w", [_edge(9_000)])

    def test_metadata_facts_and_edges_count_too(self, store):
        store.put(
            "t", [Document("a", metadata={"note": "m" * 4_000}, chunks=(Chunk("a", "text"),))]
        )
        store.save_fact("t", Fact("f", "y" * 4_000))
        with pytest.raises(QuotaError):
            store.link("t", [Edge("s" * 900, f"{n}", "t" * 900) for n in range(2)])
        with pytest.raises(QuotaError):
            store.save_fact("t", Fact("g", "z" * 4_000))
        assert [fact.id for fact in store.facts("t")] == ["f"]
        assert not store.has_edges("t")

    def test_texts_are_counted_as_they_are_stored_in_utf_8(self, store):
        with pytest.raises(QuotaError):
            store.put("t", [document("a", "語" * 4_000)])
        with pytest.raises(QuotaError):
            store.link("t", [Edge("a", "is", "b", provenance="語" * 4_000)])

    def test_an_edge_counts_once_and_as_it_is_now(self, store):
        for _ in range(3):
            store.link("t", [_edge(4_000), _edge(4_000)])
        store.link("t", [_edge(9_000)])
        with pytest.raises(QuotaError):
            store.link("t", [_edge(900), Edge("b", "is", "c", provenance="y" * 9_500)])
        with pytest.raises(QuotaError):
            store.put("t", [document("a", "x" * 2_000)])
        store.link("t", [_edge(1_000)])
        store.put("t", [document("a", "x" * 8_000)])

    def test_what_was_unlinked_or_forgotten_does_not_count(self, store):
        for _ in range(3):
            store.link("t", [_edge(9_000)])
            store.unlink("t", [_edge(0), Edge("no", "such", "edge")])
            store.save_fact("t", Fact("f", "y" * 4_000))
            store.save_fact("t", Fact("f", "y" * 9_000))
            assert store.forget("t", "f")
        store.put("t", [document("a", "x" * 9_500)])

    def test_a_refused_write_leaves_the_count_as_it_was(self, store):
        store.link("t", [_edge(5_000)])
        for _ in range(3):
            with pytest.raises(QuotaError):
                store.link("t", [Edge("b", "is", "c", provenance="y" * 6_000)])
            with pytest.raises(QuotaError):
                store.save_fact("t", Fact("f", "y" * 6_000))
        store.save_fact("t", Fact("f", "y" * 4_000))


def _edge(size):
    return Edge("a", "is", "b", provenance="x" * size)
