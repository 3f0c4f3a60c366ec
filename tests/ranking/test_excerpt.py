"""Excerpts: the strips of a text that say most about a question, within the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.ranking.excerpt import GAP, cut, excerpt
from millgate.ranking.question import ask
from millgate.text.fence import frame
from millgate.types import Chunk


class Words:
    """A vocabulary in which every term is rare."""

    language = all_languages = "english"
    count, conversational, unseen_rate = 100, False, 0.0

    def frequencies(self, terms):
        return np.ones(len(terms), np.int64)


def shown(text, query, budget):
    # each character is a token; framing comes on top of the budget
    frame_cost = len(frame(1, "", "") + "\n")
    return excerpt(Chunk("c", text), ask(query, Words()), budget + frame_cost, len)


FILLER = [f"Nothing of note was said about topic number {n}." for n in range(40)]
ANSWER = "The harbor of Quito was restored by Melanie."


@pytest.mark.parametrize("at", [0, 20, 40])
def test_the_strip_with_the_answer_is_shown_wherever_it_stands(at):
    text = " ".join([*FILLER[:at], ANSWER, *FILLER[at:]])
    part = shown(text, "Who restored the harbor of Quito?", 200)
    assert ANSWER in part
    assert len(part) <= 200
    assert (part.startswith(GAP.lstrip()), part.endswith(GAP.rstrip())) == (at > 0, at < 40)


def test_strips_are_cut_at_the_ends_of_sentences_and_lines():
    text = "def one():\n    return 1\n\ndef two():\n    return 2\n"
    assert [text[b:e] for b, e in cut(text)] == [
        "def one():", "return 1", "def two():", "return 2",
    ]  # fmt: skip
    assert [ANSWER[b:e] for b, e in cut(ANSWER)] == [ANSWER]


def test_an_initial_ends_no_sentence():
    text = "Its founder was James O. McKinsey. He taught in Chicago."
    assert [text[a:b] for a, b in cut(text)] == [
        "Its founder was James O. McKinsey.",
        "He taught in Chicago.",
    ]
    lines = "drawn by O.\nframed by P. \nrule 7. no frames"
    assert [lines[a:b] for a, b in cut(lines)] == [
        "drawn by O.",
        "framed by P.",
        "rule 7.",
        "no frames",
    ]


def test_tokens_that_the_next_strip_does_not_fit_go_to_a_shorter_one():
    long = "The harbor of Quito was dredged, widened and lit by the same people in later years."
    text = " ".join([ANSWER, long, *FILLER, "Quito has a harbor."])
    part = shown(text, "Who restored the harbor of Quito?", 70)
    assert ANSWER in part
    assert "Quito has a harbor." in part
    assert long not in part


def test_what_the_first_strip_leaves_out_comes_next():
    text = " ".join(["Quito lies high.", *FILLER[:10], "Melanie keeps bees.", *FILLER[10:]])
    part = shown(text, "Quito Melanie", 60)
    assert "Quito" in part
    assert "Melanie" in part
    assert GAP in part


def test_neighboring_strips_keep_what_lies_between_them():
    text = "harbor:\n  - first line here\n  - second line here\n" + " ".join(FILLER)
    assert shown(text, "harbor", 60).startswith("harbor:\n  - first line here\n  - second")


def test_a_text_without_borders_is_cut_anyway():
    assert 40 <= len(shown("x" * 5000, "anything", 500)) <= 500


def test_what_is_too_little_is_not_shown():
    assert shown(" ".join(FILLER), "topic", 10) == ""


@given(st.text(max_size=400), st.text(max_size=40), st.integers(0, 300))
def test_an_excerpt_fits_and_adds_nothing_but_ellipses(text, query, budget):
    part = shown(text, query, budget)
    assert len(part) <= budget
    assert all(piece.strip() in text for piece in part.split("…"))
