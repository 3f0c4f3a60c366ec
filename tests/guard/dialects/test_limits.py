"""Limits of output tokens that requests set, in each dialect."""

import pytest

from millgate.guard.dialects import dialect_for
from millgate.guard.dialects.dialect import LARGEST_ANSWER

FIELDS = {
    "/v1/chat/completions": ("max_tokens", "max_completion_tokens"),
    "/v1/completions": ("max_tokens",),
    "/v1/messages": ("max_tokens",),
    "/v1/responses": ("max_output_tokens",),
}
CASES = [(path, name) for path, names in FIELDS.items() for name in names]


@pytest.mark.parametrize(("path", "name"), CASES)
@pytest.mark.parametrize(
    ("value", "limit"),
    [(7, 7), (2**64, LARGEST_ANSWER), (0, 0), (-1, 0), (-(10**9), 0), (True, 0), ("9", 0), (None, 0)],
)  # fmt: skip
def test_only_a_positive_number_is_a_limit(path, name, value, limit):
    assert dialect_for(path).token_limit({name: value}) == limit


@pytest.mark.parametrize(("path", "name"), CASES)
@pytest.mark.parametrize("value", [-1, 0, True])
def test_what_is_not_a_limit_is_not_changed_when_an_answer_is_resumed(path, name, value):
    assert dialect_for(path).remaining_limit({name: value}, 5) == {}
