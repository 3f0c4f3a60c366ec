"""Upkeep: merging is recorded, and loses nothing."""

import pytest

from millgate.knowledge.facts import Facts
from millgate.knowledge.maintenance import Wording, is_same_fact, merge
from millgate.stores.temporary import TemporaryStore
from millgate.testing import FixedClock
from millgate.types import Fact


def test_wordings_of_one_fact_become_one():
    clock = FixedClock()
    facts = Facts(TemporaryStore(), "t", clock=clock)
    said = "Backups run nightly at the Frankfurt site"
    first = facts.add(said, tags=["ops"], trust=0.4).fact
    clock.advance(5)
    best = facts.add("The backups run nightly at the Frankfurt site", tags=["db"], trust=0.6).fact
    other = facts.add("Backups run weekly at the Dublin site").fact
    facts.feedback(first.id, helpful=True)
    proposed = merge(facts, saves=False)
    assert {f.id for f in facts.all()} == {first.id, best.id, other.id}
    (done,) = merge(facts)
    assert proposed == [done]
    assert (done.kept.id, done.gone) == (best.id, (Wording(first.id, said),))
    kept = facts.get(best.id)
    assert (kept.tags, kept.helpful, kept.trust) == (("db", "ops"), 1, 0.6)
    assert kept.created == first.created
    assert kept.history[-1].reason == f"merged {first.id}"
    assert {f.id for f in facts.all()} == {best.id, other.id}
    assert merge(facts) == []


def test_what_was_merged_can_be_read_however_often_facts_are_merged_and_judged():
    facts = Facts(TemporaryStore(), "t", clock=FixedClock())
    best = facts.add("The build of the service runs on Python", trust=0.9).fact
    for wording in (
        "A build of the service runs on Python",
        "This build of the service runs on Python",
    ):
        facts.add(wording)
        merge(facts)
    for _ in range(200):
        facts.feedback(best.id, helpful=True)
    wordings = facts.get(best.id).wordings
    assert wordings == (
        "A build of the service runs on Python",
        "This build of the service runs on Python",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann reports to Bob", "Bob reports to Ann"),
        ("The night train runs from Rome to Oslo", "The night train runs to Rome from Oslo"),
        ("Anna berichtet an Bob", "Bob berichtet an Anna"),
        ("Die Katze jagt den Hund im Garten", "Den Hund jagt die Katze im Garten nicht"),
        ("Η Άννα βοηθά τον Πέτρο", "Ο Πέτρος βοηθά την Άννα"),
        ("安娜向鲍勃汇报工作", "鲍勃向安娜汇报工作"),
        ("アンはボブに報告する", "ボブはアンに報告する"),
    ],
)
def test_opposite_facts_are_not_merged(one, other):
    facts = Facts(TemporaryStore(), "t", clock=FixedClock())
    facts.add(one)
    facts.add(other)
    assert merge(facts, saves=False) == merge(facts) == []
    assert len(facts.all()) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Die Sicherung der Datenbank läuft jede Nacht", "Die Sicherung von der Datenbank läuft jede Nacht"),
        ("Η βάση δεδομένων αντιγράφεται κάθε νύχτα", "Βάση δεδομένων αντιγράφεται κάθε νύχτα"),
        ("数据库每晚备份", "数据库，每晚备份。"),
        ("База данных копируется каждую ночь", "И база данных копируется каждую ночь"),
    ],
)  # fmt: skip
def test_wordings_in_other_languages_are_merged(one, other):
    facts = Facts(TemporaryStore(), "t", clock=FixedClock())
    facts.add(one)
    facts.add(other)
    assert len(merge(facts)) == len(facts.all()) == 1


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
        (
            "The nightly backup of the database is on",
            "The nightly backup of the database is off",
            False,
        ),
        (
            "The nightly backup of the database runs",
            "The nightly backup of the database doesn't run",
            False,
        ),
        (
            "Die Sicherung der Datenbank läuft in der Nacht",
            "Die Sicherung der Datenbank läuft nicht in der Nacht",
            False,
        ),
        ("安娜每天早上都喜欢在家里喝咖啡", "安娜每天早上都不喜欢在家里喝咖啡", False),
    ],
)
def test_wordings_of_one_fact_are_the_same(one, other, equal):
    assert is_same_fact(Fact("a", one), Fact("b", other)) is equal
