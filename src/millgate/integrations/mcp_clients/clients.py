"""Clients: where each MCP client keeps its servers, and what an entry looks like there.

| client | user | project | form |
|---|---|---|---|
| claude | ~/.claude.json | .mcp.json | JSON, mcpServers |
| codex | ~/.codex/config.toml | .codex/config.toml | TOML, [mcp_servers.NAME] |
| cursor | ~/.cursor/mcp.json | .cursor/mcp.json | JSON, mcpServers |
| vscode | Code/User/mcp.json | .vscode/mcp.json | JSON, servers |
| gemini | ~/.gemini/settings.json | .gemini/settings.json | JSON, mcpServers |
| opencode | ~/.config/opencode/opencode.json | opencode.json | JSON, mcp |

OpenCode's file may also be named opencode.jsonc; the one that is there is used.
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from millgate.errors import InputError
from millgate.integrations.mcp_clients import json_text, toml_text


class Edit(Protocol):
    """How one entry of a configuration is changed: `json_text` and `toml_text`."""

    def add(self, text: str | None, key: str, name: str, value: Mapping[str, Any]) -> str:
        """The text with an entry; None stands for a file that does not exist."""

    def remove(self, text: str, key: str, name: str) -> str | None:
        """The text as it was before `add`; None if there was no file."""

    def find(self, text: str, key: str, name: str) -> Mapping[str, Any] | None:
        """The entry of a name, if there is one."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A server that a client starts over stdio."""

    name: str
    command: str
    arguments: tuple[str, ...] = ()


def _plain(entry: Entry) -> dict[str, Any]:
    """An entry as most clients write it."""
    return {"command": entry.command, "args": list(entry.arguments)}


def _name_transport(entry: Entry) -> dict[str, Any]:
    """An entry that names its transport."""
    return {"type": "stdio", **_plain(entry)}


def _opencode_entry(entry: Entry) -> dict[str, Any]:
    """An entry as OpenCode writes it: command and arguments are one list."""
    return {"type": "local", "command": [entry.command, *entry.arguments]}


@dataclass(frozen=True, slots=True)
class Place:
    """A client's configuration file, and the key under which it holds its servers."""

    title: str
    path: Path
    key: str = "mcpServers"
    write: Callable[[Entry], dict[str, Any]] = _plain
    """The entry as this client writes it."""

    def snippet(self, entry: Entry) -> str:
        """The text of a configuration that has this entry alone."""
        return self.add(None, entry)

    def add(self, text: str | None, entry: Entry) -> str:
        """The configuration with the entry; None stands for a file that does not exist."""
        return self._edit.add(text, self.key, entry.name, self.value(entry))

    def value(self, entry: Entry) -> dict[str, Any]:
        """The entry as data of this client."""
        return self.write(entry)

    def remove(self, text: str, name: str) -> str | None:
        """The configuration as it was before `add`; None if there was no file."""
        return self._edit.remove(text, self.key, name)

    def find(self, text: str, name: str) -> Mapping[str, Any] | None:
        """The entry of a name, if there is one."""
        return self._edit.find(text, self.key, name)

    @property
    def _edit(self) -> Edit:
        return toml_text if self.path.suffix == ".toml" else json_text


def _home(variable: str, folder: str) -> Path:
    """The folder that an environment variable names, else one in the user's home."""
    return Path(os.environ.get(variable) or Path.home() / folder)


def _claude() -> Path:
    folder = os.environ.get("CLAUDE_CONFIG_DIR")
    return Path(folder or Path.home()) / ".claude.json"


def _vscode() -> Path:
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = _home("APPDATA", "AppData/Roaming")
    else:
        base = _home("XDG_CONFIG_HOME", ".config")
    return base / "Code" / "User" / "mcp.json"


def _opencode() -> Path:
    return _either(_home("XDG_CONFIG_HOME", ".config") / "opencode" / "opencode.json")


def _either(path: Path) -> Path:
    """A JSON file, or the one with comments beside it if only that is there."""
    commented = path.with_suffix(".jsonc")
    return commented if commented.is_file() and not path.is_file() else path


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its name for a person, its files, the key of its servers, and the form of an entry."""

    title: str
    user: Callable[[], Path]
    project: str
    key: str = "mcpServers"
    write: Callable[[Entry], dict[str, Any]] = _plain


def _codex() -> Path:
    return _home("CODEX_HOME", ".codex") / "config.toml"


def _cursor() -> Path:
    return Path.home() / ".cursor" / "mcp.json"


def _gemini() -> Path:
    return Path.home() / ".gemini" / "settings.json"


CLIENTS: Mapping[str, Client] = {
    "claude": Client("Claude Code", _claude, ".mcp.json", write=_name_transport),
    "codex": Client("Codex", _codex, ".codex/config.toml", "mcp_servers"),
    "cursor": Client("Cursor", _cursor, ".cursor/mcp.json"),
    "vscode": Client("VS Code", _vscode, ".vscode/mcp.json", "servers", _name_transport),
    "gemini": Client("Gemini CLI", _gemini, ".gemini/settings.json"),
    "opencode": Client("OpenCode", _opencode, "opencode.json", "mcp", _opencode_entry),
}


def find_place(client: str, scope: str) -> Place:
    """The configuration file of a client, for the user or for the project in the current folder."""
    found = CLIENTS[client]
    path = found.user() if scope == "user" else _in_project(_either(Path.cwd() / found.project))
    return Place(found.title, path, found.key, found.write)


def _in_project(path: Path) -> Path:
    """The path, unless a link leads out of the project: a cloned repository must not name the file that is written."""
    target = Path(os.path.realpath(path))  # unlike `resolve`, not an error for a link to itself
    if not target.is_relative_to(Path.cwd().resolve()):
        raise InputError(
            f"{path} leads out of this folder, to {target}",
            hint="remove the link, or configure the client for all projects: --scope user",
        )
    return path
