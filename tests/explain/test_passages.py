"""Passages: the words that a chunk shares with the window, and where they stand."""

from hypothesis import given
from hypothesis import strategies as st

from millgate.explain.passages import find_passages, mark

TEXTS = st.text(alphabet="ab .é", max_size=40)


def test_a_repeated_sentence_is_found_in_both_texts():
    text = "Before. Refunds are paid within 14 days to the card. After it all the other things are said too, at length."
    block = "tool: REFUNDS are paid, within 14 days to the card!"
    (found,) = find_passages(text, ["nothing of it", block])
    assert text[found.start : found.end] == "Refunds are paid within 14 days to the card"
    assert found.block == 1
    assert (
        block[found.block_start : found.block_end] == "REFUNDS are paid, within 14 days to the card"
    )


def test_the_longest_of_several_places_is_taken():
    text = "one two three four five six seven"
    (found,) = find_passages(text, ["one two three x", text])
    assert (found.block, found.end) == (1, len(text))


def test_fewer_equal_words_than_a_shingle_are_no_passage():
    assert find_passages("one two three four five", ["two three and no more"]) == []


@given(TEXTS, st.lists(TEXTS, max_size=3))
def test_passages_have_equal_words_and_do_not_overlap(text, blocks):
    end = 0
    for found in find_passages(text, blocks):
        here, there = text[found.start : found.end], blocks[found.block][found.block_start : found.block_end]  # fmt: skip
        assert here.replace(".", " ").split() == there.replace(".", " ").split()
        assert found.start >= end
        end = found.end


@given(TEXTS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=4))
def test_marking_loses_nothing(text, spans):
    spans = [(min(a, b), min(max(a, b), len(text))) for a, b in spans]
    assert "".join(piece for piece, _ in mark(text, spans)) == text


def test_a_script_without_spaces_is_compared_sign_by_sign():
    shared = "黑豹队的防守只丢了三百零八分"
    (found,) = find_passages(f"据说{shared}", [f"今年{shared}，排名第六"])
    assert (found.start, found.end) == (2, 2 + len(shared))
    assert (found.block, found.block_start) == (0, 2)
