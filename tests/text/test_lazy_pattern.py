"""A late pattern is compiled at its first use, and is then like any other."""

import re

import pytest

from millgate.text.lazy_pattern import lazy_compile


def test_it_finds_what_the_pattern_finds():
    late = lazy_compile(r"(\w)\1", re.IGNORECASE)
    plain = re.compile(r"(\w)\1", re.IGNORECASE)
    text = "bookkeeper, AAron"
    assert late.findall(text) == plain.findall(text)
    assert late.sub("-", text) == plain.sub("-", text)
    assert (late.pattern, late.flags) == (plain.pattern, plain.flags)


def test_it_is_not_compiled_before_it_is_used():
    broken = lazy_compile("(")
    with pytest.raises(re.error):
        broken.search("x")


def test_a_function_may_give_the_pattern_when_it_is_needed():
    asked = []
    late = lazy_compile(lambda: asked.append(1) or r"\d+")
    assert asked == []
    assert late.findall("1 and 22") == late.findall("1, 22") == ["1", "22"]
    assert asked == [1]


def test_it_has_nothing_that_a_pattern_has_not():
    with pytest.raises(AttributeError):
        lazy_compile("x").rewind()
