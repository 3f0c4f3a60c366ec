"""Where batches of chunks go: every chunk gets a place of its own, and small batches do not pile up."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from millgate.index.large import blocks
from millgate.index.large.blocks import place_batch
from millgate.protocols import BLOCK_BITS, Totals

COUNTS = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 20_000)), max_size=120)


def place_all(counts):
    """The totals after some batches, and the parts that each block has then, as the store would keep them."""
    totals, used, parts = Totals(), [], {}
    for count in counts:
        placed, totals = place_batch(totals, count)
        if not count:
            continue
        first = (placed.block << BLOCK_BITS) + placed.first
        used.append((first, first + count))
        held = parts.setdefault(placed.block, set())
        held.add(placed.part)
        if placed.join_above is not None:
            assert placed.join_into not in held
            held -= {part for part in held if part > placed.join_above}
            held.add(placed.join_into)
    return totals, used, parts


@given(COUNTS)
def test_no_two_chunks_share_a_place_and_a_block_is_never_too_large(counts):
    _, used, _ = place_all(counts)
    for (_, end), (begin, _) in itertools.pairwise(used):
        assert end <= begin
    for begin, end in used:
        assert begin >> BLOCK_BITS == (end - 1) >> BLOCK_BITS


@given(COUNTS)
def test_a_full_block_is_whole_and_only_the_last_has_parts(counts):
    totals, _, parts = place_all(counts)
    full = [held for block, held in sorted(parts.items()) if block < totals.blocks]
    assert all(held == {0} for held in full)
    ends = [sum(totals.parts[: at + 1]) for at in range(len(totals.parts))]
    assert sorted(part // 2 for part in parts.get(totals.blocks, ())) == ends


def test_ten_thousand_single_chunks_leave_few_parts_and_are_written_a_few_times():
    totals, written, most = Totals(), 0, 0
    for _ in range(10_000):
        placed, after = place_batch(totals, 1)
        written += 1
        if placed.join_above is not None:
            written += placed.first + 1 - placed.join_above // 2
        totals, most = after, max(most, len(after.parts))
    assert sum(totals.parts) == 10_000
    assert most < blocks._JOINED * 5
    assert written < 7 * 10_000


def test_a_large_batch_is_a_block_by_itself():
    placed, totals = place_batch(Totals(blocks=3), 15_000)
    assert placed == (3, 0, 0, None, 0)
    assert (totals.blocks, totals.parts) == (4, ())
