"""A fact gains and loses trust as it helps, is kept once, and is gone when it is forgotten."""

import pytest

from millgate import ContextBudget, Millgate
from millgate.errors import NotFound

FACT = "The staging server is called Heron."
QUESTION = "what is the staging server called?"


@pytest.fixture
def gate():
    with Millgate.open(":memory:") as opened:
        yield opened


def test_trust_rises_by_a_twentieth_and_falls_by_a_tenth_between_nothing_and_one(gate):
    fact = gate.remember(FACT).fact
    assert fact.trust == 0.5
    raised, lowered = (gate.feedback(fact.id, helpful=helpful) for helpful in (True, False))
    assert (raised.old, raised.new) == (0.5, pytest.approx(0.55))
    assert (lowered.old, lowered.new) == (raised.new, pytest.approx(0.45))
    for helpful, end in ((True, 1.0), (False, 0.0)):
        ends = [gate.feedback(fact.id, helpful=helpful).new for _ in range(25)]
        assert ends[-1] == end


def test_a_fact_that_is_told_again_is_the_same_one(gate):
    first, again = gate.remember(FACT), gate.remember(FACT)
    assert (first.new, again.new) == (True, False)
    assert first.fact.id == again.fact.id


def test_a_fact_of_little_trust_is_not_recalled_where_more_is_asked_for(gate):
    fact = gate.remember(FACT).fact
    assert [hit.fact.id for hit in gate.recall(QUESTION)] == [fact.id]
    assert gate.recall(QUESTION, min_trust=0.6) == []
    tight = ContextBudget(100_000, 60_000)
    gate.feedback(fact.id, helpful=False)
    assert gate.context(f"remember: {QUESTION}", context_budget=tight).chunks
    for _ in range(2):
        gate.feedback(fact.id, helpful=False)
    assert not gate.context(f"remember: {QUESTION}", context_budget=tight).chunks


def test_a_forgotten_fact_is_gone(gate):
    fact = gate.remember(FACT).fact
    gate.facts.forget(fact.id)
    assert gate.recall(QUESTION) == []
    assert not gate.context(QUESTION).chunks
    with pytest.raises(NotFound):
        gate.feedback(fact.id, helpful=True)
