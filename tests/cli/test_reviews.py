"""`millgate reviews`: the questions that wait, in lines for a person and as JSON for a program."""

import json

import pytest

from millgate import Millgate


@pytest.fixture
def asked(run):
    """A store "kb" with a question that waits, the id of it, and of a fact that was found for it."""
    with Millgate.open("kb") as gate:
        fact = gate.remember("The key hangs by the door.").fact
        review = gate.reviews.ask("Where is [the] key?", collection="main", grades={fact.id: 0.4, "page": 0.1}, reason="nothing fits")  # fmt: skip
    return review.id, fact.id


def review(run, *args):
    return run("reviews", *args, "--store", "kb")


def test_the_list_shows_what_waits_and_says_when_nothing_does(run, asked):
    id, _ = asked
    out = review(run, "list")[1]
    assert id in out
    assert "Where is [the] key?" in out
    assert [row["id"] for row in json.loads(review(run, "list", "--json")[1])] == [id]
    assert review(run, "list", "--status", "answered")[1] == "nothing is waiting\n"
    assert json.loads(review(run, "list", "--status", "answered", "--json")[1]) == []
    assert id in review(run, "list", "--status", "all")[1]


def test_a_question_is_shown_with_what_was_found_best_first_and_no_decision_before_one(run, asked):
    id, fact = asked
    lines = review(run, "show", id)[1].splitlines()
    assert lines[0].startswith(f"{id}  pending  asked ")
    assert lines[1:] == ["question: Where is [the] key?", "why: nothing fits", f"  0.40  {fact}", "  0.10  page"]  # fmt: skip
    assert json.loads(review(run, "show", id, "--json")[1])["grades"] == {fact: 0.4, "page": 0.1}


def test_an_answer_is_remembered_and_shown(run, asked):
    id, _ = asked
    out = review(run, "answer", id, "Under the mat.", "--who", "ada", "--note", "sure")[1]
    assert out.startswith(f"{id} is answered\nremembered as fact ")
    assert " by ada: Under the mat." in review(run, "show", id)[1]


def test_an_approval_moves_trust_and_a_rejection_says_its_note(run, asked):
    id, fact = asked
    out = review(run, "approve", id, "--who", "ada")[1]
    assert out.startswith(f"{id} is approved\n")
    assert f"trust of fact {fact}: 0.50 -> " in out
    assert "remembered" not in out


def test_a_rejection_says_who_and_why(run, asked):
    id, _ = asked
    found = json.loads(review(run, "reject", id, "--who", "ada", "--note", "wrong", "--json")[1])
    assert (found["review"]["status"], found["fact"]) == ("rejected", None)
    assert " by ada: wrong" in review(run, "show", id)[1]


def test_the_user_decides_if_no_reviewer_is_named(run, asked, monkeypatch):
    monkeypatch.setenv("LOGNAME", "grace")
    assert json.loads(review(run, "reject", asked[0], "--json")[1])["review"]["who"] == "grace"
