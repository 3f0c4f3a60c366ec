"""Bars: every token of a window stands in one segment, and every bar fits its frame."""

import re

from hypothesis import given
from hypothesis import strategies as st

from millgate.sessions.xray.bars import (
    HEIGHT,
    SEGMENTS,
    WIDTH,
    draw_window,
    list_segments,
    segments,
)
from millgate.sessions.xray.findings import Window

SIZES = st.integers(0, 10_000)
WINDOWS = st.builds(
    lambda tokens, system, **more: Window(1, tokens, {"system": system}, **more),
    SIZES, SIZES, added=SIZES, repeated=SIZES, stale=SIZES, tools=SIZES, injected=SIZES, length=SIZES,
)  # fmt: skip


@given(WINDOWS, st.none() | WINDOWS)
def test_each_token_counts_once(window, before):
    found = segments(window, before)
    assert set(found) == set(SEGMENTS)
    assert min(found.values()) >= 0
    assert sum(found.values()) - found["free"] == window.tokens
    assert found["free"] == max(0, window.length - window.tokens)


@given(st.lists(WINDOWS, max_size=5))
def test_bars_stay_inside_their_frame(windows):
    for shape in draw_window(list_segments(windows)).shapes:
        for x, y in re.findall(r"M([\d.]+) (-?[\d.]+)", shape.path):
            assert 0 <= float(x) <= WIDTH
            assert -0.1 <= float(y) <= HEIGHT + 0.1


def test_what_a_turn_adds_is_new_unless_it_stood_there():
    before = Window(1, 100, {"system": 20}, repeated=10)
    now = Window(2, 160, {"system": 20}, added=60, repeated=40)
    assert segments(now, before) == {
        "system": 20, "tools": 0, "injected": 0, "earlier": 70, "stale": 0, "repeated": 40, "new": 30, "folded": 0, "free": 0,
    }  # fmt: skip
