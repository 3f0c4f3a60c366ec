"""Conflicts: hints at facts that cannot both hold, and only at those."""

import pytest

from headgate.memory.conflicts import conflict, is_same_fact
from headgate.text.names import entities
from headgate.types import Fact


def fact(content: str, id: str = "f") -> Fact:
    return Fact(id, content, entities=entities(content))


@pytest.mark.parametrize(
    ("one", "other", "reason"),
    [
        ("Alice likes coffee", "Alice does not like coffee", "one says not"),
        ("The API doesn't need a key", "The API needs a key", "one says not"),
        ("Redis caching is enabled", "Redis caching is disabled", "enabled against disabled"),
        ("Alice lives in Paris", "Alice lives in Berlin", "paris against berlin"),
        ("Postgres listens on port 5432", "Postgres listens on port 5433", "5432 against 5433"),
        ("the cache is on", "the cache is off", "on against off"),
    ],
)
def test_opposing_facts_are_hinted_at(one, other, reason):
    hint = conflict(fact(one, "a"), fact(other, "b"))
    assert hint is not None
    assert (hint.id, hint.reason) == ("b", reason)
    assert conflict(fact(other), fact(one)) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice likes coffee", "Bob does not like coffee"),  # other names
        ("Alice likes coffee", "Alice works at Initech"),  # other subject
        ("Alice likes coffee", "Alice likes coffee very much"),
        ("Alice likes coffee", "Alice likes coffee"),
        ("Bob plays chess with Ann", "Bob plays chess with Eve"),  # both may hold
        ("", ""),
    ],
)
def test_other_facts_are_left_alone(one, other):
    assert conflict(fact(one), fact(other)) is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (
            "Backups run nightly at the Frankfurt site",
            "Nightly backups run at the site Frankfurt",
            True,
        ),
        ("The port is 80", "The port is 81", False),
        ("Alice likes coffee", "Alice does not like coffee", False),
        ("Alice likes coffee", "Alice likes tea", False),
        ("!!!", "???", False),
    ],
)
def test_wordings_of_one_fact_are_the_same(one, other, equal):
    assert is_same_fact(fact(one), fact(other)) is equal
