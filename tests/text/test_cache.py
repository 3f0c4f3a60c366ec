"""The cache: bounded by bytes, the least recently used forgotten first, and emptied by one call."""

import os
import tracemalloc
from threading import Thread

import pytest

from millgate.circles.masks import is_same
from millgate.text.cache import ENTRY_BYTES, Cache, clear_caches
from millgate.text.fence import quote
from millgate.text.redact import redact


def of_bytes(size, **limits):
    return Cache(size, lambda key, value: len(value), **limits)


def held(cache, keys):
    return [key for key, value in zip(keys, cache.get_many(keys), strict=True) if value is not None]


def test_the_least_recently_used_leaves_when_there_are_too_many_bytes():
    cache = of_bytes(3 * (ENTRY_BYTES + 900))
    cache.put_many({"a": "x" * 900, "b": "x" * 900})
    cache.get("a")
    cache.put_many({"c": "x" * 900, "d": "x" * 900})
    assert held(cache, "abcd") == ["a", "c", "d"]
    assert cache.bytes == 3 * (ENTRY_BYTES + 900)


def test_what_is_larger_than_the_cache_is_not_kept_and_displaces_nothing():
    cache = of_bytes(1_000)
    cache.put("a", "x" * 500)
    cache.put("b", "x" * 2_000)
    assert held(cache, "ab") == ["a"]


def test_a_value_in_place_of_another_takes_its_bytes():
    cache = of_bytes(1_500)
    for size in (900, 100, 900):
        cache.put("a", "x" * size)
    cache.put("b", "x" * 100)
    assert held(cache, "ab") == ["a", "b"]


def test_there_are_never_more_entries_than_allowed():
    cache = of_bytes(10_000, max_entries=2)
    cache.put_many({"a": "1", "b": "2", "c": "3"})
    assert held(cache, "abc") == ["b", "c"]


def test_what_is_too_old_is_not_found():
    now = 0.0
    cache = of_bytes(10_000, max_age_s=60, clock=lambda: now)
    cache.put("a", "x")
    now = 59.0
    assert cache.get("a") == "x"
    now = 60.0
    assert cache.get("a") is None


def test_only_things_whose_keys_are_new_are_computed_each_once_and_together():
    cache, asked = of_bytes(10_000), []

    def shout(things):
        asked.append(things)
        return [thing.upper() for thing in things]

    assert cache.read([1, 2, 1], ["tide", "quay", "tide"], shout) == ["TIDE", "QUAY", "TIDE"]
    assert cache.read([2, 3], ["quay", "pier"], shout) == ["QUAY", "PIER"]
    assert cache.read([3], ["pier"], shout) == ["PIER"]
    assert asked == [["tide", "quay"], ["pier"]]


def test_what_is_taken_out_is_gone_with_its_bytes():
    cache = of_bytes(10_000)
    cache.put_many({"a": "1", "b": "2"})
    assert cache.items() == [("b", "2"), ("a", "1")]
    assert (cache.pop("a"), cache.pop("a")) == ("1", None)
    assert (len(cache), cache.bytes) == (1, ENTRY_BYTES + 1)


def test_one_call_empties_all_caches():
    first, second = of_bytes(10_000), of_bytes(10_000)
    first.put("a", "1")
    second.put("b", "2")
    clear_caches()
    assert (len(first), first.bytes, len(second)) == (0, 0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_begins_empty_even_if_the_lock_was_held():
    cache = of_bytes(10_000)
    cache.put("a", "1")
    with cache._lock:
        child = os.fork()
        if not child:
            os._exit(0 if cache.get("a") is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert cache.get("a") == "1"


def test_threads_that_share_a_cache_get_their_own_values():
    cache, wrong = of_bytes(20 * (ENTRY_BYTES + 3)), []

    def work(own):
        for n in range(2_000):
            key = n % 30
            if cache.read([key], [key], lambda things: [f"{n:03}" for n in things]) != [
                f"{key:03}"
            ]:
                wrong.append(own)

    threads = [Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cache.bytes == len(cache) * (ENTRY_BYTES + 3) <= 20 * (ENTRY_BYTES + 3)


LONG = "The ferry leaves at nine. " * 300


@pytest.mark.parametrize(
    "read",
    [redact, quote, lambda text: is_same(text, f"{text}.")],
    ids=["redact", "quote", "compare results"],
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


def test_looking_for_what_is_too_old_is_not_a_use():
    now = [0.0]
    cache = Cache[str, int](10_000, max_entries=2, max_age_s=10, clock=lambda: now[0])
    cache.put("old", 1)
    now[0] = 11.0
    cache.put("new", 2)
    assert cache.get("old") is None
    cache.put("newer", 3)
    assert (cache.get("new"), cache.get("newer")) == (2, 3)
