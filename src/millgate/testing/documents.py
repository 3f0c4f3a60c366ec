"""DocumentContract and AttachmentContract: what every store promises about documents, chunks, the bytes that are kept
beside a chunk, and the change feed.
"""

from dataclasses import replace

import pytest

from millgate.errors import InputError
from millgate.protocols import Store
from millgate.testing.samples import document, follow
from millgate.types import Attachment, Change, Chunk, Document, Size


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
        store.put("t", [document("a", "one", "two", "three", digest="old")])
        store.put("t", [document("a", "one", "zwei", digest="new")])
        assert [chunk.text for chunk in store.scan("t", "main")] == ["one", "zwei"]
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
        store.put("t", [document("a", "one", "two")])
        head = store.head("t", "main")
        assert store.put("t", [document("a", "one", "two", digest="other")]) == 0
        assert store.head("t", "main") == head
        assert dict(store.digests("t", "main")) == {"a": "other"}

    def test_a_changed_metadata_is_a_change(self, store: Store) -> None:
        store.put("t", [document("a", "one")])
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
            store.put("t", [document("a", text)])
        store.remove("t", "main", documents=["a"])
        store.put("t", [document("a", "four")])
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
        store.put("t", [document("z", "one")])
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
        store.put("t", [document("a", "one")])
        thief = Document("b", chunks=(Chunk("a", "mine", document="b"),))
        with pytest.raises(InputError, match="both claim the chunk id 'a'"):
            store.put("t", [document("c", "three"), thief])
        assert [c.text for c in store.scan("t", "main")] == ["one"], "nothing of the batch stays"
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
        store.put("t", [document("a", "12", "345")])
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
        store.put("t", [document("a", "one", "TWO")])
        store.remove("t", "main", documents=["b"])
        names = ["a#0", "a#1", "a#2", "b"]
        assert store.attachments("t", "main", "print/1", names) == {"a#0": b"\x00\x01"}
        assert dict(store.kinds("t", "main")) == {"print/1": 1}

    def test_attachments_stay_when_only_metadata_changes(self, store: Store) -> None:
        store.put("t", [document("a", "one")])
        store.attach("t", "main", "k", {"a": b"1"})
        one = document("a", "one")
        store.put("t", [replace(one, chunks=(replace(one.chunks[0], metadata={"x": 1}),))])
        assert store.attachments("t", "main", "k", ["a"]) == {"a": b"1"}

    def test_bytes_of_an_older_text_are_refused(self, store: Store) -> None:
        store.put("t", [document("a", "old"), document("b", "same")])
        seen = store.head("t", "main")
        store.put("t", [document("a", "new")])
        assert store.attach("t", "main", "k", {"a": b"old", "b": b"same"}, seen=seen) == 1
        assert store.attachments("t", "main", "k", ["a", "b"]) == {"b": b"same"}

    def test_bytes_put_with_their_documents_belong_to_them(self, store: Store) -> None:
        store.put("t", [document("b", "other")])
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
        store.put("t", [document("a", "one")])
        store.attach("t", "main", "k", {"a": b"1"})
        store.attach("t", "main", "k", {"a": b"2"})
        assert store.attachments("t", "main", "k", ["a"]) == {"a": b"2"}
