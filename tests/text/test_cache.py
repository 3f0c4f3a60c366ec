"""What is remembered of texts: so many bytes, the least recently used forgotten first."""

import tracemalloc

import pytest

from headgate.guard.masks import is_same
from headgate.relevance.cues import speaks_of_time
from headgate.text.cache import Recent
from headgate.text.fence import quote
from headgate.text.redact import redact


def held(recent, keys):
    return [key for key, value in zip(keys, recent.find(keys), strict=True) if value is not None]


def test_the_least_recently_used_leaves_when_there_are_too_many_bytes():
    recent = Recent(3 * 1_200, lambda key, value: len(key) + len(value))
    recent.keep({"a": "x" * 900, "b": "x" * 900})
    recent.find(["a"])
    recent.keep({"c": "x" * 900, "d": "x" * 900})
    assert held(recent, "abcd") == ["a", "c", "d"]


def test_what_is_larger_than_all_room_is_not_kept():
    recent = Recent(1_000, lambda key, value: len(value))
    recent.keep({"a": "x" * 500})
    recent.keep({"b": "x" * 2_000})
    assert held(recent, "ab") == []
    recent.keep({"a": "x" * 500})
    assert held(recent, "ab") == ["a"]


def test_a_value_in_place_of_another_takes_its_room():
    recent = Recent(1_500, lambda key, value: len(value))
    for size in (900, 100, 900):
        recent.keep({"a": "x" * size})
    recent.keep({"b": "x" * 100})
    assert held(recent, "ab") == ["a", "b"]


LONG = "The ferry leaves at nine. " * 300


@pytest.mark.parametrize(
    "read",
    [redact, quote, speaks_of_time, lambda text: is_same(text, f"{text}.")],
    ids=["redact", "quote", "speaks of time", "compare results"],
)
def test_long_texts_that_were_read_are_not_held(read):
    read(LONG)
    tracemalloc.start()
    try:
        for n in range(200):
            read(f"{n} {LONG}")
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < len(LONG) * 20
