"""The error tree: statuses, hints, and that the docstring draws every branch."""

import inspect
from pathlib import Path

import pytest

from millgate import errors
from millgate.errors import LoopError, MillgateError, MissingExtra

TREE = [e for _, e in inspect.getmembers(errors, inspect.isclass) if issubclass(e, MillgateError)]


@pytest.mark.parametrize("error", TREE)
def test_each_error_stands_in_the_tree_with_its_status(error):
    lines = [
        line for line in (errors.__doc__ or "").splitlines() if f" {error.__name__} " in f" {line} "
    ]
    assert lines
    if error is not MillgateError:
        assert str(error.status) in lines[0]


def test_the_hint_is_part_of_what_is_read():
    assert str(MillgateError("it broke", hint="mend it")) == "it broke (mend it)"
    assert str(MillgateError("it broke")) == "it broke"


def test_a_missing_extra_names_the_pip_line():
    assert "pip install '.[tokens]'" in str(MissingExtra("splintr-rs", extra="tokens"))


def test_a_loop_error_carries_the_clean_text():
    assert LoopError("it looped", text="so far").text == "so far"


@pytest.mark.parametrize("error", [e for e in TREE if e is not MillgateError])
def test_each_error_stands_on_its_page(error):
    page = (Path(__file__).parent.parent / "docs" / "errors.md").read_text()
    assert f"| `{error.__name__}` | {error.status} |" in page


def test_a_missing_package_that_nobody_can_name_is_named_by_its_extra():
    assert MissingExtra("psycopg", extra="postgres").message == "psycopg is not installed"
    assert MissingExtra(None, extra="mcp").message == "mcp is not installed"
