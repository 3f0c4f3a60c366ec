"""Patterns of git that match in time that grows with the path."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from headgate.ingest.ignore_patterns import close_groups, parse_patterns

PIECES = ["*", "**", "/", "/", "a", "b", "?", "[ab]", "[!a]", "ab", "**/", "/**/"]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join)
PATHS = st.lists(st.sampled_from(["a", "b", "ab", "ba", "aab"]), min_size=1, max_size=5).map("/".join)  # fmt: skip


@given(PATTERNS, st.lists(PATHS, max_size=6))
def test_a_closed_pattern_matches_the_same_paths(pattern, paths):
    try:
        whole = GitIgnoreSpec.from_lines([pattern])
    except ValueError:
        return
    closed = parse_patterns([pattern])
    for path in [*paths, *(f"{path}/" for path in paths)]:
        assert closed.check_file(path).include == whole.check_file(path).include, path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 12 + "*b", "a" * 255),
        ("**/a/" * 12 + "b", "a/" * 2_000 + "c"),
        ("a/**/" * 12 + "b", "a/" * 2_000 + "c"),
        ("*?" * 12 + "*b", "a" * 255),
        ("**/*a*a*a*/" * 6 + "b", ("a" * 40 + "/") * 90 + "c"),
    ],
)
def test_a_pattern_of_many_stars_ends(pattern, path):
    assert parse_patterns([pattern]).check_file(path).include is None


def test_a_pattern_without_stars_stays_as_it_is():
    regex = GitIgnoreSpec.from_lines(["/out/x.log"]).patterns[0].regex.pattern
    assert close_groups(regex) == regex
    assert re.compile(regex)
