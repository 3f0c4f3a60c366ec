"""Clients: where each MCP client keeps its servers, and what an entry looks like there.

| client | user | project | form |
|---|---|---|---|
| claude | ~/.claude.json | .mcp.json | JSON, mcpServers |
| codex | ~/.codex/config.toml | .codex/config.toml | TOML, [mcp_servers.NAME] |
| cursor | ~/.cursor/mcp.json | .cursor/mcp.json | JSON, mcpServers |
| vscode | Code/User/mcp.json | .vscode/mcp.json | JSON, servers |
| gemini | ~/.gemini/settings.json | .gemini/settings.json | JSON, mcpServers |
"""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from headgate.integrations.mcp_clients import json_text, toml_text


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

    def value(self, *, typed: bool) -> dict[str, Any]:
        """The entry as data; `typed` if the client wants the transport named."""
        kind = {"type": "stdio"} if typed else {}
        return {**kind, "command": self.command, "args": list(self.arguments)}


@dataclass(frozen=True, slots=True)
class Place:
    """A client's configuration file, and the key under which it holds its servers."""

    title: str
    path: Path
    key: str = "mcpServers"
    typed: bool = False

    def snippet(self, entry: Entry) -> str:
        """The text of a configuration that has this entry alone."""
        return self.add(None, entry)

    def add(self, text: str | None, entry: Entry) -> str:
        """The configuration with the entry; None stands for a file that does not exist."""
        return self._edit.add(text, self.key, entry.name, entry.value(typed=self.typed))

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


# client -> (title, user's file, project's file, key, whether entries name their type)
CLIENTS: Mapping[str, tuple[str, Callable[[], Path], str, str, bool]] = {
    "claude": ("Claude Code", _claude, ".mcp.json", "mcpServers", True),
    "codex": (
        "Codex",
        lambda: _home("CODEX_HOME", ".codex") / "config.toml",
        ".codex/config.toml",
        "mcp_servers",
        False,
    ),
    "cursor": (
        "Cursor",
        lambda: Path.home() / ".cursor" / "mcp.json",
        ".cursor/mcp.json",
        "mcpServers",
        False,
    ),
    "vscode": ("VS Code", _vscode, ".vscode/mcp.json", "servers", True),
    "gemini": (
        "Gemini CLI",
        lambda: Path.home() / ".gemini" / "settings.json",
        ".gemini/settings.json",
        "mcpServers",
        False,
    ),
}


def find_place(client: str, scope: str) -> Place:
    """The configuration file of a client, for the user or for the project in the current folder."""
    title, user, project, key, typed = CLIENTS[client]
    path = user() if scope == "user" else Path.cwd() / project
    return Place(title, path, key, typed)
