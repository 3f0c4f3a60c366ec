"""Loops that differ from copy to copy only in what a reader does not see."""

import random

import pytest

from millgate.guard import RepeatDetector
from millgate.guard.detectors import VisibleText

UNIT = "The keeper lifted the first board and looked at the water below him for a while. "
INTRO = "The river rose in spring.\n"


def with_zero_width(rng):
    at = rng.randrange(len(UNIT))
    return UNIT[:at] + rng.choice("\u200b\u200c\u200d\u2060\ufeff\u00ad") + UNIT[at:]


def with_blanks(rng):
    return "".join(word + " " * rng.choice((1, 1, 2, 4)) for word in UNIT.split())


def stall_of(text, size):
    detector = RepeatDetector()
    return next((s for i in range(0, len(text), size) if (s := detector.feed(text[i : i + size]))), None)  # fmt: skip


@pytest.mark.parametrize("make", [with_zero_width, with_blanks])
@pytest.mark.parametrize("seed", range(5))
def test_copies_that_look_the_same_are_a_loop_however_the_text_is_cut_up(make, seed):
    rng = random.Random(seed)
    text = INTRO + "".join(make(rng) for _ in range(40))
    stall = stall_of(text, 5)
    assert stall is not None
    assert stall.position < 500
    assert len(INTRO) - 2 <= stall.onset <= len(INTRO) + 3
    assert stall == stall_of(text, 1) == stall_of(text, len(text))


@pytest.mark.parametrize("char", [" ", "\u200b", "\u200d"])
def test_a_model_that_writes_nothing_but_such_characters_is_found(char):
    assert stall_of("A word " + char * 20_000, 4)


def test_offsets_of_the_visible_text_lead_back_to_the_text_as_it_came():
    text = "one\u200b two   three,  fo\u00adur 1  2\n    five"
    seen = VisibleText()
    shown, rest = seen.fold(text, "", 0)
    assert (shown, rest) == ("one two three, four 1  2\n    five", "")
    assert all(text[seen.real_offset(i)] == char for i, char in enumerate(shown) if char != " ")


def test_a_family_of_emoji_keeps_its_joiners():
    assert VisibleText().fold("👩\u200d👩\u200d👧", "", 0) == ("👩\u200d👩\u200d👧", "")
