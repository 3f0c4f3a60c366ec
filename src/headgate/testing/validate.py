"""ValidationContract: what every store refuses before it writes."""

import pytest

from headgate.errors import InputError
from headgate.protocols import Store
from headgate.testing.samples import document
from headgate.types import Chunk, Document


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
