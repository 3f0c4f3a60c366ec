"""How many random inputs each re-implementation is tried on."""

import pytest

CASES = [500, pytest.param(10_000, marks=pytest.mark.slow)]
random_cases = pytest.mark.parametrize("cases", CASES)
