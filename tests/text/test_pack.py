"""Packing: pieces in order while they fit, a sure share for the side, and a whole that fits by its own count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.text import pack as module
from headgate.text.pack import pack


def words(text):
    return len(text.split())


def taken(pieces, room, **options):
    return pack(pieces, room, words, **options).taken


def test_what_does_not_fit_is_passed_over_and_smaller_ones_are_taken():
    assert taken(["a b", "c d e", "f"], 3) == [True, False, True]
    assert taken(["a b c"], 3) == [True]
    assert taken(["a b c"], 2) == [False]


def test_given_costs_stand_for_the_count():
    assert taken(["a", "b"], 4, costs=[3, 2]) == [True, False]


def test_at_most_so_many_main_pieces_are_taken_and_side_pieces_do_not_count():
    assert taken(["a", "b", "c"], 9, most=2) == [True, True, False]
    assert taken(["a", "b", "c"], 9, side=[True, False, False], most=1) == [True, True, False]
    assert taken(["a", "b"], 9, most=0) == [False, False]


def test_the_side_is_sure_of_its_share_and_no_more_than_it_wants_is_kept_for_it():
    pieces, side = ["a b", "c d", "e f"], [False, False, True]
    assert taken(pieces, 4, side=side, share=0.5) == [True, False, True]
    assert taken(pieces, 4, side=side, share=0.0) == [True, True, False]
    assert taken(["a b", "c d", "e"], 5, side=side, share=0.8) == [True, True, True]


def test_what_the_side_leaves_goes_to_the_main_pieces():
    pieces = ["a b c", "d e f g h i"]
    assert taken(pieces, 5, side=[False, True], share=0.6) == [True, False]


def shorten(at, left):
    return " ".join(["cut"] * left)


def test_a_piece_that_does_not_fit_is_shortened_to_the_room():
    packed = pack(["a b", "c d e f"], 4, words, shorten=shorten)
    assert packed.taken == [True, True]
    assert packed.shortened == {1: "cut cut"}


@pytest.mark.parametrize("part", ["", "one two three"])
def test_a_part_that_is_nothing_or_too_large_is_not_taken(part):
    packed = pack(["a b", "c d e f", "g"], 4, words, shorten=lambda at, left: part)
    assert packed.taken == [True, False, True]
    assert packed.shortened == {}


def test_shortening_is_tried_for_a_few_pieces_and_not_without_room(monkeypatch):
    tried = []

    def note(at, left):
        tried.append(at)
        return ""

    monkeypatch.setattr(module, "_MOST_CUTS", 2)
    pack(["a b c"] * 5, 2, words, shorten=note)
    assert tried == [0, 1]
    tried.clear()
    pack(["a b", "c d"], 2, words, shorten=note)
    assert tried == []


def test_a_piece_that_crowds_others_out_is_shortened_and_taken_whole_where_that_does_not_help():
    crowded = {"crowds": lambda at, left: at == 1}
    packed = pack(["a", "b c d", "e"], 4, words, shorten=lambda at, left: "b", **crowded)
    assert (packed.taken, packed.shortened) == ([True, True, True], {1: "b"})
    packed = pack(["a", "b c d", "e"], 4, words, shorten=lambda at, left: "", **crowded)
    assert (packed.taken, packed.shortened) == ([True, True, False], {})
    assert pack(["a", "b c d", "e"], 4, words, **crowded).taken == [True, True, False]


def test_a_shortened_piece_counts_among_the_most():
    packed = pack(["a b c", "d"], 2, words, most=1, shorten=lambda at, left: "a")
    assert packed.taken == [True, False]


def test_the_whole_is_counted_once_more_and_the_last_pieces_go_until_it_fits():
    joined = lambda text: words(text) + text.count("\n")  # noqa: E731  each seam costs one more
    assert pack(["a", "b", "c"], 4, joined).taken == [True, True, False]
    assert pack(["a", "b", "c"], 5, joined).taken == [True, True, True]
    assert pack(["a a a", "b b b", "c c c"], 9, joined).taken == [True, True, False]
    packed = pack(["a b", "c d e"], 3, joined, shorten=lambda at, left: "c")
    assert packed.taken == [True, False]
    assert packed.shortened == {}


@given(st.lists(st.integers(0, 6), max_size=8), st.integers(0, 15), st.floats(0, 1), st.data())
def test_whatever_is_packed_fits(sizes, room, share, data):
    pieces = [" ".join(["w"] * size) for size in sizes]
    side = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    most = data.draw(st.integers(0, 8))
    packed = pack(pieces, room, words, side=side, share=share, most=most, shorten=shorten)
    shown = [packed.shortened.get(at, p) for at, p in enumerate(pieces) if packed.taken[at]]
    assert words("\n".join(shown)) <= room
    main = [t for t, on_side in zip(packed.taken, side, strict=True) if t and not on_side]
    assert len(main) <= most
