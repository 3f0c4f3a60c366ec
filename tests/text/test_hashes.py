"""Token hashes of much text, read in pieces."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.text import hashes
from millgate.text.hashes import Tokens

texts = st.lists(
    st.text(st.sampled_from("ab1 .,-$%_\n漢ไ😀é…") | st.characters(), max_size=60), max_size=5
)


@given(st.lists(st.sampled_from(["", "plain text", "größer 漢字", "a_b 3.5%", "é"]), max_size=8))
def test_a_text_has_the_same_tokens_among_others_as_alone(found):
    together = [part.tolist() for part in Tokens.of(found).split()]
    assert together == [Tokens.of([text]).values.tolist() for text in found]


@given(texts, st.sampled_from([1, 3, 8]))
def test_reading_in_pieces_gives_the_same_tokens(found, size):
    whole = Tokens.of(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashes, "PIECE", size)
        cut = Tokens.of(found)
    assert cut.values.tolist() == whole.values.tolist()
    assert cut.bounds.tolist() == whole.bounds.tolist()


@pytest.mark.parametrize("unit", ["the window says nothing new ", "漢字", "añadido "])
def test_a_large_text_takes_little_memory_beside_itself(unit):
    text = unit * (3_000_000 // len(unit))
    Tokens.of(["warm up é"])
    tracemalloc.start()
    try:
        Tokens.of([text])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 70_000_000
