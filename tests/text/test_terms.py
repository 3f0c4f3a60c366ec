"""Terms: words of every script, identifiers whole and in parts, and bounded time for any input."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.languages import detect_all
from millgate.text.terms import (
    number,
    numbers,
    read_new,
    terms,
    terms_of,
    word_terms,
    words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The owner's house", ["the", "owner", "house"]),
        ("'status' and 'some'", ["status", "and", "some"]),
        ("getUserName", ["getusername", "get", "user", "name"]),
        ("get_user_name()", ["getusername", "get", "user", "name"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("os.path.join", ["ospathjoin", "os", "path", "join"]),
        ("prod-eu", ["prodeu", "prod", "eu"]),
        ("base64", ["base64", "base", "64"]),
        ("Python 3.11", ["python", "3.11", "3", "11"]),
        ('{"user_id": 7}', ["userid", "user", "id", "7"]),
        ("| Name | Port |", ["name", "port"]),
        ("NASA Paris", ["nasa", "paris"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("서울에서", ["서울", "울에", "에서"]),
        ("Python编程语言", ["python", "编程", "程语", "语言"]),
        ("", []),
        ("!?…", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_all_spellings_of_an_identifier_share_the_whole_term():
    whole = number("getusernam")
    spellings = ["getUserName", "get_user_name", "GetUserName", "get-user-name", "GET_USER_NAME"]
    assert all(whole in terms(spelling) for spelling in spellings)


def test_a_part_of_an_identifier_finds_it():
    assert set(terms("user")) <= set(terms("def getUserName(self):"))


def test_a_name_with_inner_capitals_meets_its_plain_spelling():
    assert set(terms("youtube github")) <= set(terms("YouTube GitHub"))


@pytest.mark.parametrize(
    ("one", "other", "language"),
    [
        ("Häuser", "Haus", "german"),
        ("πόλεις", "ΠΟΛΗ", "greek"),
        ("evlerinden", "ev", "turkish"),
        ("orașele", "oraşele", "romanian"),
        ("लड़कियों", "लड़की", "hindi"),
        ("الكِتَاب", "كتاب", "arabic"),
        ("правима", "pravima", "serbian"),
        ("програма", "програми", "ukrainian"),  # no stemmer knows these two
        ("nástroje", "nástrojov", "slovak"),
    ],
)
def test_forms_of_a_word_meet(one, other, language):
    assert terms(one, language) == terms(other, language)


def test_numbers_and_versions_count_whole_if_there_is_no_stemmer():
    assert terms("1234567", "ukrainian") != terms("1234568", "ukrainian")
    assert terms("pgp20261", "ukrainian") != terms("pgp20262", "ukrainian")


def test_the_terms_of_a_word_stay_together():
    found = word_terms("where is getUserName for Korea 대한민국")
    assert [len(word) for word in found] == [4, 1, 3]
    assert [term for word in found for term in word] == terms(
        "where is getUserName for Korea 대한민국"
    )


def test_only_stopwords_are_no_terms():
    assert terms("the of and to be or not to be") == []


BAD = {
    "base64": "aGVsbG8gd29ybGQ" * 70_000,
    "minified": "function(a,b){return a.b(c[d])||e?f.g:h};" * 25_000,
    "one letter": "a " * 500_000,
    "separators": "_.-" * 300_000,
    "chained": "a.b-c_" * 170_000,
    "capitals": "AbC" * 330_000,
    "quotes": "'s" * 500_000,
    "thai vowels": "เ" * 500_000,
    "marks": "\u0301" * 500_000,
    "virama": "क्" * 250_000,
    "hangul": "가" * 500_000,
    "dots": "..." * 330_000,
    "digits": "1a" * 500_000,
}


@pytest.mark.parametrize("kind", BAD)
def test_hostile_text_ends(kind):
    found = terms(BAD[kind], detect_all([BAD[kind]])[0])
    assert len(found) <= 2 * len(BAD[kind])


@pytest.mark.slow
def test_a_vocabulary_without_end_is_read_all_the_same():
    dice = random.Random(7)
    text = " ".join(f"{dice.getrandbits(64):x}" for _ in range(100_000))
    assert len(set(terms(text))) >= 100_000


@given(st.text(max_size=200))
def test_any_text_has_terms_in_every_form(text):
    language = detect_all([text])[0]
    found, counts = read_new(text.split(), language)
    assert terms(text, language) == [term for term in found if term]
    assert (len(counts), sum(counts)) == (len(text.split()), len(found))
    assert all(word == word.lower() or not word.isascii() for word in words(text))


MIXED = [
    "The tides of the harbor, and getUserName in os.path",
    "Die Gezeiten im Hafen und was sie mit dem Mond zu tun haben",
    "港の潮は月に従って満ち引きする。" * 4,
    "",
    "The tides again, with utf-8",
]


@pytest.mark.parametrize("language", ["english", "english+german", "german"])
def test_texts_read_together_have_the_terms_they_have_alone(language):
    assert terms_of(MIXED, language) == [tuple(terms(text, language)) for text in MIXED]
    fresh = [f"{text} {n}th-{language}{n} word{n}s" for n, text in enumerate(MIXED)]
    assert terms_of(fresh, language) == [tuple(terms(text, language)) for text in fresh]


@given(st.lists(st.text(max_size=20)))
def test_many_strings_have_the_numbers_that_each_has_alone(texts):
    assert numbers(texts) == [number(text) for text in texts]
