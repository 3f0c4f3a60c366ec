"""Reading a batch of chunks gives what reading each word alone would."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millgate.index import tokenized_batch as module
from millgate.index.segment import INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER
from millgate.index.tokenized_batch import build
from millgate.ranking.fields import BODY, SPEAKER, TITLE, unpack
from millgate.text.languages import detect_all
from millgate.text.names import ends_sentence, first_words, name_spans, names_of
from millgate.text.stopwords import ENGLISH
from millgate.text.terms import number, terms
from millgate.text.turns import part
from millgate.types import Chunk

WORDS = ["Oslo", "harbor", "the", "of", "Harbor.", "(Vega)", "met", "und", "Häuser", "nicht", "潮は", "x", "3.11", "don't"]  # fmt: skip
ENGLISH_ALONE = ("the", "of", "and", "with", "that", "this", "from", "was", "were", "for", "The")
texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
titles = st.sampled_from(["", "Vega", "Lisbon harbor"])
spoken = texts.map(lambda text: f"[3 May] Ann: {text}")
chunks = st.lists(st.tuples(st.one_of(texts, spoken), titles), max_size=6)


def made(parts):
    return [Chunk(f"c{n}", text, title=title) for n, (text, title) in enumerate(parts)]


def language_of(text):
    """English where an eighth of its first words say so, else what a vote gives."""
    first = text.split()[:48]
    telling = sum(first.count(word) for word in ENGLISH_ALONE)
    return "english" if 8 * telling >= len(first) else detect_all([text])[0]


def case_counts(chunks):
    """Every word counted by hand: inside sentences by its capital, and small at their starts."""
    counts = Counter()
    for chunk in chunks:
        fresh = True
        for token in part(chunk.text).body.split():
            found = first_words([token])[0]
            upper = found[:1].isupper()
            if len(found) > 2 and found.lower() not in ENGLISH and not (fresh and upper):
                kind = STARTING_LOWER if fresh else INSIDE_UPPER if upper else INSIDE_LOWER
                counts[number(found.lower()), kind] += 1
            fresh = ends_sentence(token)
    return dict(counts)


@given(chunks)
def test_each_chunk_has_its_terms_field_by_field(parts):
    segment = build(made(parts), range(len(parts)))
    for n, ((text, title), (begin, end)) in enumerate(
        zip(parts, pairwise(segment.terms.own_starts.tolist()), strict=True)
    ):
        line = part(text)
        language = language_of(line.body)
        fields = [terms(field, language) for field in (title, line.date, line.speaker, line.body)]
        own = segment.terms.keys[segment.terms.own[begin:end]].tolist()
        assert own == [term for field in fields for term in field]
        assert segment.fields[n].tolist() == list(map(len, fields))


@given(chunks)
def test_words_are_counted_by_how_they_stand(parts):
    found = build(made(parts), range(len(parts))).case
    keys = found.keys.repeat(np.diff(found.starts)).tolist()
    counts = Counter()
    for kind in (INSIDE_LOWER, INSIDE_UPPER, STARTING_LOWER):
        for key, count in zip(keys, unpack(found.values)[kind].tolist(), strict=True):
            counts[key, kind] += count
    assert +counts == Counter(case_counts(made(parts)))
    assert counts.total() == len(found.own) == found.own_starts[-1]


def labels_of(segment):
    starts = segment.label_starts.tolist()
    return [bytes(segment.labels[a:b]).decode() for a, b in pairwise(starts)]


def test_a_name_knows_where_it_stands():
    segment = build([Chunk("a", "[3 May] Ann: we met Vega", title="Lisbon Vega")], [0])
    counts = dict(zip(labels_of(segment), np.array(unpack(segment.names.values)).T, strict=True))
    places = {name: np.flatnonzero(own).tolist() for name, own in counts.items()}
    assert places["vega"] == [TITLE, BODY]
    assert places["ann"] == [SPEAKER]
    assert places["lisbon vega"] == [TITLE]


def test_a_batch_has_its_own_names_and_none_of_the_batches_before_it():
    for name in ("oslo", "vega", "oslo"):
        segment = build([Chunk("a", f"we met {name.title()} at the {name.title()}")], [0])
        assert labels_of(segment) == [name]
        assert segment.names.keys.tolist() == [number(name)]
        assert segment.names.own.tolist() == segment.names.ords.tolist() == [0]


@given(chunks)
def test_each_chunk_has_its_names_in_the_order_they_stand_in(parts):
    segment = build(made(parts), range(len(parts)))
    labels = labels_of(segment)
    for (text, title), (begin, end) in zip(
        parts, pairwise(segment.names.own_starts.tolist()), strict=True
    ):
        line = part(text)
        fields = (line.body, title, f"{line.date}. {line.speaker}")
        expected = [
            name for field in fields for span in name_spans(field) for name in names_of(span)
        ]
        own = [labels[id] for id in segment.names.own[begin:end]]
        assert list(dict.fromkeys(own)) == list(dict.fromkeys(expected))


def test_the_language_of_a_long_body_is_told_by_its_beginning():
    english, german = (
        "of the tide " * 16,
        "Die Häuser der Stadt sind alt und nicht sehr hoch. " * 20,
    )
    bodies = [english + german, german, "", german + english]
    found = module.read_languages(bodies, [body.split() for body in bodies])
    assert found == ["english", "german", "english", "german"] == list(map(language_of, bodies))


def test_a_batch_of_nothing_is_empty():
    segment = build([], [])
    assert len(segment) == len(segment.terms.keys) == len(segment.case.keys) == 0


def test_a_full_lexicon_gives_way_to_a_new_one_and_texts_read_the_same(monkeypatch):
    chunks = [Chunk(f"c{n}", f"Harbor {n} met Oslo at pier{n}. " * 9) for n in range(20)]
    before = build(chunks, range(20))
    monkeypatch.setattr(module, "_MOST", 5)
    for _ in range(20):
        after = build(chunks, range(20))
        assert len(module._current) < 60
    for one, other in ((before.terms, after.terms), (before.case, after.case)):
        assert np.array_equal(one.keys, other.keys)
        assert np.array_equal(one.own, other.own)


def test_threads_that_read_at_once_lose_nothing():
    lexicon = module.Lexicon()
    texts = [[f"word{n}", "the", f"Häuser{n}", f"getUserName{n}"] for n in range(900)]

    def read(language):
        return lexicon.read(texts, [language] * len(texts))

    languages = ["english", "german"] * 3
    with ThreadPoolExecutor(4) as pool:
        for language, tokens in zip(languages, pool.map(read, languages), strict=True):
            ends = np.cumsum(tokens.counts)
            found = [
                tokens.terms[end - size : end]
                for end, size in zip(ends, tokens.counts, strict=True)
            ]
            own = np.concatenate([found[at] for at in tokens.which]).tolist()
            assert own == [
                term for text in texts for token in text for term in terms(token, language)
            ]
