"""Trust: how it moves, and how it fades."""

import pytest

from millgate.knowledge.facts import DAY, check_trust, decay_factor, with_trust
from millgate.types import Fact

FACT = Fact("f", "The staging server is called Heron", trust=0.5)


@pytest.mark.parametrize(("asked", "new"), [(0.7, 0.7), (1.3, 1.0), (-0.2, 0.0), (0.1 + 0.2, 0.3)])
def test_trust_stays_within_its_bounds_and_is_rounded(asked, new):
    assert with_trust(FACT, asked, "because", 7.0).trust == new


def test_a_half_life_halves():
    fact = Fact("f", "x", created=0.0, updated=10 * DAY)
    assert decay_factor(fact, 10 * DAY, 90) == 1.0
    assert decay_factor(fact, 100 * DAY, 90) == 0.5
    assert decay_factor(fact, 0.0, 90) == 1.0  # a clock that went back


def test_trust_at_its_bounds_is_taken():
    assert [check_trust(0), check_trust(1)] == [0.0, 1.0]
