"""Conflicts: hints at facts that cannot both hold, and only at those."""

import pytest

from millgate.memory.conflicts import conflict, is_same_fact
from millgate.text.names import entities
from millgate.types import Fact


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
        ("Anna mag Kaffee", "Anna mag keinen Kaffee", "one says not"),
        ("Der Cache ist aktiviert", "Der Cache ist deaktiviert", "aktiviert against deaktiviert"),
        ("Anna wohnt in Paris", "Anna wohnt in Berlin", "paris against berlin"),
        ("Anne aime le café", "Anne n'aime pas le café", "one says not"),
        ("Η Άννα πίνει καφέ", "Η Άννα δεν πίνει καφέ", "one says not"),
        ("Η Άννα μένει στην Πάτρα", "Η Άννα μένει στην Αθήνα", "πατρα against αθηνα"),
        ("Сервер работает ночью", "Сервер не работает ночью", "one says not"),
        ("安娜喜欢喝咖啡", "安娜不喜欢喝咖啡", "one says not"),
        ("缓存功能已启用", "缓存功能已禁用", "启用 against 禁用"),
        ("アンはコーヒーを飲みます", "アンはコーヒーを飲みません", "one says not"),
        ("서버는 밤에 백업한다", "서버는 밤에 백업하지 않는다", "one says not"),
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
        ("Anna mag Kaffee", "Bob mag keinen Kaffee"),  # other names, though nouns have capitals
        ("The API does not need a key", "The API doesn't need a key"),  # both say not
        ("Anne n'aime pas le café", "Anne n'aime pas du tout le café"),
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
            "The backups run nightly at the Frankfurt site.",
            True,
        ),
        ("Backups run nightly at the site", "Nightly backups run at the site", False),
        ("Ann reports to Bob", "Bob reports to Ann", False),
        ("Flights go from Rome to Oslo", "Flights go to Rome from Oslo", False),
        ("Ann hired Bob", "Ann was hired by Bob", False),
        ("Windows 10 to 11 needs 4 GB", "Windows 11 to 10 needs 4 GB", False),
        ("Deploys happen on Friday", "The deploy happens on Friday", True),
        ("The port is 80", "The port is 81", False),
        ("Alice likes coffee", "Alice does not like coffee", False),
        ("Alice likes coffee", "Alice likes tea", False),
        ("!!!", "???", False),
    ],
)
def test_wordings_of_one_fact_are_the_same(one, other, equal):
    assert is_same_fact(fact(one), fact(other)) is equal
