"""What a database keeps of each chunk gives the same segment as the chunks themselves."""

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.index.drafts import Drafts, assemble, draft_chunks
from headgate.index.segment import build
from headgate.types import Chunk

TEXTS = st.lists(
    st.sampled_from([
        "Ada Lovelace met Charles Babbage in London. She wrote notes.",
        "[2024-05-01] Ana: the tide turns at six, said Ines.",
        "def read_file(path): return open(path).read()",
        "潮は六時に変わる。",
        "",
        "a",
    ]),
    min_size=1,
    max_size=8,
)  # fmt: skip


def same(one, two):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(two, field.name)
        if hasattr(a, "__dataclass_fields__"):
            same(a, b)
        else:
            assert np.array_equal(a, b), field.name


@given(TEXTS, st.lists(st.integers(0, 7)))
def test_a_segment_of_drafts_equals_one_of_texts(texts, order):
    chunks = [
        Chunk(f"c{n}", text, title="Ada" * (n % 2), position=n) for n, text in enumerate(texts)
    ]
    places = [10 + n for n in range(len(chunks))]
    drafts = draft_chunks(build(chunks, places))
    picked = list(dict.fromkeys(n % len(chunks) for n in order)) or [0]
    made = assemble([chunks[n].id for n in picked], Drafts([drafts[n] for n in picked]))
    same(made, build([chunks[n] for n in picked], [places[n] for n in picked]))


def test_terms_are_counted_once_a_chunk():
    chunks = [Chunk("a", "tide tide tide"), Chunk("b", "tide fog")]
    keys, counts = Drafts(draft_chunks(build(chunks, [1, 2]))).distinct_terms()
    assert sorted(counts.tolist()) == [1, 2]
    assert len(keys) == 2
