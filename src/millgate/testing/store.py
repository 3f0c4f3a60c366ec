"""StoreContract: what every store promises, as tests.

Inherit from it and give a `store` fixture that yields an empty store:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self): ...
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from millgate.errors import InputError, StoreError
from millgate.protocols import Store
from millgate.testing.accounts import KeyContract, SpendContract
from millgate.testing.documents import AttachmentContract, DocumentContract
from millgate.testing.records import RecordContract
from millgate.testing.samples import document, follow
from millgate.testing.traces import TraceContract
from millgate.types import Chunk, Document


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
            (document("a", "t", collection="c"), None),
            (Document("a", chunks=(Chunk("x", "t"), Chunk("y", "t"))), "in order"),
            (Document("a", chunks=(Chunk("x", "t"), Chunk("x", "t", position=1))), "twice"),
            (Document("a", chunks=(Chunk("x", "t", metadata={"k": object()}),)), "JSON"),
        ],
    )
    def test_what_cannot_be_stored_is_refused_whole(
        self, store: Store, bad: Document, says: str | None
    ) -> None:
        if says is None:
            store.put("t", [bad])
            return
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
        store.put("t", [document("a", "ours", "too")])
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
                store.put("t", [document(f"d{n}-{step}", "x", "y")])
                assert len(list(store.scan("t", "main"))) >= 2 * (step + 1)
            return store.head("t", "main")

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))
        assert len(follow(store, "t", "main", limit=50)) == 80

    def test_a_closed_store_says_so(self, store: Store) -> None:
        store.put("t", [document("a", "one")])
        store.close()
        store.close()
        with pytest.raises(StoreError, match="closed"):
            store.head("t", "main")
