"""The lexicon: a piece has one slot a language, and what it says of a slot stays true."""

from concurrent.futures import ThreadPoolExecutor
from itertools import compress

import numpy as np
import pytest

from headgate.index import lexicon as module
from headgate.index import reading
from headgate.index.casing import cases_of
from headgate.index.lexicon import Lexicon, Pieces, current_lexicon
from headgate.index.segment import build
from headgate.text.terms import number, terms
from headgate.types import Chunk

PIECES = ["harbors", "Harbor,", "the", "getUserName", "3.11", "(Oslo)", "Häuser", "潮は六時に"]


def slots_of(lexicon, language, pieces, passing=None):
    languages, counts = [language] * len(pieces), [1] * len(pieces)
    return lexicon.slots(Pieces.of(pieces), languages, counts, [] if passing is None else passing)


def remembered(lexicon, language, pieces):
    """Those of some pieces that a lexicon knows, without reading any."""
    keys = Pieces.of(pieces).keys ^ np.uint64(number(language)) | np.uint64(1)
    return list(compress(pieces, lexicon.find(keys) >= 0))


def known(lexicon, slot):
    counts, found, cases = lexicon.read(np.array([slot]))
    return counts.tolist(), found.tolist(), cases.tolist()


@pytest.mark.parametrize("language", ["english", "german"])
def test_a_slot_has_the_terms_and_the_case_of_its_piece(language):
    lexicon = Lexicon()
    slots = slots_of(lexicon, language, PIECES).tolist()
    for piece, slot in zip(PIECES, slots, strict=True):
        found = terms(piece, language)
        assert known(lexicon, slot) == ([len(found)], found, cases_of([piece]).tolist())


def test_a_piece_keeps_its_slot_and_has_another_in_another_language():
    lexicon = Lexicon()
    (first,) = slots_of(lexicon, "english", ["Häuser"])
    assert slots_of(lexicon, "english", ["Häuser"]).tolist() == [first]
    assert slots_of(lexicon, "german", ["Häuser"]).tolist() != [first]
    assert len(lexicon) == 2


@pytest.mark.parametrize("piece", ["x" * 50, "1794952754"])
def test_a_piece_that_hardly_comes_back_is_held_by_its_batch_alone(piece):
    lexicon, passing = Lexicon(), []
    slots_of(lexicon, "english", ["harbors", piece], passing)
    assert len(lexicon) == 1
    ((counts, found, cases),) = passing
    assert (counts.tolist(), found.tolist()) == ([1], terms(piece))
    assert cases.tolist() == cases_of([piece]).tolist()


def test_pieces_that_a_batch_holds_have_slots_of_their_own():
    lexicon, passing = Lexicon(), []
    pieces = [f"{'x' * 50}{n}" for n in range(5)]
    slots = [slots_of(lexicon, "english", some, passing).tolist() for some in (pieces[:2], pieces)]
    assert sorted(slot for some in slots for slot in some) == [
        *range(module._MOST, module._MOST + 7)
    ]


def test_several_slots_are_read_in_the_order_asked_for():
    lexicon = Lexicon()
    slots = slots_of(lexicon, "english", PIECES).tolist()
    counts, found, _ = lexicon.read(np.array(slots[::-1]))
    assert found.tolist() == [term for piece in PIECES[::-1] for term in terms(piece)]
    assert counts.tolist() == [len(terms(piece)) for piece in PIECES[::-1]]


def test_a_full_lexicon_gives_way_to_a_new_one_and_texts_read_the_same(monkeypatch):
    chunks = [Chunk(f"c{n}", f"Harbor {n} met Oslo at pier{n}.") for n in range(20)]
    before = build(chunks, range(20))
    monkeypatch.setattr(module, "_PIECES", 5)
    old = current_lexicon()
    after = build(chunks, range(20))
    assert current_lexicon() is not old
    assert np.array_equal(before.terms.own, after.terms.own)
    assert np.array_equal(before.terms.keys, after.terms.keys)
    assert np.array_equal(before.case.counts, after.case.counts)


def test_what_is_met_again_is_taken_over_from_the_former_lexicon():
    former = Lexicon()
    slots_of(former, "english", ["Harbors", "tides"])
    lexicon = Lexicon(former)
    pieces = ["Oslo", "Harbors", "x" * 50]
    slots = slots_of(lexicon, "english", pieces)
    assert len(lexicon) == 2
    for piece, slot in zip(pieces[:2], slots.tolist(), strict=False):
        assert known(lexicon, slot) == ([1], terms(piece), cases_of([piece]).tolist())
    assert remembered(lexicon, "english", [*pieces, "tides"]) == ["Oslo", "Harbors"]


def test_words_without_end_leave_two_lexicons_and_no_more(monkeypatch):
    monkeypatch.setattr(module, "_PIECES", 100)
    monkeypatch.setattr(module, "_current", Lexicon())
    for n in range(50):
        build([Chunk(f"c{n}", " ".join(f"w{n}x{i}" for i in range(60)))], [n])
        lexicon = current_lexicon()
        assert len(lexicon) < 200
        assert lexicon.former is None or lexicon.former.former is None


def test_a_lexicon_at_its_bound_holds_no_more_and_texts_read_the_same(monkeypatch):
    chunks = [Chunk(f"c{n}", f"Word{n} word{n} 123456789{n} and word{n + 1}.") for n in range(20)]
    before = build(chunks, range(20))
    monkeypatch.setattr(module, "_MOST", 4)
    monkeypatch.setattr(module, "_current", Lexicon())
    after = build(chunks, range(20))
    assert len(current_lexicon()) == 4
    assert np.array_equal(before.terms.keys, after.terms.keys)
    assert np.array_equal(before.terms.own, after.terms.own)
    assert np.array_equal(before.case.counts, after.case.counts)


def test_many_pieces_are_read_as_few_are(monkeypatch):
    chunks = [Chunk(f"c{n}", f"Word{n} word{n} 123456789{n} and word{n + 1}.") for n in range(20)]
    few = build(chunks, range(20))
    monkeypatch.setattr(reading, "_FEW", 0)
    many = build(chunks, range(20))
    assert np.array_equal(few.terms.keys, many.terms.keys)
    assert np.array_equal(few.terms.own, many.terms.own)
    assert np.array_equal(few.case.counts, many.case.counts)


def test_threads_that_add_at_once_lose_nothing():
    lexicon = Lexicon()
    pieces = [f"word{n}" for n in range(3000)]

    def read(_):
        return slots_of(lexicon, "english", pieces).tolist()

    with ThreadPoolExecutor(4) as pool:
        for slots in pool.map(read, range(4)):
            _, found, _ = lexicon.read(np.array(slots))
            assert found.tolist() == [term for piece in pieces for term in terms(piece)]
