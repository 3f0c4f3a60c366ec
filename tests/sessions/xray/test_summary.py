"""Numbers of an x-ray for a person: short, in percent, and as bars."""

import pytest

from millgate.sessions.xray.summary import BAR, bar, share, short


@pytest.mark.parametrize(
    ("tokens", "shown"),
    [(0, "0"), (9_999, "9,999"), (10_000, "10k"), (9_999_999, "10000k"), (10_000_000, "10.0M")],
)
def test_a_number_of_tokens_is_short(tokens, shown):
    assert short(tokens) == shown


def test_a_share_is_in_percent_and_none_of_nothing():
    assert (share(1, 4), share(0, 4), share(1, 0)) == ("25 %", "0 %", "0 %")


def test_a_bar_is_as_full_as_its_part():
    assert bar(4, 4) == "█" * BAR
    assert bar(0, 4) == bar(1, 0) == "·" * BAR
    assert bar(1, 2).count("█") == round(BAR / 2)
