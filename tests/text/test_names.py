"""Names: they are found by their looks, once, and in bounded time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text.names import (
    ENTITY_CHARS,
    capitalize,
    ends_sentence,
    entities,
    first_words,
    names,
    spelled_words,
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The Alpine Club meets in Zurich. Zurich is cold.", ("Alpine Club", "Zurich")),
        ("Alice prefers dark mode in VS Code.", ("Alice", "VS Code")),
        ("deploy `prod-eu` via fly.io", ("prod-eu", "fly.io")),
        ("Yesterday I read src/app/main.py", ("src/app/main.py",)),
        ("user_name and camelCase and HttpClient", ("user_name", "camelCase", "HttpClient")),
        ("mail bob.x@ex.co.uk or ask @carol", ("bob.x@ex.co.uk", "@carol")),
        ("Bank of America hired her in New York", ("Bank of America", "New York")),
        ("Caroline's dog is called Rex", ("Caroline", "Rex")),
        ('the motto is "stay calm"', ("stay calm",)),
        ("Ärzte treffen Øystein", ("Ärzte", "Øystein")),
        ("nothing here is a name", ()),
        ("", ()),
    ],
)
def test_names_are_found(text, names):
    assert entities(text) == names


def test_a_name_comes_once_whatever_its_case():
    assert entities("Ask Redis. use `redis` now, Redis!") == ("Ask Redis", "redis")


def test_words_leave_the_small_ones_out():
    assert list(spelled_words("What is the payment_service's port, v1.2?")) == [
        "payment_service's",
        "port",
        "v1.2",
    ]


@given(st.text(max_size=300))
def test_any_text_has_tidy_names(text):
    found = entities(text)
    assert all(1 < len(name) <= ENTITY_CHARS for name in found)
    assert len({name.lower() for name in found}) == len(found)


@pytest.mark.parametrize("unit", ["a_", "a.1", "a+", "A-", '"a', "A of ", "a", "@", "-/", "Aa"])
def test_hostile_text_ends(unit):
    assert all(len(name) <= ENTITY_CHARS for name in entities(unit * 500_000))


def test_a_span_gives_its_whole_and_its_longer_words():
    assert names("We met Ann Leeward\u2019s crew") >= {"ann leeward", "leeward"}
    assert "ann" not in names("We met Ann Leeward")
    assert names("Go to Ox") == names("to") == set()
    assert "émile" in names("We met Émile there")


def test_a_name_without_capitals_gets_them_and_others_stay():
    assert capitalize("ann lee") == "Ann Lee"
    assert capitalize("iPhone") == "iPhone"


@pytest.mark.parametrize(("piece", "end"), [("end.", True), ("a)", False), ("a,", False), ("a", False), ("7", False), ("!", True)])  # fmt: skip
def test_a_sentence_may_end_behind_a_mark_that_does_not_go_on(piece, end):
    assert ends_sentence(piece) is end


def test_the_word_of_a_piece_is_without_its_marks():
    assert first_words(["(Ann\u2019s)", "Ann,", "--"]) == ["Ann", "Ann", ""]
