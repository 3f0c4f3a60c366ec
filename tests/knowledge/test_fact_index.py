"""The index of facts: relevance as its formula says."""

import pytest

from millgate.knowledge.fact_index import FactIndex
from millgate.stores.temporary import TemporaryStore
from millgate.types import Fact


def relevance(query, *contents):
    store = TemporaryStore()
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


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("Wann wird die Datenbank gesichert?", "Die Datenbanken werden jede Nacht gesichert."),
        ("πότε αντιγράφεται η βάση δεδομένων;", "Οι βάσεις δεδομένων αντιγράφονται κάθε νύχτα."),
        ("когда копируют базу данных?", "Базы данных копируются каждую ночь."),
        ("¿cuándo se copia la base de datos?", "Las bases de datos se copian cada noche."),
        ("数据库什么时候备份？", "数据库每晚备份。"),
        ("データベースはいつバックアップされる？", "データベースは毎晩バックアップされる。"),
        ("데이터베이스는 언제 백업되나요?", "데이터베이스는 매일 밤 백업된다."),
        ("when are the databases copied?", "The database is copied every night."),
    ],
)
def test_a_fact_is_found_in_its_own_language_beside_facts_in_others(query, content):
    others = ["The parser was written by Ann.", "Der Zug nach Rom fährt um neun Uhr ab.", "Το τρένο φεύγει στις εννέα."]  # fmt: skip
    found = relevance(query, content, *others)
    assert found["f0"] > 0.15, "well above facts.min_relevance"
    assert max(found, key=found.get) == "f0"


def test_a_fact_that_changes_its_language_is_found_by_its_new_words_alone():
    store = TemporaryStore()
    store.save_fact("t", Fact("f", "Die Datenbanken werden jede Nacht gesichert."))
    index = FactIndex(store, "t")
    assert index.search("Datenbank")
    store.save_fact("t", Fact("f", "The trains leave at nine."))
    assert not index.search("Datenbank")
    assert index.search("train")
    store.save_fact("t", Fact("empty", "!!!"))
    store.forget("t", "f")
    store.forget("t", "empty")
    assert not index.search("train")
