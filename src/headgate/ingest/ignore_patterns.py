"""Ignore patterns: those of git, as regular expressions that match a path in time that grows with its length.

Whoever writes a repository writes its `.gitignore` too. A pattern of many stars, as `*a*a*a*a*b`, makes a plain
expression try every way of sharing a name among them. But a star that another one follows in the same name need never
give anything back: the next takes whatever is left. The same holds for `**` and folders. So each of them is closed (an
atomic group) as soon as it has matched.
"""

import re
from collections.abc import Iterable

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

# as pathspec writes a star, `**` between folders, and `**` at the beginning
_STAR, _BETWEEN, _BEFORE = "[^/]*", "(?:/.+)?", "^(?:.+/)?"


def parse_patterns(lines: Iterable[str]) -> GitIgnoreSpec:
    """The patterns in the lines of a `.gitignore`; ValueError where one cannot be read."""
    return GitIgnoreSpec([_parse(line) for line in lines if line], backend="simple")


def _parse(line: str) -> GitIgnoreSpecPattern:
    try:
        pattern = GitIgnoreSpecPattern(line)
    except re.error as error:
        raise ValueError(f"{line!r}: {error}") from error
    if pattern.regex is not None:
        pattern.regex = re.compile(close_groups(pattern.regex.pattern))
    return pattern


def close_groups(regex: str) -> str:
    """The expression of a pattern, matching the same paths, without going back on what has matched."""
    *parts, last = [_close_stars(part) for part in regex.split(_BETWEEN)]
    closed = []
    for at, part in enumerate(parts):
        if at:
            closed.append(f"(?>(?:/.+?)??{part}(?=/))")
        elif part.startswith(_BEFORE):
            closed.append(f"^(?>(?:.+?/)??{part.removeprefix(_BEFORE)}(?=/))")
        else:
            closed.append(part)
    return "".join([*closed, _BETWEEN + last]) if parts else last


def _close_stars(part: str) -> str:
    first, *pieces = part.split(_STAR)
    closed = [first]
    for at, piece in enumerate(pieces, start=1):
        same_name = "/" not in piece.replace("[^/]", "")
        another = at < len(pieces) and same_name
        closed.append(f"(?>[^/]*?{piece})" if another else _STAR + piece)
    return "".join(closed)
