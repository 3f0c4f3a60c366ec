"""Results are compared where they differ, and the outcome is that of reading both as a whole."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.circles.whole import normalize

from millgate.circles.masks import LONG_LINE, LONG_TEXT, is_same, mask

LINES = st.sampled_from(
    ["took 3 ms", "took 41 ms", "3 of 9", "4 of 9", "", "  ", "took  3 ms ", "took 3 ms,", "ok,", "ok", "a\x0bb", "a", "b", "x" * 250]
)  # fmt: skip
ENDS = st.sampled_from(["\n", "\r\n", "\n\n", "\r", ",", "\x0c"])
TEXTS = st.lists(st.tuples(LINES, ENDS).map("".join), max_size=6).map("".join)
PADS = st.sampled_from(["", "pad\n" * 40, "pad, " * LONG_LINE, "1, " * LONG_LINE + "\n"])


@given(PADS, TEXTS, TEXTS, PADS)
@example("", "a\n", "\na\n", "")
@example("", "took 3 ms\n" * 32, "took 4 ms\n" * 32, "")
@example("", "3 of 9", "3 of 9\n", "")
def test_comparing_the_differences_is_comparing_the_whole(before, left, right, behind):
    left, right = before + left + behind, before + right + behind
    assert is_same(left, right) == (normalize(left) == normalize(right))


@given(TEXTS, st.sampled_from(["took 3 ms\n", "a\n", "pad\n"]), TEXTS)
def test_equal_first_lines_can_be_left_out(left, line, right):
    assert is_same(line + left, line + right) == is_same(left, right)


def test_what_differs_is_all_that_is_read(monkeypatch):
    read = []
    monkeypatch.setattr("millgate.circles.masks.mask", lambda line: read.append(line) or mask(line))
    same = "".join(f"{n} of 40 lines that do not change\n" for n in range(40))
    for left, right in ((f"took 71 ms\n{same}", f"took 72 ms\n{same}"), (f"{same}took 81 ms", f"{same}took 82 ms")):  # fmt: skip
        del read[:]
        assert is_same(left, right)
        assert len(read) == 2
    row = ", ".join(f'"k{n}": {n}' for n in range(900))
    del read[:]
    assert is_same(f'{{{row}, "took": 4711}}', f'{{{row}, "took": 4712}}')
    assert len(read) == 2


def test_a_long_result_is_the_same_only_as_it_is():
    long = "x" * LONG_TEXT
    assert is_same(f"{long} took 3 ms", f"{long} took 3 ms")
    assert not is_same(f"{long} took 3 ms", f"{long} took 4 ms")


@pytest.mark.parametrize(
    "line",
    ["a" * 50_000, "1" * 50_000, "12:" * 20_000, "/tmp/" * 10_000, "req_" * 10_000, "1m1" * 10_000],
)
def test_masks_take_hostile_lines_in_their_stride(line):
    assert mask(line)


@pytest.mark.parametrize("line", ["a" * 3_000, "a, 12:03:04 b," * 300, "x"])
@pytest.mark.parametrize("end", ["\n", "\n\n", "\r\n", ",", " "])
def test_results_that_differ_only_in_their_end_are_compared_to_it(line, end):
    same = normalize(line) == normalize(line + end)
    assert is_same(line, line + end) == is_same(line + end, line) == same
    assert is_same(f"{line}{end}last", f"{line}{end}last")
    assert not is_same(f"{line}{end}last", f"{line}{end}first")
