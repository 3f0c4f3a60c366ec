"""Touched: which file a tool call reads or changes, as far as its name and arguments tell.

Agents name their tools in many ways. A call that cannot be understood reads and changes nothing.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from millgate.transcript.parts import parse_arguments

_PATHS = ("file_path", "path", "filename", "filepath", "file", "target_file", "absolute_path", "notebook_path", "relative_path")  # fmt: skip
_READS = re.compile(r"read|view|open|cat\b|get_?file|fetch_?file", re.IGNORECASE)
_EDITS = re.compile(r"edit|write|replace|patch|create|insert|update|delete|undo", re.IGNORECASE)
_PATCHED = re.compile(r"^\*\*\* (?:Update|Add|Delete) File: (\S.{0,999})$", re.MULTILINE)
_SHOWN = re.compile(
    r"(?:^|[;&|(\"'\s])(?:cat|head|tail|nl|bat|less|sed -n)\b([^;&|<>()\"']{0,500})"
)
_COMMANDS = ("command", "cmd", "script", "input")


@dataclass(frozen=True, slots=True)
class Touched:
    """Files that a call reads and files that it changes."""

    reads: tuple[str, ...] = ()
    edits: tuple[str, ...] = ()


def touched_files(tool: str, arguments: object) -> Touched:
    """The files of one call."""
    given = parse_arguments(arguments)
    values = given if isinstance(given, dict) else {"input": given}
    paths = (values.get(name) for name in _PATHS)
    path = next((one for one in paths if isinstance(one, str)), None)
    command = values.get("command")
    if path is not None:
        if tool.startswith("str_replace"):  # one tool that views and edits, by its command
            return Touched(reads=(path,)) if command == "view" else Touched(edits=(path,))
        if _EDITS.search(tool):
            return Touched(edits=(path,))
        return Touched(reads=(path,)) if _READS.search(tool) else Touched()
    text = _command(values)
    if edits := tuple(found.strip() for found in _PATCHED.findall(text)):
        return Touched(edits=edits)
    shown = [word for words in _SHOWN.findall(text) for word in words.split() if _is_path(word)]
    return Touched(reads=tuple(dict.fromkeys(shown)))


def _command(values: Mapping[str, object]) -> str:
    found = (values.get(name) for name in _COMMANDS)
    command = next((one for one in found if isinstance(one, str | list)), "")
    words = [command] if isinstance(command, str) else filter(lambda one: isinstance(one, str), command)  # fmt: skip
    return " ".join(words)[:100_000]


def _is_path(word: str) -> bool:
    return not word.startswith("-") and ("." in word or "/" in word) and not word[0].isdigit()
