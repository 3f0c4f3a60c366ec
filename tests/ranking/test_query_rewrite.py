"""A word that the collection has never seen is read as the parts of it that the collection has."""

import numpy as np
import pytest

from millgate.ranking.question import read_query
from millgate.text.terms import terms, word_terms


class Words:
    """A vocabulary of some words in one language."""

    conversational, unseen_rate = False, 0.0

    def __init__(self, *known, language="german", query_language=None, others=()):
        self.language, self.count = query_language or language, 100
        self.all_languages = "+".join([self.language, *others])
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
        ("hafen2024bahnhof", ["Wasser"]),
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


@pytest.mark.parametrize(
    ("query", "known"),
    [
        ("leave_scope", "leave scope"),
        ("PUSHes", "pushes"),
        ("type=%u", "type"),
        ("state-of-the-art", "state art"),
    ],
)
def test_a_piece_is_read_as_those_of_its_terms_that_are_known(query, known):
    words = Words(*known.split(), language="english")
    assert parts(query, words) == [terms(known)]
    assert read_query(query, Words(language="english")) == word_terms(query)


def test_pairs_of_signs_count_each_whether_they_are_known_or_not():
    words = Words("電車", language="english")
    assert read_query("電車時刻", words) == word_terms("電車時刻")


@pytest.mark.parametrize("slip", ["silevr", "sillver", "slivr", "silverr", "Silevr"])
def test_a_slip_of_the_fingers_is_read_as_the_word_that_is_known(slip):
    read = parts(slip, Words("silver", "slivers", language="english"))
    assert read == ([terms("silver")] if slip != "slivr" else [terms(slip)])


def test_of_two_words_that_may_be_meant_the_commoner_is_taken():
    class Counted(Words):
        def frequencies(self, keys):
            common = terms("trial")[0]
            return super().frequencies(keys) * np.where(keys == np.uint64(common), 9, 1)

    words = Counted("trial", "trail", language="english")
    assert parts("trrial", words) == [terms("trial")]
    assert parts("trail", words) == [terms("trail")]


@pytest.mark.parametrize("word", ["bnak", "abnks", "bak2ns"])
def test_a_short_word_its_first_letter_and_a_word_with_digits_are_no_slip(word):
    words = Words("bank", "ba2kns", language="english")
    assert read_query(word, words) == word_terms(word)


def test_a_slip_in_a_stopword_asks_for_nothing():
    assert parts("whcih river", Words("river", language="english")) == [terms("river")]


def test_a_word_that_one_language_does_not_know_is_read_in_another():
    words = Words("Köln", "Rhein", query_language="english", others=["german"])
    assert parts("Where is Köln?", words) == [terms("Köln", "german")]


def test_a_stopword_of_the_other_language_is_read_as_nothing():
    words = Words("Straße", "Köln", query_language="english", others=["german"])
    assert parts("Straße nach Köln", words) == [terms("Straße", "german"), terms("Köln", "german")]


def test_of_several_languages_that_is_taken_which_knows_most():
    words = Words("Köln", "schön", query_language="english", others=["french", "german", "danish"])
    assert parts("Köln schön", words) == [terms("Köln", "german"), terms("schön", "german")]


def test_a_word_that_no_language_knows_stays_as_it_is():
    words = Words("Köln", query_language="english", others=["german"])
    assert parts("Zürich", words) == [terms("Zürich", "english")]
