"""Kinds of units, and the lengths each may repeat for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millgate.guard.detectors import RepeatPolicy, kind_of


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("A" * 76 + "\n", "blank"),
        ("-" * 40 + "\n", "blank"),
        ("^" * 40 + "\n", "rule"),
        ("| --- ", "padding"),
        (" ", "padding"),
        ("( ) ", "rule"),
        ("|          |          |   x    |\n", "sparse"),
        ("ACGTACGGTACCATTTAGACGGAT", "token"),
        ("GCTA", "token"),
        ("0123456789abcdef", "token"),
        ("abcdefabcdeffedcba" * 2, "dull"),
        ("0, ", "data"),
        ("    [0, 0, 0, 0, 0, 0, 0, 0],\n", "data"),
        ("    0xFF, 0xFF, 0xFF, 0xFF,\n", "data"),
        ("ACQAJAAk", "token"),
        (" 36 36 \nL", "data"),
        ("x", "tiny"),
        ("🌟", "tiny"),
        ("fo", "tiny"),
        ("x = f(y);\n", "code"),
        ("I am sorry about that. ", "prose"),
        ("Oh, we are the ones who stay awake\n", "lines"),
        ("who stay awake\nOh, we are the ones\nOh, we are the ones ", "lines"),
        ("who stay awake.\n\nOh, we are the ones ", "prose"),
        ("\nOh, we are the ones who stay awake.\n", "prose"),
        ("%o4Uqp0/QsqpM&+Ij\"'E", "dense"),
        ("⠑⠁⠇⠑⠊⠇⠑⠊⠇", "prose"),
    ],
)
def test_a_unit_has_the_kind_that_its_alphabet_says(unit, kind):
    assert kind_of(unit) == kind


@given(st.text(min_size=1, max_size=2000))
def test_every_kind_waits_for_three_copies_and_is_suspect_before_it_stalls(unit):
    policy = RepeatPolicy()
    kind, period = policy.kind(unit), len(unit)
    assert policy.stall(period, kind) >= 3 * period
    assert policy.min_suspect(period) <= policy.suspect(period, kind)
    assert policy.suspect(period, kind) + period < policy.stall(period, kind) + period


def test_fillers_may_repeat_longer_than_prose():
    policy = RepeatPolicy()
    prose = policy.stall(6, "prose")
    assert all(policy.stall(6, kind) > prose for kind in ("rule", "sparse", "data", "blank"))


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("abcdefghij" + ".  ,  -  ;  " * 3 + "    ", "sparse"),  # 10 of 50 are letters
        ("abcdefghijk" + ".  ,  -  ;  " * 3 + "   ", "code"),  # 11 of 50
        ("aabbccd " * 3, "dull"),  # 5 different characters
        ("abc " * 6, "sparse"),  # 4
        ("abcde " * 4, "dull"),  # 6
        ("abcdef " * 4, "prose"),  # 7
        ("abc2 f" * 4, "data"),  # 6, with a digit
        ("abcd2 f" * 4, "prose"),  # 7, with a digit
        ("abcdefghijklmnopqrstuvw.,", "code"),  # 2 marks of 25
        ("abcdefghijklmnopqrstuvwx.,", "prose"),  # 2 of 26
        ("abcdefghijklmnopqrs tuvwx.", "prose"),  # one of 26, hardly a blank
        ("abcdefghijklmnop." + " " * 11, "prose"),  # 11 of 28 are blanks
        ("abcdefghijklmno." + " " * 11, "code"),  # 11 of 27
        ("ab!?#$%&", "dense"),  # 6 different symbols
        ("ab!?#$%!", "code"),  # 5
        ("1a 1", "tiny"),  # 2 digits of 3
        ("11a 1", "data"),  # 3 of 4
    ],
)
def test_each_kind_ends_at_its_bound(unit, kind):
    assert kind_of(unit) == kind
