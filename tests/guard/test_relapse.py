"""RelapseDetector: a loop that was cut is noticed when it comes back, at any point of its unit."""

import pytest

from millgate.guard.channels import RelapseDetector

UNIT = "He lifted the first board and looked at the water below him for a while. "


def feed_words(text, size=5, units=(UNIT,)):
    relapse = RelapseDetector()
    for unit in units:
        relapse.learn(unit)
    holds = []
    for start in range(0, len(text), size):
        stall = relapse.feed(text[start : start + size])
        holds.append(relapse.hold)
        if stall:
            return stall, holds
    return None, holds


@pytest.mark.parametrize("turn", [0, 1, 30, 72])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_a_whole_copy_from_any_point_is_a_stall(turn, size):
    stall, _ = feed_words("Well. " + (UNIT * 3)[turn:], size)
    assert stall
    assert stall.unit == UNIT
    assert stall.onset >= 4


def test_text_that_opens_with_an_echo_is_held_from_its_first_character():
    _, holds = feed_words(UNIT[:10] + "stood still, and on it went from there.")
    assert holds[0] == 0
    assert holds[-1] is None


def test_half_a_copy_is_held_and_let_go_when_it_ends():
    stall, holds = feed_words(
        "Well! " + UNIT[:50] + "but then something else happened, and on it went."
    )
    assert stall is None
    assert any(hold is not None for hold in holds)
    assert holds[-1] is None


def test_a_short_unit_counts_by_forty_characters():
    stall, _ = feed_words("no no no, " * 2, units=["no "])
    assert stall is None
    stall, _ = feed_words("no " * 20, units=["no "])
    assert stall


def test_without_a_cut_there_is_nothing_to_hear():
    assert feed_words(UNIT * 5, units=[""])[0] is None


def test_only_the_last_four_units_are_kept():
    units = [f"unit number {n} of the loops that were cut before, long enough. " for n in range(5)]
    assert feed_words(units[0] * 2, units=units)[0] is None
    assert feed_words(units[1] * 2, units=units)[0] is not None


def test_a_fresh_start_forgets_what_was_heard():
    relapse = RelapseDetector()
    relapse.learn(UNIT)
    relapse.feed(UNIT[:60])
    relapse.restart()
    assert relapse.hold is None
    assert relapse.feed(UNIT[60:]) is None
