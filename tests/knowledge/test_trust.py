"""Trust: how it moves."""

import pytest

from millgate.knowledge.facts import check_trust, with_trust
from millgate.types import Fact

FACT = Fact("f", "The staging server is called Heron", trust=0.5)


@pytest.mark.parametrize(("asked", "new"), [(0.7, 0.7), (1.3, 1.0), (-0.2, 0.0), (0.1 + 0.2, 0.3)])
def test_trust_stays_within_its_bounds_and_is_rounded(asked, new):
    assert with_trust(FACT, asked, "because", 7.0).trust == new


def test_trust_at_its_bounds_is_taken():
    assert [check_trust(0), check_trust(1)] == [0.0, 1.0]
