"""What one tenant may hold: documents, facts and edges together, counted inside the write."""

import pytest

from headgate.errors import QuotaError
from headgate.gateway import Headgate
from headgate.stores.sqlite.store import SqliteStore
from headgate.types import Chunk, Document, Edge, Fact


def document(id, text):
    return Document(id, chunks=(Chunk(id, text),))


@pytest.fixture
def store(tmp_path):
    opened = SqliteStore(tmp_path, tenant_bytes=10_000)
    yield opened
    opened.close()


def test_a_write_beyond_the_quota_is_refused_whole_and_says_which_limit(store):
    store.put("t", [document("a", "x" * 6_000)])
    with pytest.raises(QuotaError, match=r"limits\.tenant_bytes allows 10,000"):
        store.put("t", [document("b", "y"), document("c", "x" * 6_000)])
    assert list(store.digests("t", "main")) == ["a"]


def test_a_tenant_that_is_full_may_remove_shrink_and_then_add_again(store):
    store.put("t", [document("a", "x" * 9_900)])
    with pytest.raises(QuotaError):
        store.put("t", [document("b", "x" * 500)])
    store.put("t", [document("a", "x" * 100)])
    store.put("t", [document("b", "x" * 9_000)])
    store.remove("t", "main", documents=["b"])
    store.put("t", [document("c", "x" * 9_000)])


def test_other_tenants_have_their_own(store):
    store.put("t", [document("a", "x" * 9_000)])
    store.put("u", [document("a", "x" * 9_000)])


def test_metadata_facts_and_edges_count_too(store):
    store.put("t", [Document("a", metadata={"note": "m" * 4_000}, chunks=(Chunk("a", "text"),))])
    store.save_fact("t", Fact("f", "y" * 4_000))
    with pytest.raises(QuotaError):
        store.link("t", [Edge("s" * 900, f"{n}", "t" * 900) for n in range(2)])
    with pytest.raises(QuotaError):
        store.save_fact("t", Fact("g", "z" * 4_000))
    assert [fact.id for fact in store.facts("t")] == ["f"]


def test_texts_are_counted_as_they_are_stored_in_utf_8(store):
    with pytest.raises(QuotaError):
        store.put("t", [document("a", "語" * 4_000)])


def test_the_setting_holds_for_a_gate_over_a_folder(tmp_path):
    with Headgate.open(tmp_path, limits={"tenant_bytes": 2_000}) as gate:
        gate.add([{"id": "a", "text": "short"}])
        with pytest.raises(QuotaError, match="tenant_bytes"):
            gate.add([{"id": "b", "text": "long " * 1_000}])
        assert gate.collections()["main"].documents == 1
