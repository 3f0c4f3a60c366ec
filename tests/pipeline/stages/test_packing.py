"""Packing: pieces in order while they fit, a sure share for the side, and a whole that fits by its own count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.pipeline.stages.gate import MAX_CUTS, MIN_PART, Piece, pack
from millgate.ranking.question import ask
from millgate.text.fence import frame
from millgate.types import Candidate, Chunk


def words(text):
    return len(text.split())


def pieces_of(texts, *, costs=None, side=()):
    costs = costs or [words(text) for text in texts]
    side = list(side) or [False] * len(texts)
    return [
        Piece(text, cost, Candidate(Chunk("", text), 1.0), is_side)
        for text, cost, is_side in zip(texts, costs, side, strict=True)
    ]


def packed(texts, budget, *, count=words, costs=None, side=(), **options):
    pieces = pieces_of(texts, costs=costs, side=side)
    pack(pieces, budget, count, **options)
    return [piece.is_packed for piece in pieces]


def test_what_does_not_fit_is_passed_over_and_smaller_ones_are_taken():
    assert packed(["a b", "c d e", "f"], 3) == [True, False, True]
    assert packed(["a b c"], 3) == [True]
    assert packed(["a b c"], 2) == [False]


def test_given_costs_stand_for_the_count():
    assert packed(["a", "b"], 4, costs=[3, 2]) == [True, False]


def test_at_most_so_many_main_pieces_are_taken_and_side_pieces_do_not_count():
    assert packed(["a", "b", "c"], 9, max_main=2) == [True, True, False]
    assert packed(["a", "b", "c"], 9, side=[True, False, False], max_main=1) == [True, True, False]
    assert packed(["a", "b"], 9, max_main=0) == [False, False]


def test_the_side_is_sure_of_its_share_and_no_more_than_it_wants_is_kept_for_it():
    texts, side = ["a b", "c d", "e f"], [False, False, True]
    assert packed(texts, 4, side=side, side_share=0.5) == [True, False, True]
    assert packed(texts, 4, side=side, side_share=0.0) == [True, True, False]
    assert packed(["a b", "c d", "e"], 5, side=side, side_share=0.8) == [True, True, True]


def test_what_the_side_leaves_goes_to_the_main_pieces():
    texts = ["a b c", "d e f g h i"]
    assert packed(texts, 5, side=[False, True], side_share=0.6) == [True, False]


def test_the_whole_is_counted_once_more_and_the_last_pieces_go_until_it_fits():
    joined = lambda text: words(text) + text.count("\n")  # noqa: E731  each seam costs one more
    assert packed(["a", "b", "c"], 4, count=joined) == [True, True, False]
    assert packed(["a", "b", "c"], 5, count=joined) == [True, True, True]
    assert packed(["a a a", "b b b", "c c c"], 9, count=joined) == [True, True, False]


class Words:
    """A vocabulary in which every term is rare."""

    language = all_languages = "english"
    count, conversational, unseen_rate = 100, False, 0.0

    def frequencies(self, terms):
        return np.ones(len(terms), np.int64)


QUESTIONS = {"main": ask("harbor", Words())}


def sentences(name, count):
    """A text of sentences of five words each."""
    return " ".join(f"{name} says something number {n}." for n in range(count))


def chunks(*counts):
    """Pieces of chunks of so many sentences each."""
    found = [Chunk(f"c{at}", sentences(f"c{at}", n)) for at, n in enumerate(counts)]
    texts = [frame(1, "", chunk.text) for chunk in found]
    return [
        Piece(text, words(text), Candidate(chunk, 1.0))
        for text, chunk in zip(texts, found, strict=True)
    ]


def test_a_piece_that_does_not_fit_is_shown_as_strips_within_the_budget():
    first, second = pieces = chunks(100, 4)
    pack(pieces, 300, words, questions=QUESTIONS)
    assert (first.is_packed, second.is_packed, second.strips) == (True, True, "")
    assert first.strips.startswith("c0 says something number 0.")
    assert first.cost == words(frame(1, "", first.strips)) <= 300 - second.cost


def test_without_questions_no_piece_is_shortened():
    pieces = chunks(100, 4)
    pack(pieces, 300, words)
    assert [(piece.is_packed, piece.strips) for piece in pieces] == [(False, ""), (True, "")]


def test_no_piece_is_shortened_to_less_than_is_worth_showing():
    pieces = chunks(100)
    pack(pieces, MIN_PART - 1, words, questions=QUESTIONS)
    assert not pieces[0].is_packed


def test_few_pieces_are_shortened():
    pieces = chunks(*[400] * 40)
    pack(pieces, 1900, words, questions=QUESTIONS)
    assert 0 < sum(bool(piece.strips) for piece in pieces) <= MAX_CUTS


def test_a_piece_that_would_crowd_others_out_is_shown_as_strips_though_it_fits():
    pieces = chunks(2, 60, 30)
    pack(pieces, 340, words, questions=QUESTIONS)
    assert all(piece.is_packed for piece in pieces)
    assert pieces[1].strips


def test_a_shortened_piece_counts_among_the_most():
    pieces = chunks(100, 4)
    pack(pieces, 300, words, questions=QUESTIONS, max_main=1)
    assert [piece.is_packed for piece in pieces] == [True, False]


@pytest.mark.parametrize("questions", [None, QUESTIONS])
@given(st.lists(st.integers(0, 60), max_size=8), st.integers(0, 500), st.floats(0, 1), st.data())
def test_whatever_is_packed_fits(questions, sizes, budget, share, data):
    pieces = chunks(*sizes)
    for piece in pieces:
        piece.is_side = data.draw(st.booleans())
    most = data.draw(st.integers(0, 8))
    pack(pieces, budget, words, side_share=share, max_main=most, questions=questions)
    shown = [piece.text for piece in pieces if piece.is_packed]
    assert words("\n".join(shown)) <= budget
    assert sum(piece.is_packed and not piece.is_side for piece in pieces) <= most


def test_pieces_beyond_the_most_take_no_room_from_those_within():
    pieces = chunks(2, 40, 40, 40)
    pack(pieces, 250, words, questions=QUESTIONS, max_main=2)
    assert [piece.is_packed for piece in pieces] == [True, True, False, False]
    assert pieces[1].strips == ""
