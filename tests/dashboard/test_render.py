"""Numbers, times and addresses as pages show them."""

import pytest

from millgate.service.dashboard.render import _figure, _has_scope, environment, link
from millgate.service.observe.request_state import Caller


@pytest.mark.parametrize(
    ("value", "shown"),
    [(3.0, "3"), (12_345, "12,345"), (0.12345, "0.123"), (True, "True"), ("text", "text"), (None, "None")],
)  # fmt: skip
def test_a_number_has_few_digits_and_anything_else_stays(value, shown):
    assert _figure(value) == shown


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


def test_nobody_has_a_scope():
    assert not _has_scope(None, "read")
    assert _has_scope(Caller("t", frozenset({"read"})), "read")
    assert not _has_scope(Caller("t", frozenset({"read"})), "write")
