"""Token counting: the estimate's promises, and its distance from the exact counter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.errors import ConfigError
from headgate.text.tokens import counter, estimate_tokens

ANYTHING = st.text(st.characters(), max_size=200)


@given(ANYTHING, ANYTHING)
def test_an_estimate_is_never_negative_and_grows_with_text(text, more):
    assert 0 <= estimate_tokens(text) <= estimate_tokens(text + more)


@given(ANYTHING, ANYTHING)
def test_pieces_together_cost_no_more_than_apart(left, right):
    assert estimate_tokens(left + right) <= estimate_tokens(left) + estimate_tokens(right)


def test_an_empty_text_costs_nothing_and_any_other_something():
    assert estimate_tokens("") == 0
    assert all(estimate_tokens(char) > 0 for char in " aé漢\x00\ud800")


PROSE = "The gate keeps what is new and drops what the model has already seen. " * 8
CHAT = "Hey Mel! Good to see you! I'm swamped w/ the kids & work. What's up? :) " * 8
CODE = "def add(left: int, right: int) -> int:\n    return left + right\n\n\n" * 8
CHINESE = "闸门决定多少水进入渠道，模型已经看到的内容不再重复。" * 8


@pytest.mark.parametrize("text", [PROSE, CHAT, CODE, CHINESE])
@pytest.mark.parametrize("name", ["cl100k_base", "o200k_base"])
def test_the_estimate_is_within_a_third_of_the_exact_count(text, name):
    assert estimate_tokens(text) == pytest.approx(counter(name)(text), rel=0.34)


def test_the_exact_counter_survives_lone_surrogates():
    assert counter("o200k_base")("a\ud800b") > 0


def test_an_unknown_counter_is_refused_by_name():
    with pytest.raises(ConfigError, match="gpt9"):
        counter("gpt9")
