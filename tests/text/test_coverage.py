"""Coverage by the index and by the sketch."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.coverage import WindowIndex, near_copies
from millgate.text.hashes import Tokens
from millgate.text.sketch import Sketch
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
