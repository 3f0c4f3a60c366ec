"""Ignore patterns: what git leaves out is left out, in time that grows with the path."""

import os
import subprocess
from contextlib import suppress
from random import Random

import pytest
from tests.hostile import grows_faster

from millgate.errors import InputError
from millgate.ingest.ignore import Ignore, parse_pattern
from millgate.ingest.readers import SourceFile
from millgate.ingest.walk import walk

# What is written in a `.gitignore`, and what git makes of it that one might not expect. `a**/b` is not among it: git
# takes its stars for folders, against its own manual.
PATTERNS = [
    "a", "/a", "a/", "/a/", "a/b", "a/**", "**/a", "**/a/b", "a/**/b", "a/**/**/b", "**", "/**", "/*", "*/", "*", "**/",
    "/", "//a", "a//b", "a//", "!a", "!", "*\n!*/\n!*.c", "*\n!a/", "a/*\n!a/b", "#a", r"\#a", r"\!a", r"a\ ", "a  ", "a ", r"a\  ",
    r"\a", "a\\", r"\*", "*.c", "x.?", "?", "a*b", "*a*b*", "a**", "**a", "a/b**", "***", "***/a", "a/***", r"a\/b",
    "[ab]", "[!a]", "[^a]", "[a-b]", "[b-a]", "[a--b]", "[a||b]", "[[x]", "[a&&b]", "[a~~b]", "[--a]", "[]a]", "[!]a]",
    "[a", "[", "[!", "[]", "[a-", "[a-]", "[-a]", r"[\]]", r"[\a]", "[\\", "[[:alph:]]", "a[/]b", "[a/b]", "[a/b]c", "x[!y]c", "x[.]c", ".[a-z]", "[A-Z]", "a.", "|", "[|]", "(a)", "a+", "^", "$",
]  # fmt: skip
FILES = [
    "a/b/a/b", "a/c", "a/ab", "b/a", "b/x.c", "c", "ab/a/b", "deep/a/b/a/b", "deep/ab", "deep/ac", "A", "ac", "aab", "x.c", "xyc", "7", " b", "a.",
    "#a", "!a", "a ", "a\\", "[", "]", "-", "|", "&", "*", "(a)", "a+", "^", "$", "a|b", "[x]", "k/b", "k/-", "k/]", "k/x.c",
]  # fmt: skip
PIECES = ["*", "**", "/", "/", "a", "b", "?", "[ab]", "[!a]", "ab", "**/", "/**/", "[", "]", "-", "\\", "!", "\n!"]  # fmt: skip
DRAWN = ["".join(Random(seed).choices(PIECES, k=1 + seed % 9)) for seed in range(60)]
OWN = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True, env=OWN)
    for name in FILES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    return folder


def left_by_git(folder):
    command = ["git", "-C", folder, "ls-files", "-z", "--others", "--exclude-standard"]
    done = subprocess.run(command, check=True, capture_output=True, env=OWN, text=True)
    return set(done.stdout.split("\0")) - {"", ".gitignore"}


@pytest.mark.parametrize("patterns", [PATTERNS, DRAWN], ids=["written", "drawn"])
def test_git_leaves_out_the_same_files(repository, monkeypatch, patterns):
    monkeypatch.chdir(repository)
    differ = []
    for lines in patterns:
        (repository / ".gitignore").write_text(lines + "\n")
        ours = {file.id for file in walk(["."]) if isinstance(file, SourceFile)}
        if ours != (theirs := left_by_git(repository)):
            differ.append((lines, ours ^ theirs))
    assert differ == []


def test_what_lies_below_an_ignored_folder_is_ignored_if_it_is_named(repository, monkeypatch):
    monkeypatch.chdir(repository)
    (repository / ".gitignore").write_text("/a\n*.c\n")
    assert {file.id for file in walk(["b"])} == {"b/a"}
    assert {file.id for file in walk(["a/b"])} == {"a/b/a/b"}


def test_a_pattern_of_the_caller_that_matches_nothing_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"the pattern '\[a' cannot be read: it ends too early"):
        Ignore.above(tmp_path, ["b", "[a"], gitignore=False)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 12 + "*b", "a" * 255),
        ("**/a/" * 12 + "b", "a/" * 2_000 + "c"),
        ("a/**/" * 12 + "b", "a/" * 2_000 + "c"),
        ("*?" * 12 + "*b", "a" * 255),
        ("**/*a*a*a*/" * 6 + "b", ("a" * 40 + "/") * 90 + "c"),
        ("*/" * 12 + "b", ("a" * 200 + "/") * 12 + "c"),
    ],
)
def test_a_pattern_of_many_stars_ends(pattern, path):
    assert not parse_pattern(pattern).matches(path, is_folder=False)


@pytest.mark.parametrize(
    ("pattern", "path"), [("[a||b]*.log", "|x.log"), ("[[x]", "["), ("[a--b]", "b"), ("[a&&b]", "&")]
)  # fmt: skip
def test_brackets_that_other_tools_warn_of_are_read_without_a_word(pattern, path):
    assert parse_pattern(pattern).matches(path, is_folder=False)


@pytest.mark.parametrize("end", ["", "b", "\\", "\\ "])
def test_a_line_of_spaces_is_read_in_linear_time(end):
    def read(line):
        with suppress(ValueError):
            parse_pattern(line)

    assert not grows_faster(read, lambda size: "a" + " " * 50 * size + end)


def test_spaces_at_the_end_do_not_count_unless_a_backslash_keeps_one():
    assert parse_pattern("a" + " " * 1_000_000) == parse_pattern("a")
    assert parse_pattern("a\\" + " " * 9) == parse_pattern("a\\ ")


def test_a_pattern_longer_than_any_path_matches_nothing(tmp_path):
    with pytest.raises(ValueError, match="longer than any path"):
        parse_pattern("*a" * 200_000)
    (tmp_path / ".gitignore").write_text("*a" * 200_000 + "\nb\n")
    (tmp_path / "b").write_text("text")
    (tmp_path / "c").write_text("text")
    assert [file.path.name for file in walk([tmp_path]) if isinstance(file, SourceFile)] == ["c"]
