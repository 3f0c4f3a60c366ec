"""A snapshot reads the same however its chunks are spread over segments."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from millgate.index.posting_list import find_term_ids
from millgate.index.segment import LiveSegment
from millgate.index.snapshot import SegmentSnapshot
from millgate.index.tokenized_batch import build
from millgate.types import Chunk

TEXTS = [
    "Ada Lovelace met Charles Babbage in London. She wrote notes.",
    "In London the notes of Charles Babbage were read, and london was glad.",
    "def read_file(path): return open(path).read()",
    "The tide turns at six, said Ines in London.",
    "",
    "notes notes notes " * 200,
]


def view_of(cuts, dead=()):
    """The chunks in segments that end at these places; some of them are dead."""
    chunks = [
        Chunk(f"c{n}", text, title="Notes of Ada Lovelace" * (n % 2), position=n)
        for n, text in enumerate(TEXTS)
    ]
    ends = sorted({*cuts, len(chunks)})
    spans = [range(a, b) for a, b in zip([0, *ends], ends, strict=False) if a < b]
    lives = [
        LiveSegment(
            build([chunks[n] for n in span], list(span)),
            np.array([n - span.start for n in span if n in dead], np.int64),
        )
        for span in spans
    ]
    return SegmentSnapshot(lives, lambda ids: [])


def same(one, two):
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a, b)


@given(
    st.sets(st.integers(1, len(TEXTS) - 1)),
    st.sets(st.integers(0, len(TEXTS) - 1), max_size=3),
    st.randoms(use_true_random=False),
)
def test_segments_change_nothing_in_what_a_snapshot_says(cuts, dead, dice):
    one, many = view_of((), dead), view_of(cuts, dead)
    terms = [7, *one.lives[0].segment.terms.keys.tolist()]
    terms = np.array(dice.sample(terms, dice.randint(1, len(terms))), np.uint64)
    names = np.append(one.lives[0].segment.names.keys, np.uint64(7))
    ords = np.array(dice.sample(range(len(TEXTS)), dice.randint(1, len(TEXTS))))
    for _ in range(2):  # the second time from what the first one derived
        same(one.postings(terms), many.postings(terms))
        assert np.array_equal(one.frequencies(terms), many.frequencies(terms))
        same(one.find_names(names), many.find_names(names))
        counts = one.count_names(names, limit=1)
        assert np.array_equal(counts, many.count_names(names, limit=1))
        assert set(counts.tolist()) <= {0, 1}
        assert one.labels(names) == many.labels(names)
        assert one.labels(names)[-1] == ""
        same(one.names(ords), many.names(ords))
    found = [
        sorted(zip(*(column.tolist() for column in view.term_positions(ords, terms)), strict=True))
        for view in (one, many)
    ]
    assert found[0] == found[1]


def test_keys_are_found_in_every_vocabulary_and_in_the_order_asked():
    vocabularies = [
        np.array([2, 5, 9], np.uint64),
        np.zeros(0, np.uint64),
        np.array([5], np.uint64),
    ]
    found = find_term_ids(vocabularies, np.array([9, 1, 5, 9], np.uint64))
    assert found.tolist() == [[2, -1, 1, 2], [-1] * 4, [-1, -1, 0, -1]]
    assert find_term_ids(vocabularies, np.zeros(0, np.uint64)).shape == (3, 0)
