"""JSON text: add and remove one member of an object, and leave every other byte as it is.

Comments and trailing commas, which some clients allow, are understood and kept. `remove` undoes `add` exactly. For
that, `add` writes so that its three cases can be told apart: a new member begins on a line of its own; if the
object that holds it was new too, both stand on one line; and a new file has no line break at all before its end.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millgate.errors import InputError

_TOKEN = re.compile(
    r"""(?P<space>[\s\ufeff]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/)"""
    r"""|(?P<string>"(?:[^"\\\n]|\\.)*+")|(?P<mark>[{}\[\],:])|(?P<word>[^\s{}\[\],:"/]+)"""
)

# What a comma may not follow, lest it be more than a trailing one.
_NO_VALUE: tuple[list[str], ...] = ([], ["{"], ["["], [","], [":"])


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object: its name, and where it begins, its value begins, and both end."""

    name: str
    start: int
    value: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """Where an object opens and closes in the text, and its members."""

    open: int
    close: int
    members: tuple[_Member, ...]

    def last(self, name: str) -> _Member | None:
        """The member of a name; the last one counts, as it does for parsers."""
        return next((member for member in reversed(self.members) if member.name == name), None)


def add(text: str | None, key: str, name: str, value: Mapping[str, Any]) -> str:
    """The text with `value` under `name` in the object at `key`; None stands for a file that does not exist."""
    written = json.dumps(value, ensure_ascii=False)
    if text is None:
        return f'{{"{key}": {{"{name}": {written}}}}}\n'
    data = load(text)
    line = "\r\n" if "\r\n" in text else "\n"
    root = _object(text, 0)
    holder = root.last(key)
    if holder is None:
        return _insert(text, root, f'{line}  "{key}": {{"{name}": {written}}}')
    if not isinstance(data[key], dict):
        raise InputError(f"{key!r} is not an object")
    return _insert(text, _object(text, holder.value), f'{line}    "{name}": {written}')


def remove(text: str, key: str, name: str) -> str | None:
    """The text without the member that `add` added; None if `add` made the file."""
    expected = load(text)
    root = _object(text, 0)
    holder = root.last(key)
    inner = _object(text, holder.value) if holder and isinstance(expected[key], dict) else None
    member = inner.last(name) if inner else None
    if holder is None or inner is None or member is None:
        return text
    made_holder = member.start == inner.open + 1 and member.end == inner.close
    if not made_holder:
        del expected[key][name]
        return _verify(_cut(text, inner, member), expected)
    made_file = (
        len(root.members) == 1
        and (root.open, root.open + 1) == (0, holder.start)
        and text[holder.end :] == "}\n"
    )
    del expected[key]
    return None if made_file else _verify(_cut(text, root, holder), expected)


def find(text: str, key: str, name: str) -> Mapping[str, Any] | None:
    """The value of a member, if there is one."""
    servers = load(text).get(key)
    found = servers.get(name) if isinstance(servers, dict) else None
    return found if isinstance(found, dict) else None


def load(text: str) -> dict[str, Any]:
    """The data of a text; InputError if it is not an object, or not JSON at all."""
    kept: list[str] = []
    for token in _tokens(text):
        if token.text in ("}", "]") and kept[-1:] == [","] and kept[-2:-1] not in _NO_VALUE:
            kept.pop()  # a trailing comma
        kept.append(token.text)
    try:
        data = json.loads(" ".join(kept))
    except (ValueError, RecursionError) as error:
        raise InputError(f"it is not valid JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError("it is not a JSON object")
    return data


def _tokens(text: str) -> list[_Token]:
    """The tokens of a text, without white space and comments."""
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            line = text.count("\n", 0, at) + 1
            raise InputError(f"it is not valid JSON: line {line} cannot be read")
        kind = match.lastgroup or ""
        if kind != "space":
            tokens.append(_Token(kind, match.group(), at, match.end()))
        at = match.end()
    return tokens


def _object(text: str, start: int) -> _Object:
    """The object that opens at or after `start`; the text must be valid JSON."""
    tokens = [token for token in _tokens(text) if token.start >= start]
    members: list[_Member] = []
    depth, at = 0, 0
    name: _Token | None = None
    value = 0
    while True:
        token = tokens[at]
        if token.text in ("{", "["):
            depth += 1
        closes = token.text in ("}", "]")
        if depth == 1 and (closes or token.text == ",") and name is not None:
            members.append(_Member(json.loads(name.text), name.start, value, tokens[at - 1].end))
            name = None
        if closes:
            depth -= 1
            if depth == 0:
                return _Object(tokens[0].start, token.start, tuple(members))
        elif depth == 1 and name is None and token.kind == "string":
            # a name, its colon, and where the value begins
            name, value = token, tokens[at + 2].start
            at += 1
        at += 1


def _insert(text: str, holder: _Object, inserted: str) -> str:
    at = holder.open + 1
    comma = "," if holder.members else ""
    return text[:at] + inserted + comma + text[at:]


def _cut(text: str, holder: _Object, member: _Member) -> str:
    """The text without a member, the line it begins, and the comma that parted it from the next."""
    head, tail = text[: member.start], text[member.end :]
    head = head.rstrip(" \t").removesuffix("\n").removesuffix("\r")
    if holder.members[-1] is not member:
        return head + tail.lstrip().removeprefix(",")
    # the last of several: the comma before it goes, which no comment can hold
    at = holder.members.index(member)
    if at:
        before = holder.members[at - 1].end
        head = head[:before] + head[before:].replace(",", "", 1)
    return head + tail


def _verify(text: str, expected: Mapping[str, Any]) -> str:
    """The text, if it holds what is expected; else refuse the edit."""
    try:
        right = load(text) == expected
    except InputError:
        right = False
    if not right:
        raise InputError("its entry is written in a form that cannot be taken out safely")
    return text
