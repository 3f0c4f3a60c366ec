"""A word that the collection has never seen is read as the parts of it that the collection has."""

import numpy as np
import pytest

from headgate.relevance.compounds import read_query
from headgate.text.terms import terms, word_terms


class Words:
    """A vocabulary of some words in one language."""

    conversational, unseen_rate = False, 0.0

    def __init__(self, *known, language="german"):
        self.language, self.count = language, 100
        self._known = {term for word in known for term in terms(word, language)}

    def frequencies(self, keys):
        return np.array([int(key) in self._known for key in keys], np.int64)


def parts(query, words):
    """What each piece of the query is read as, in the words of the vocabulary."""
    return [list(piece) for piece in read_query(query, words)]


def test_a_compound_is_read_as_its_two_parts():
    words = Words("Verwaltung", "Organe")
    assert parts("Verwaltungsorgane", words) == [terms("Verwaltung Organe", "german")]


def test_a_word_with_an_ending_is_read_as_its_beginning():
    words = Words("şampiyon", language="turkish")
    assert parts("şampiyonasıyla", words) == [terms("şampiyon", "turkish")]


def test_a_long_compound_is_read_as_its_beginning_and_ending_where_its_middle_is_unknown():
    words = Words("Konfiguration", "Programm")
    read = parts("Konfigurationsabfrageprogramm", words)
    assert read == [terms("Konfiguration Programm", "german")]


def test_parts_do_not_overlap():
    words = Words("Eisenbahn", "Bahnstrecken")
    assert parts("Eisenbahnstrecken", words) == [terms("Bahnstrecken", "german")]


def test_the_parts_that_hold_most_of_the_word_are_taken():
    words = Words("Eisen", "Eisenbahn", "Bahnstrecken", "Strecken")
    assert parts("Eisenbahnstrecken", words) == [terms("Eisenbahn Strecken", "german")]


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("Verwaltung", ["Verwaltung", "Walter"]),
        ("Schmalspurbahn", ["Spurbahnhof"]),
        ("Baumhaus", ["Baum", "Haus"]),
        ("harbor2024station", ["harbor", "station"]),
        ("im der die", ["Wasser"]),
    ],
    ids=["it is known", "no part is", "the parts are short", "it has digits", "no words"],
)
def test_a_word_stays_as_it_is_when(query, known):
    words = Words(*known)
    assert read_query(query, words) == word_terms(query, "german")


def test_a_part_that_is_less_than_most_of_the_word_does_not_stand_for_it():
    words = Words("Wagen")
    assert read_query("Nachrichtenübertragungswagen", words) == word_terms(
        "Nachrichtenübertragungswagen", "german"
    )


def test_only_so_many_words_of_a_query_are_cut():
    words = Words("Verwaltung", "Organe")
    strange = " ".join(f"{'abcdefghijklmnopqrstuvwxyz'[n % 26] * 9}" + "xyz" * n for n in range(40))
    assert (
        read_query(f"{strange} Verwaltungsorgane", words)[-1]
        == word_terms("Verwaltungsorgane", "german")[-1]
    )
