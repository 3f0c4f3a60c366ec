"""Files: what an agent's own configuration says, read and never written.

A file that is there and cannot be understood is an error: what the agent would do is then not known.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from millgate.errors import InputError
from millgate.integrations.mcp_clients import load_json

T = TypeVar("T")

MOST_BYTES = 8 << 20  # Claude Code's own file of all projects may have a megabyte
_VARIABLE = re.compile(r"^[ \t]*+(?:export[ \t]++)?([A-Za-z_]\w*+)[ \t]*+=([^\n]*+)$", re.MULTILINE)
_YAML_PAIR = re.compile(r"^[ \t]++([A-Za-z_]\w*+):(?:[ \t]++([^\n]*+))?$")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object, with comments if the agent allows them; empty if there is no such file."""
    return _parse(path, lambda text: load_json(text or "{}"))


def read_toml(path: Path) -> dict[str, Any]:
    """A TOML document; empty if there is no such file."""
    return _parse(path, tomllib.loads)


def read_variables(path: Path) -> dict[str, str]:
    """The variables of a .env file; empty if there is no such file."""
    return _parse(path, parse_variables)


def parse_variables(text: str) -> dict[str, str]:
    """The variables in the text of a .env file: NAME=VALUE a line, with or without quotes."""
    return {name: _unquote(value.strip()) for name, value in _VARIABLE.findall(text)}


def read_yaml_block(path: Path, name: str) -> dict[str, str]:
    """The plain values of one block of a YAML file, as `name:` with indented `key: value` lines under it.

    A block in any other form is an error: only this one is read without a parser for all of YAML.
    """
    return _parse(path, lambda text: _yaml_block(text, name))


def is_file(path: Path) -> bool:
    """Whether there is such a file; a text that is too long for a path names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def parents(folder: Path) -> Iterator[Path]:
    """A folder and those above it, the nearest first."""
    yield from (folder.absolute(), *folder.absolute().parents)


def _parse(path: Path, read: Callable[[str], T]) -> T:
    try:
        if not path.is_file():  # a virtual environment is often a folder named .env
            return read("")
        with path.open("rb") as file:
            return read(file.read(MOST_BYTES).decode())
    except PermissionError:
        return read("")  # the agent, which runs as the same user, cannot read it either
    except (OSError, ValueError, InputError) as error:
        why = error.message if isinstance(error, InputError) else str(error)
        raise InputError(
            f"{path} cannot be read, so it is not known where the agent would call: {why}",
            hint="mend the file, or use the proxy: millgate serve",
        ) from error


def _unquote(value: str) -> str:
    if value[:1] in ("'", '"') and value.count(value[0]) >= 2:
        return value[1 : value.index(value[0], 1)]
    return value.partition(" #")[0].strip()


def _yaml_block(text: str, name: str) -> dict[str, str]:
    lines = text.replace("\r\n", "\n").split("\n")
    starts = [at for at, line in enumerate(lines) if re.match(rf"['\"]?{name}['\"]?[ \t]*:", line)]
    if not starts:
        return {}
    if len(starts) > 1 or lines[starts[0]].partition("#")[0].strip() != f"{name}:":
        raise ValueError(f"its block {name!r} is not written as one plain block")
    found: dict[str, str] = {}
    indent = 0
    for line in lines[starts[0] + 1 :]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not line[0].isspace():
            break
        depth = len(line) - len(line.lstrip())
        indent = indent or depth
        if depth > indent:  # a value with a structure of its own, which is none of ours
            continue
        pair = _YAML_PAIR.match(line)
        if pair is None or depth < indent or (pair[2] or "")[:1] in ("&", "*", "!", "|", ">"):
            raise ValueError(f"its block {name!r} is not written as one plain block")
        found[pair[1]] = _unquote((pair[2] or "").strip())
    return found
