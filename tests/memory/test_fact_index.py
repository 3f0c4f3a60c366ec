"""The index of facts: relevance as its formula says."""

import pytest

from headgate.memory.fact_index import FactIndex
from headgate.stores.memory.store import MemoryStore
from headgate.types import Fact


def relevance(query, *contents):
    store = MemoryStore()
    for n, content in enumerate(contents):
        store.save_fact("t", Fact(f"f{n}", content))
    return {fact.id: score for fact, score in FactIndex(store, "t").search(query)}


def test_a_fact_of_average_length_that_holds_the_term_once_is_wholly_relevant():
    found = relevance("ferry", "ferry harbor", "lake river")
    assert found == pytest.approx({"f0": 1.0})


def test_the_longer_a_fact_the_less_a_term_says_of_it():
    found = relevance("ferry", "ferry harbor", "ferry lake river stone bridge garden")
    # lengths 2 and 6, 4 on average: 2.2 / (1 + 1.2 (0.25 + 0.75 · 6 / 4))
    assert found["f0"] == 1.0
    assert found["f1"] == pytest.approx(2.2 / (1 + 1.2 * (0.25 + 0.75 * 1.5)))


def test_a_rare_term_of_the_query_weighs_more_than_a_common_one():
    rest = ["ferry lake"] * 1 + [f"ferry number{n}" for n in range(6)]
    found = relevance("ferry zither", "zither lake", *rest)
    assert found["f0"] > max(score for id, score in found.items() if id != "f0")
