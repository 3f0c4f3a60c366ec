"""Values as JSON and back; what cannot be written or read says why."""

import pytest

from millgate.errors import InputError, StoreError
from millgate.stores.codec import decode, decode_metadata, encode
from millgate.types import Edge, Request


@pytest.mark.parametrize("value", [{"a", "b"}, frozenset({1}), b"x", object()])
def test_what_would_come_back_as_something_else_is_refused(value):
    with pytest.raises(InputError, match="cannot be stored as JSON") as raised:
        encode({"names": [value]})
    assert "lists" in raised.value.hint


def test_a_value_comes_back_and_a_damaged_one_says_what_is_wrong():
    edge = Edge("a", "to", "b", weight=0.5)
    assert decode(Edge, encode(edge)) == edge
    for kind, damaged, why in (
        (Edge, '{"source": "a"}', "Field required"),
        (Request, '{"query": "x", "k": 0}', "k is 0"),
    ):
        with pytest.raises(
            StoreError, match=f"a stored {kind.__name__} cannot be read: "
        ) as raised:
            decode(kind, damaged)
        assert why in raised.value.message
        assert "another version" in raised.value.hint


def test_empty_metadata_are_none():
    assert (decode_metadata(""), decode_metadata('{"a":1}')) == ({}, {"a": 1})
