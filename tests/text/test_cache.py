"""The cache: bounded by bytes, and the least recently used forgotten first."""

import os
import tracemalloc
from threading import Thread

import pytest

from millgate.circles.masks import is_same
from millgate.text.cache import ENTRY_BYTES, Cache
from millgate.text.fence import quote
from millgate.text.redact import redact


def of_bytes(size, **limits):
    return Cache(size, lambda key, value: len(value), **limits)


def held(cache, keys):
    return [key for key in keys if cache.get(key) is not None]


def put(cache, **values):
    for key, value in values.items():
        cache.put(key, value)


def test_the_least_recently_used_leaves_when_there_are_too_many_bytes():
    cache = of_bytes(3 * (ENTRY_BYTES + 900))
    put(cache, a="x" * 900, b="x" * 900)
    cache.get("a")
    put(cache, c="x" * 900, d="x" * 900)
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
    put(cache, a="1", b="2", c="3")
    assert held(cache, "abc") == ["b", "c"]


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
            if cache.get(key) not in (None, f"{key:03}"):
                wrong.append(own)
            cache.put(key, f"{key:03}")

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
