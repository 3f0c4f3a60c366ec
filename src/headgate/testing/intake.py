"""IntakeContract: attachments, refusals, tenants and threads, as every store must handle them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from headgate.errors import InputError, StoreError
from headgate.protocols import Store
from headgate.testing.samples import document, follow
from headgate.types import Chunk, Document


class IntakeContract:
    """Attachments, what is refused, and who sees what."""

    def test_attachments_come_back_and_go_with_their_chunk(self, store: Store) -> None:
        store.put("t", [document("a", "one", "two", "three"), document("b", "four")])
        values = {"a#0": b"\x00\x01", "a#1": b"", "a#2": b"z", "b": b"w", "nobody": b"x"}
        assert store.attach("t", "main", "print/1", values) == 4
        assert store.attach("t", "main", "vector/2", {"b": b"v"}) == 1
        assert store.attached("t", "main", "print/1", ["a#1", "a#0", "q"]) == {
            "a#1": b"",
            "a#0": b"\x00\x01",
        }
        store.put("t", [document("a", "one", "TWO")])
        store.remove("t", "main", documents=["b"])
        names = ["a#0", "a#1", "a#2", "b"]
        assert store.attached("t", "main", "print/1", names) == {"a#0": b"\x00\x01"}
        assert dict(store.kinds("t", "main")) == {"print/1": 1}

    def test_attachments_stay_when_only_metadata_changes(self, store: Store) -> None:
        store.put("t", [document("a", "one")])
        store.attach("t", "main", "k", {"a": b"1"})
        one = document("a", "one")
        store.put("t", [replace(one, chunks=(replace(one.chunks[0], metadata={"x": 1}),))])
        assert store.attached("t", "main", "k", ["a"]) == {"a": b"1"}

    def test_bytes_of_an_older_text_are_refused(self, store: Store) -> None:
        store.put("t", [document("a", "old"), document("b", "same")])
        seen = store.head("t", "main")
        store.put("t", [document("a", "new")])
        assert store.attach("t", "main", "k", {"a": b"old", "b": b"same"}, seen=seen) == 1
        assert store.attached("t", "main", "k", ["a", "b"]) == {"b": b"same"}

    def test_attaching_again_replaces(self, store: Store) -> None:
        store.put("t", [document("a", "one")])
        store.attach("t", "main", "k", {"a": b"1"})
        store.attach("t", "main", "k", {"a": b"2"})
        assert store.attached("t", "main", "k", ["a"]) == {"a": b"2"}

    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (Document(""), "document id"),
            (Document("a", collection=""), "collection"),
            (Document("a" * 2000), "at most 1024"),
            (Document("a", chunks=(Chunk("", "x", document="a"),)), "chunk id"),
            (Document("a", chunks=(Chunk("x", "\ud800", document="a"),)), "surrogate"),
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

    def test_tenants_see_nothing_of_each_other(self, store: Store) -> None:
        store.put("t", [document("a", "ours", "too")])
        store.attach("t", "main", "k", {"a#0": b"1"})
        store.put("u", [document("a", "theirs")])
        assert [c.text for c in store.scan("u", "main")] == ["theirs"]
        assert store.chunks("u", "main", ["a#0"]) == []
        assert store.attached("u", "main", "k", ["a#0"]) == {}
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
