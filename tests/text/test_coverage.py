"""Coverage by the index, by the sketch, and through the cache."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.testing import FixedClock
from millgate.text.coverage import HashSet, WindowIndex, near_copies
from millgate.text.fingerprint import pack
from millgate.text.hashes import Tokens
from millgate.text.sketch import Sketch
from millgate.text.window_cache import WindowCache, appended_texts
from millgate.text.words import tokens

WORDS = [f"w{i}" for i in range(3000)]
TEXTS = st.lists(st.sampled_from("abcde"), max_size=40).map(" ".join)


def shingles(tokens, size):
    """All runs of `size` neighboring tokens; none when there are fewer."""
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def prose(count, seed=0):
    rng = random.Random(seed)
    return [rng.choice(WORDS) for _ in range(count)]


def plain_coverage(window, text):
    """The definition, word for word."""
    seen, read = tokens(window), tokens(text)
    size = 5 if len(read) >= 20 else min(3, len(read))
    known = set(shingles(seen, size))
    covered = {i + k for i, s in enumerate(shingles(read, size)) if s in known for k in range(size)}
    return len(covered) / len(read) if read else 0.0


@given(st.lists(TEXTS, max_size=3), st.lists(TEXTS, max_size=6))
def test_coverage_is_what_its_definition_says(window, texts):
    expected = [plain_coverage("\n".join(window), text) for text in texts]
    assert WindowIndex.of(window).coverage(texts).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 19, 20, 190, 700, 1000])
@pytest.mark.parametrize("blocks", [1, 40])
def test_a_verbatim_copy_is_covered_wherever_it_stands(length, blocks):
    window = prose(4000)
    step = len(window) // blocks
    texts = [" ".join(window[i : i + step]) for i in range(0, len(window), step)]
    copies = [" ".join(window[at : at + length]) for at in range(0, 3000, 371)]
    assert WindowIndex.of(texts).coverage(copies).tolist() == [1.0] * len(copies)


@pytest.mark.parametrize(
    ("texts", "probes", "expected"),
    [
        ([], [], []),
        ([], ["a b c"], [0]),
        ([""], ["", "a"], [0, 0]),
        (["a"], ["a", "a b c"], [1, 0]),
        (["\x00\ud800 x\xff"], ["\ud800 x\xff"], [1]),
        (["!!!"], ["!!!"], [0]),
    ],
)
def test_odd_windows_have_a_defined_answer(texts, probes, expected):
    assert WindowIndex.of(texts).coverage(probes).tolist() == expected


def test_a_window_of_five_megabytes_and_one_of_ten_thousand_blocks():
    huge = "x y z " * 900_000
    assert WindowIndex.of([huge]).coverage(["x y z x y z"]).tolist() == [1.0]
    blocks = [f"block number {i} says {i * 7}" for i in range(10_000)]
    assert WindowIndex.of(blocks).coverage([blocks[9_999], "something else here"]).tolist() == [
        1,
        0,
    ]
    noise = random.Random(1).randbytes(1_000_000).decode("latin-1")
    assert WindowIndex.of([noise]).coverage([noise[1000:3000]])[0] > 0.98


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 60)), st.booleans())
def test_a_hash_set_contains_what_was_put_in(keys, probes, crowded):
    scale = np.uint64(1 if crowded else 1 << 57)
    held = HashSet.of(np.array(keys, dtype=np.uint64) * scale)
    found = held.contains(np.array(probes, dtype=np.uint64) * scale)
    assert found.tolist() == [p in keys for p in probes]
    more = held.with_hashes(np.array(probes, dtype=np.uint64) * scale)
    assert more.distinct.tolist() == sorted({int(k) * int(scale) for k in [*keys, *probes]})


def test_texts_without_words_around_another_take_nothing_of_it():
    text = " ".join(f"word{n}" for n in range(30))
    shares = WindowIndex.of([text]).coverage(["", "!", text, "", "a"])
    assert shares.tolist() == [0, 0, 1, 0, 0]


def test_the_sketch_comes_within_three_hundredths_of_coverage():
    window = prose(8000)
    rng = random.Random(5)
    probes = []
    for share in (0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1):
        for at in range(0, 6000, 500):
            copy = window[at : at + rng.randrange(40, 300)]
            probes.append(" ".join(rng.choice(WORDS) if rng.random() < share else w for w in copy))
    index = WindowIndex.of([" ".join(window)])
    read = Tokens.of(probes)
    apart = np.abs(Sketch.of(index).overlap(read) - index.overlap(read))
    assert apart.max() <= 0.03


def test_the_sketch_calls_tiny_texts_new():
    sketch = Sketch.of(WindowIndex.of(["a b c d e f"]))
    assert sketch.overlap(Tokens.of(["", "a", "a b", "a b c", "a b c x"])).tolist() == [
        0,
        0,
        0,
        1,
        0.75,
    ]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.lists(TEXTS, max_size=3), TEXTS, TEXTS)
def test_a_grown_window_measures_like_a_fresh_one(window, more, tail, probe):
    cache = WindowCache(clock=lambda: 0.0)
    cache.index(window).coverage([probe, "a b c"])
    grown = [*window[:-1], f"{window[-1]} {tail}", *more]
    assert (
        cache.index(grown).coverage([probe]).tolist()
        == WindowIndex.of(grown).coverage([probe]).tolist()
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (("a",), ("a", "b"), ("b",)),
        (("a",), ("a b",), (" b",)),
        (("a ",), ("a b", "c"), ("b", "c")),
        (("a",), ("ab",), ()),
        (("a", "b"), ("a",), ()),
        (("a", "b"), ("x", "b", "c"), ()),
        ((), ("a",), ()),
        (("a",), ("a",), ()),
    ],
)
def test_what_a_window_appends(old, new, expected):
    assert appended_texts(old, new) == expected


def test_the_cache_gives_the_same_index_until_it_is_old():
    clock = FixedClock()
    cache = WindowCache(clock=clock, age_s=60)
    first = cache.index(["a b c"])
    assert cache.index(["a b c"]) is first
    clock.advance(59.9)
    assert cache.index(["a b c"]) is first
    clock.advance(0.1)
    assert cache.index(["a b c"]) is not first


def test_the_cache_forgets_the_least_recently_used():
    cache = WindowCache(clock=lambda: 0.0, entries=2, windows=1)
    kept = cache.tokens(["a", "b", "c"])
    assert kept.counts.tolist() == [1, 1, 1]
    assert len(cache._texts) == 2
    first = cache.index(["x y z"])
    cache.index(["other"])
    assert cache.index(["x y z"]) is not first


def test_the_cache_forgets_windows_that_are_too_large_in_sum():
    cache = WindowCache(clock=lambda: 0.0, window_bytes=950)
    first, second = cache.index(["a b c d"]), cache.index(["e f g h i j"])
    assert cache.index(["a b c d"]) is first
    assert cache.index(["e f g h i j"]) is second
    third = cache.index(["k"])
    assert cache.index(["k"]) is third
    assert cache.index(["e f g h i j"]) is second
    assert cache.index(["a b c d"]) is not first


def test_a_window_larger_than_the_cache_is_not_kept():
    cache = WindowCache(clock=lambda: 0.0, window_bytes=400)
    assert cache.index(["a b c d"]) is not cache.index(["a b c d"])
    small = cache.index(["a"])
    assert cache.index(["a"]) is small


def test_a_text_of_one_long_word_counts_by_its_bytes():
    cache = WindowCache(clock=lambda: 0.0, text_bytes=10_000, window_bytes=10_000)
    cache.tokens(["short", "x" * 20_000])
    assert len(cache._texts) == 1
    cache.tokens(["short", "x" * 2_000])
    assert len(cache._texts) == 2
    assert cache.index(["x" * 20_000]) is not cache.index(["x" * 20_000])


def test_a_text_that_is_kept_again_counts_once():
    cache = WindowCache(clock=lambda: 0.0, age_s=-1, text_bytes=800)
    for _ in range(3):
        cache.tokens(["a b c", "d e f"])
    assert len(cache._texts) == 2


def test_stored_bytes_are_believed_and_foreign_ones_read_again():
    cache = WindowCache(clock=lambda: 0.0)
    (stored,) = pack(["other words"])
    read = cache.tokens(["a text", "a b c", "d"], [stored, b"foreign", None])
    assert read.values.tolist() == Tokens.of(["other words", "a b c", "d"]).values.tolist()


WORDS = [f"w{n}" for n in range(200)]


def copies(*texts, order=None, least=0.85):
    tokens = Tokens.of([" ".join(text) for text in texts])
    return near_copies(tokens, order or range(len(texts)), least=least)


def test_a_copy_is_found_in_the_text_with_most_of_it():
    first, second = WORDS[:60], WORDS[60:120]
    assert copies(first, second, second[:40]) == {2: 1}
    assert copies(first, second, second[:40], order=[2, 0, 1]) == {}
    mixed = first[:12] + second[:28]
    assert copies(first, second, mixed) == {2: 1}
    assert copies(first) == {}


def test_if_any_share_will_do_a_text_without_one_is_still_not_a_copy():
    first, second = WORDS[:60], WORDS[60:120]
    assert copies(first, second, first[:10] + WORDS[120:150], least=0.0) == {2: 0}


def test_a_copy_has_at_least_the_share_that_is_asked_for():
    text = WORDS[:40]
    for known in (34, 33):
        part = text[:known] + WORDS[150 : 150 + 40 - known]
        assert (1 in copies(text, part)) is (known >= 34)


def test_a_short_text_is_no_copy_and_words_across_two_texts_are_neither_of_them():
    assert copies(WORDS[:60], WORDS[:19]) == {}
    assert copies(WORDS[:60], WORDS[:20]) == {1: 0}
    assert copies(WORDS[:30], WORDS[30:60], WORDS[26:34] + WORDS[100:116], least=0.3) == {}
