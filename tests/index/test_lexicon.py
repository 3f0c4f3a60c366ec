"""The lexicon: a token has one id a language, and what it says of an id stays true."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from millgate.index import lexicon as module
from millgate.index.casing import cases_of
from millgate.index.lexicon import Lexicon, Tokens, current_lexicon
from millgate.index.segment import build
from millgate.text.terms import terms
from millgate.types import Chunk

PIECES = ["harbors", "Harbor,", "the", "getUserName", "3.11", "(Oslo)", "Häuser", "潮は六時に"]


def ids_of(lexicon, language, tokens):
    return lexicon.ids(Tokens.of(tokens), [language] * len(tokens), [1] * len(tokens))


def known(lexicon, id):
    counts, found, cases = lexicon.read(np.array([id]))
    return counts.tolist(), found.tolist(), cases.tolist()


@pytest.mark.parametrize("language", ["english", "german"])
def test_an_id_has_the_terms_and_the_case_of_its_token(language):
    lexicon = Lexicon()
    ids = ids_of(lexicon, language, PIECES).tolist()
    for token, id in zip(PIECES, ids, strict=True):
        found = terms(token, language)
        assert known(lexicon, id) == ([len(found)], found, cases_of([token]).tolist())


def test_a_token_keeps_its_id_and_has_another_in_another_language():
    lexicon = Lexicon()
    (first,) = ids_of(lexicon, "english", ["Häuser"])
    assert ids_of(lexicon, "english", ["Häuser"]).tolist() == [first]
    assert ids_of(lexicon, "german", ["Häuser"]).tolist() != [first]
    assert len(lexicon) == 2


def test_several_ids_are_read_in_the_order_asked_for():
    lexicon = Lexicon()
    ids = ids_of(lexicon, "english", PIECES).tolist()
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


def test_words_without_end_leave_one_lexicon_of_bounded_size(monkeypatch):
    monkeypatch.setattr(module, "_TOKENS", 100)
    monkeypatch.setattr(module, "_current", Lexicon())
    for n in range(50):
        build([Chunk(f"c{n}", " ".join(f"w{n}x{i}" for i in range(60)))], [n])
        assert len(current_lexicon()) < 200


def test_a_batch_of_more_tokens_than_the_table_has_places_is_read_whole(monkeypatch):
    chunks = [Chunk(f"c{n}", f"Word{n} word{n} 123456789{n} and word{n + 1}.") for n in range(20)]
    before = build(chunks, range(20))
    monkeypatch.setattr(module, "_BITS", 2)
    monkeypatch.setattr(module, "_current", Lexicon())
    after = build(chunks, range(20))
    assert np.array_equal(before.terms.keys, after.terms.keys)
    assert np.array_equal(before.terms.own, after.terms.own)
    assert np.array_equal(before.case.counts, after.case.counts)


def test_threads_that_add_at_once_lose_nothing():
    lexicon = Lexicon()
    tokens = [f"word{n}" for n in range(3000)]

    def read(_):
        return ids_of(lexicon, "english", tokens).tolist()

    with ThreadPoolExecutor(4) as pool:
        for ids in pool.map(read, range(4)):
            _, found, _ = lexicon.read(np.array(ids))
            assert found.tolist() == [term for token in tokens for term in terms(token)]
