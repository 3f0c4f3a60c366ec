"""Tokens: cut as `str.split` cuts, each under a key of its own, and a table of keys."""

import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millgate.index import lexicon as module
from millgate.index.lexicon import KeyTable, Tokens

SPACES = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isspace()]
WORDS = [
    "tide",
    "Oslo,",
    "tidetide",
    "é",
    "潮は",
    "no",
    "\ud800",
    "a" * 39,
    "b" * 161,
    "b" * 162,
    "\x00",
]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS + SPACES)).map("".join) | st.text())


def strings(tokens):
    return tokens.strings(np.arange(len(tokens.keys)))


@given(TEXTS)
def test_texts_are_cut_at_white_space_of_any_kind(texts):
    tokens = Tokens.of(texts)
    assert strings(tokens) == [token for text in texts for token in text.split()]
    assert tokens.counts.tolist() == [len(text.split()) for text in texts]


@given(TEXTS)
def test_equal_pieces_have_one_key_and_others_have_others(texts):
    tokens = Tokens.of(texts)
    keys = dict(zip(strings(tokens), tokens.keys.tolist(), strict=True))
    assert [keys[token] for token in strings(tokens)] == tokens.keys.tolist()
    assert len(set(keys.values())) == len(keys)


def test_other_processes_have_other_keys(monkeypatch):
    before = Tokens.of(["tide", "tides at noon in Oslo"]).keys
    monkeypatch.setattr(module, "_SEED", module._SEED ^ np.uint64(1))
    assert not np.isin(Tokens.of(["tide", "tides at noon in Oslo"]).keys, before).any()


@given(st.lists(st.integers(1, 2**64 - 1), unique=True, max_size=60), st.integers(0, 60))
def test_a_table_finds_what_was_added_and_nothing_else(keys, count):
    table = KeyTable(2)
    every = np.array(keys, np.uint64)
    table.add(every[:count], np.arange(len(every[:count]), dtype=np.int32))
    expected = [at if at < count else -1 for at in range(len(keys))]
    assert table.find(every).tolist() == expected


def test_keys_that_fall_on_one_place_go_on_to_the_next_around_the_end_and_keep_their_numbers():
    table = KeyTable(4)
    keys = np.array([2**64 - 1, 2**64 - 2, 2**64 - 3], np.uint64)
    table.add(keys, np.array([7, 8, 9], np.int32))
    table.add(keys, np.array([1, 2, 3], np.int32))
    assert table.find(keys).tolist() == [7, 8, 9]
