"""Name spans: many texts have the spans that each has alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headgate.index.name_spans import find_spans
from headgate.text.names import LINKS, name_spans

ASCII = [*LINKS, *LINKS, "Oslo", "Harbor.", "(Vega)", "quay", "of-x", "xof", "Of", "A", "AB", "x-Paul", "Jean-Paul", "-A",
    "-", "'", "Lee's", "_A", "9A", "o", "x of", "\0", "\n", "\x1c", "\x85", " ", " ", " ", " "]  # fmt: skip
BEYOND = ["Ä", "Äb", "É-É", "’", "Lee’s", "潮は", "\ud800", "\xa0", "İx", "𝐀b", "𐐀a"]


def texts_of(words):
    return st.lists(st.lists(st.sampled_from(words), max_size=14).map("".join), max_size=6)


@given(texts_of(ASCII) | texts_of(ASCII + BEYOND) | st.lists(st.text()))
def test_many_texts_have_the_spans_that_each_has_by_itself(texts):
    found = find_spans(texts)
    expected = [name_spans(text) for text in texts]
    assert found.counts.tolist() == list(map(len, expected))
    assert found.strings(np.arange(len(found.keys))) == [span for own in expected for span in own]


def test_a_span_goes_on_over_white_space_and_links_and_ends_with_its_text():
    found = find_spans(["the Bank of\n England in Oslo", "Harbor, Vega and", "Lee"])
    assert found.strings(np.arange(5)) == ["Bank of\n England", "Oslo", "Harbor", "Vega", "Lee"]
    assert found.counts.tolist() == [2, 2, 1]
