"""AttachmentContract: what every store promises about bytes that are kept beside a chunk."""

from dataclasses import replace

import pytest

from headgate.errors import InputError
from headgate.protocols import Store
from headgate.testing.samples import document
from headgate.types import Attachment, Chunk, Document


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
