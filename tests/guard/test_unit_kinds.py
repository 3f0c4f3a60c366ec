"""Kinds of units, and the lengths each may repeat for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.guard.unit_kinds import RepeatPolicy, kind_of


@pytest.mark.parametrize(
    ("unit", "kind"),
    [
        ("A" * 76 + "\n", "blank"),
        ("-" * 40 + "\n", "ruled"),
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
