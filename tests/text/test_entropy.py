"""Entropy of a text and over a sliding window."""

import random
from collections import Counter
from math import log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.errors import InputError
from millgate.text.entropy import (
    SlidingEntropy,
    count_words,
    information_score,
    shannon_entropy,
    token_entropy,
)


def brute(symbols):
    total = len(symbols)
    return -sum(f / total * log2(f / total) for f in Counter(symbols).values()) if total else 0.0


@pytest.mark.parametrize(
    ("text", "chars", "words"),
    [
        ("", 0.0, 0.0),
        ("aaaa", 0.0, 0.0),
        ("ab", 1.0, 0.0),
        ("abcd", 2.0, 0.0),
        ("aabb", 1.0, 0.0),
        ("a b", 1.584962500721156, 1.0),
        ("The the", 2.2359263506290326, 0.0),
        ("a b c d", 2.128085278891395, 2.0),
        ("𝔘𝔫𝔦", 1.584962500721156, 0.0),
    ],
)
def test_entropy_in_bits(text, chars, words):
    assert shannon_entropy(text) == pytest.approx(brute(text), abs=1e-12)
    assert shannon_entropy(text) == pytest.approx(chars, abs=1e-9)
    assert token_entropy(text) == pytest.approx(words, abs=1e-12)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("", 0.0),
        ("a b c d", round(0.6 * 2 / 6 + 0.4 * 2.128085278891395 / 5.5, 4)),
        (" ".join(f"w{n}" for n in range(64)), None),
    ],
)
def test_the_published_score(text, score):
    expected = round(
        0.6 * min(brute(text.lower().split()) / 6, 1) + 0.4 * min(brute(text) / 5.5, 1), 4
    )
    assert information_score(text) == expected
    if score is not None:
        assert expected == score


def test_word_entropy_counts_as_full_from_six_bits():
    words = [f"{a}{b}" for a in "abcdefgh" for b in "ijklmnop"]
    text = " ".join(words)  # 64 different words: exactly 6 bits
    assert token_entropy(text) == pytest.approx(6.0)
    assert information_score(text) == round(0.6 + 0.4 * shannon_entropy(text) / 5.5, 4)


@given(st.text(max_size=300))
def test_the_score_stays_between_nothing_and_one(text):
    assert 0.0 <= information_score(text) <= 1.0


@given(st.text(max_size=200), st.integers(1, 40))
def test_the_window_equals_brute_force_at_every_character(text, size):
    window = SlidingEntropy(size)
    for at, char in enumerate(text, 1):
        assert window.push(char) == pytest.approx(brute(text[max(0, at - size) : at]), abs=1e-9)


@pytest.mark.slow
def test_a_million_characters_leave_no_drift():
    rng = random.Random(7)
    alphabet = "abcdefgh é漢字\n" + "😀𝔘\U0010ffff" + "".join(map(chr, range(0x400, 0x440)))
    window = SlidingEntropy(64)
    text = rng.choices(alphabet, weights=[1 / n for n in range(1, len(alphabet) + 1)], k=1_000_000)
    for at, char in enumerate(text, 1):
        bits = window.push(char)
        if at % 5000 == 0:
            assert bits == pytest.approx(brute(text[at - 64 : at]), abs=1e-9)
    assert window.push("x") == pytest.approx(brute([*text[-63:], "x"]), abs=1e-9)


def test_a_reset_window_is_empty():
    window = SlidingEntropy(4)
    for char in "abcdef":
        window.push(char)
    window.reset()
    assert (len(window), window.bits) == (0, 0.0)
    assert window.push("a") == 0.0


def test_a_window_of_nothing_is_refused():
    with pytest.raises(InputError, match="size is 0"):
        SlidingEntropy(0)


@given(st.text(max_size=300))
def test_a_text_whose_words_are_counted_has_the_same_score(text):
    assert information_score(text, count_words(text)) == information_score(text)
