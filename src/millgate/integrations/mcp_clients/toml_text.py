"""TOML text: add and remove one table, and leave every other byte as it is.

The table is appended after a line break, which `remove` takes out with it. Both results are parsed and compared with
what they should say; a file whose form does not allow such an edit (an inline table of servers) is refused.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from millgate.errors import InputError

_HEADER = re.compile(r"^[ \t]*\[{1,2}[^\[\]\n]+\]{1,2}[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)


def add(text: str | None, key: str, name: str, value: Mapping[str, Any]) -> str:
    """The text with the table [key.name]; None stands for a file that does not exist."""
    line = "\r\n" if text and "\r\n" in text else "\n"
    pairs = [f"{field} = {_to_toml(part)}" for field, part in value.items()]
    table = line.join([f"[{key}.{name}]", *pairs, ""])
    if text is None:
        return table
    expected = load(text)
    servers = expected.setdefault(key, {})
    if not isinstance(servers, dict):
        raise InputError(f"{key!r} is not a table")
    servers[name] = dict(value)
    changed = text + line + table
    return _verify(changed, _parse(changed), expected)


def remove(text: str, key: str, name: str) -> str | None:
    """The text without the table that `add` added; None if `add` made the file."""
    expected = load(text)
    if find(text, key, name) is None:
        return text
    del expected[key][name]
    kept = text
    while section := _section(kept, key, name):
        start, end = section
        kept = kept[:start] + kept[end:]
    if not kept and text.startswith("["):
        return None
    # a table that only came to be by the one inside it goes with it
    found = _parse(kept)
    if isinstance(found, dict) and not expected[key]:
        found.setdefault(key, {})
    return _verify(kept, found, expected)


def find(text: str, key: str, name: str) -> Mapping[str, Any] | None:
    """The table of a name, if there is one."""
    servers = load(text).get(key)
    found = servers.get(name) if isinstance(servers, dict) else None
    return found if isinstance(found, dict) else None


def load(text: str) -> dict[str, Any]:
    """The data of a text; InputError if it is not TOML."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"it is not valid TOML: {error}") from error


def _to_toml(value: object) -> str:
    """A string or a list of strings. JSON writes them as TOML does, but for one character that TOML wants escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _section(text: str, key: str, name: str) -> tuple[int, int] | None:
    """Where the first table of that name, or inside it, begins and ends: with the line break before it, to its last
    pair.
    """
    headers = list(_HEADER.finditer(text))
    ours = re.compile(rf"\s*\[\s*\"?{key}\"?\s*\.\s*\"?{re.escape(name)}\"?\s*[\].]")
    for at, header in enumerate(headers):
        if ours.match(header.group()):
            end = headers[at + 1].start() if at + 1 < len(headers) else len(text)
            lines = text[header.start() : end].splitlines(keepends=True)
            # blank lines and comments at its end belong to what follows
            while lines[-1].lstrip()[:1] in ("", "#"):
                lines.pop()
            before = text[: header.start()].removesuffix("\n").removesuffix("\r")
            return len(before), header.start() + sum(map(len, lines))
    return None


def _parse(text: str) -> object:
    """The data of a text; None if it is not valid."""
    try:
        return load(text)
    except InputError:
        return None


def _verify(text: str, found: object, expected: Mapping[str, Any]) -> str:
    """The text, if it holds what is expected; else refuse the edit."""
    if found != expected:
        raise InputError("its servers are written in a form that cannot be edited safely")
    return text
