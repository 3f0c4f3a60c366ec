"""The lexicon: a token has one id a language, and what it says of a id stays true."""

from concurrent.futures import ThreadPoolExecutor
from itertools import compress

import numpy as np
import pytest

from headgate.index import lexicon as module
from headgate.index import tokenized_batch
from headgate.index.casing import cases_of
from headgate.index.lexicon import Lexicon, Tokens, current_lexicon
from headgate.index.segment import build
from headgate.text.terms import number, terms
from headgate.types import Chunk

PIECES = ["harbors", "Harbor,", "the", "getUserName", "3.11", "(Oslo)", "Häuser", "潮は六時に"]


def slots_of(lexicon, language, tokens, transient=None):
    languages, counts = [language] * len(tokens), [1] * len(tokens)
    return lexicon.ids(Tokens.of(tokens), languages, counts, [] if transient is None else transient)


def remembered(lexicon, language, tokens):
    """Those of some tokens that a lexicon knows, without reading any."""
    keys = Tokens.of(tokens).keys ^ np.uint64(number(language)) | np.uint64(1)
    return list(compress(tokens, lexicon.find(keys) >= 0))


def known(lexicon, id):
    counts, found, cases = lexicon.read(np.array([id]))
    return counts.tolist(), found.tolist(), cases.tolist()


@pytest.mark.parametrize("language", ["english", "german"])
def test_a_slot_has_the_terms_and_the_case_of_its_piece(language):
    lexicon = Lexicon()
    ids = slots_of(lexicon, language, PIECES).tolist()
    for token, id in zip(PIECES, ids, strict=True):
        found = terms(token, language)
        assert known(lexicon, id) == ([len(found)], found, cases_of([token]).tolist())


def test_a_piece_keeps_its_slot_and_has_another_in_another_language():
    lexicon = Lexicon()
    (first,) = slots_of(lexicon, "english", ["Häuser"])
    assert slots_of(lexicon, "english", ["Häuser"]).tolist() == [first]
    assert slots_of(lexicon, "german", ["Häuser"]).tolist() != [first]
    assert len(lexicon) == 2


@pytest.mark.parametrize("token", ["x" * 50, "1794952754"])
def test_a_piece_that_hardly_comes_back_is_held_by_its_batch_alone(token):
    lexicon, transient = Lexicon(), []
    slots_of(lexicon, "english", ["harbors", token], transient)
    assert len(lexicon) == 1
    ((counts, found, cases),) = transient
    assert (counts.tolist(), found.tolist()) == ([1], terms(token))
    assert cases.tolist() == cases_of([token]).tolist()


def test_pieces_that_a_batch_holds_have_slots_of_their_own():
    lexicon, transient = Lexicon(), []
    tokens = [f"{'x' * 50}{n}" for n in range(5)]
    ids = [slots_of(lexicon, "english", some, transient).tolist() for some in (tokens[:2], tokens)]
    assert sorted(id for some in ids for id in some) == [*range(module._MOST, module._MOST + 7)]


def test_several_slots_are_read_in_the_order_asked_for():
    lexicon = Lexicon()
    ids = slots_of(lexicon, "english", PIECES).tolist()
    counts, found, _ = lexicon.read(np.array(ids[::-1]))
    assert found.tolist() == [term for token in PIECES[::-1] for term in terms(token)]
    assert counts.tolist() == [len(terms(token)) for token in PIECES[::-1]]


def test_a_full_lexicon_gives_way_to_a_new_one_and_texts_read_the_same(monkeypatch):
    chunks = [Chunk(f"c{n}", f"Harbor {n} met Oslo at pier{n}.") for n in range(20)]
    before = build(chunks, range(20))
    monkeypatch.setattr(module, "_TOKENS", 5)
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
    tokens = ["Oslo", "Harbors", "x" * 50]
    ids = slots_of(lexicon, "english", tokens)
    assert len(lexicon) == 2
    for token, id in zip(tokens[:2], ids.tolist(), strict=False):
        assert known(lexicon, id) == ([1], terms(token), cases_of([token]).tolist())
    assert remembered(lexicon, "english", [*tokens, "tides"]) == ["Oslo", "Harbors"]


def test_words_without_end_leave_two_lexicons_and_no_more(monkeypatch):
    monkeypatch.setattr(module, "_TOKENS", 100)
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
    monkeypatch.setattr(tokenized_batch, "_FEW", 0)
    many = build(chunks, range(20))
    assert np.array_equal(few.terms.keys, many.terms.keys)
    assert np.array_equal(few.terms.own, many.terms.own)
    assert np.array_equal(few.case.counts, many.case.counts)


def test_threads_that_add_at_once_lose_nothing():
    lexicon = Lexicon()
    tokens = [f"word{n}" for n in range(3000)]

    def read(_):
        return slots_of(lexicon, "english", tokens).tolist()

    with ThreadPoolExecutor(4) as pool:
        for ids in pool.map(read, range(4)):
            _, found, _ = lexicon.read(np.array(ids))
            assert found.tolist() == [term for token in tokens for term in terms(token)]
