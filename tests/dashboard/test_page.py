"""Numbers, times, addresses and counts as pages show them, and what became of an answer, as people say it."""

import pytest

from millgate.service.dashboard.page import (
    count,
    describe_outcome,
    environment,
    figure,
    link,
    looped,
    other_reasons,
)
from millgate.types import TraceSummary


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3.0, "3"), (12_345, "12,345"), (0.12345, "0.123"), (True, "True"), ("text", "text"), (None, "None")],
)  # fmt: skip
def test_a_number_has_few_digits_and_anything_else_stays(value, shown):
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("ms", 0.0021, "2.1 ms"), ("ms", 0.01, "10 ms"), ("ms", 0.0099, "9.9 ms"), ("ms", 2.5, "2,500 ms"),
        ("share", 0.25, "25 %"), ("thousands", 1_000, "1,000"), ("clock", 0, "1970-01-01 00:00:00 UTC"),
    ],
)  # fmt: skip
def test_filters_of_the_templates(name, value, shown):
    assert environment().filters[name](value) == shown


def test_a_link_leaves_out_what_is_empty():
    assert link("/x", a="", b=None, c=0, d="é") == "/dashboard/x?c=0&d=%C3%A9"
    assert link("/x", a="") == "/dashboard/x"


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 folds"), (1, "1 fold"), (1.0, "1 fold"), (2000, "2,000 folds")]
)
def test_one_is_singular(number, words):
    assert count(number, "fold") == words


def test_a_noun_may_have_a_plural_of_its_own():
    assert [count(n, "copy", "copies") for n in (1, 2)] == ["1 copy", "2 copies"]


def row(outcome, *degraded):
    return TraceSummary("t", 0.0, "", "", "", "", "", 0.0, False, 0, 0, 0, 0.0, degraded=degraded, outcome=outcome)  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "degraded", "words", "is_loop"),
    [
        ("clean", (), "no loop", False),
        ("recovered", (), "a loop was cut", True),
        ("failed", ("model: LoopError",), "the model kept looping", True),
        ("failed", ("model: PartialCallError",), "the model kept looping", True),
        ("failed", ("model: UpstreamError",), "the answer broke off", False),
        ("broken", ("model: UpstreamError",), "the answer broke off", False),
        ("abandoned", (), "given up by the agent", False),
    ],
)
def test_an_outcome_is_told_in_plain_words(outcome, degraded, words, is_loop):
    assert describe_outcome(outcome, degraded) == words
    assert looped(row(outcome, *degraded)) is is_loop


def test_a_reason_is_not_told_twice():
    assert other_reasons(row("failed", "model: LoopError", "memory: late")) == ["memory: late"]
    assert other_reasons(row("failed", "model: UpstreamError")) == ["model: UpstreamError"]
