"""MCP clients: where each keeps its servers, and how one entry is written there and taken out again.

| client | user | project | form |
|---|---|---|---|
| claude | ~/.claude.json | .mcp.json | JSON, mcpServers |
| codex | ~/.codex/config.toml | .codex/config.toml | TOML, [mcp_servers.NAME] |
| cursor | ~/.cursor/mcp.json | .cursor/mcp.json | JSON, mcpServers |
| vscode | Code/User/mcp.json | .vscode/mcp.json | JSON, servers |
| gemini | ~/.gemini/settings.json | .gemini/settings.json | JSON, mcpServers |
| opencode | ~/.config/opencode/opencode.json | opencode.json | JSON, mcp |

An edit inserts or cuts the entry and leaves every other byte. What it made is parsed and compared with what it should
say. A file for which that fails is left alone, and the error says how to print the entry. JSON may have comments and
trailing commas, as some clients allow.
Writing is atomic: a crash leaves the old file or the new one.
"""

import json
import os
import re
import stat
import sys
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.decoder import scanstring  # type: ignore[attr-defined]  # as `json` itself reads a string
from pathlib import Path
from typing import Any
from uuid import uuid4

from millgate.errors import InputError

# Of a configuration. Claude Code keeps its history in its own, which may have tens of megabytes.
_MOST_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """A server that a client starts over stdio."""

    name: str
    command: str
    arguments: tuple[str, ...] = ()


def _plain(entry: Entry) -> dict[str, Any]:
    return {"command": entry.command, "args": list(entry.arguments)}


def _with_transport(entry: Entry) -> dict[str, Any]:
    return {"type": "stdio", **_plain(entry)}


def _opencode_entry(entry: Entry) -> dict[str, Any]:
    return {"type": "local", "command": [entry.command, *entry.arguments]}


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its name for a person, its files, the key of its servers, and the form of an entry."""

    title: str
    user: Callable[[], Path]
    project: str
    key: str = "mcpServers"
    write: Callable[[Entry], dict[str, Any]] = _plain


def _home(variable: str, folder: str) -> Path:
    """The folder that an environment variable names, else one in the user's home."""
    return Path(os.environ.get(variable) or Path.home() / folder)


def _vscode() -> Path:
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    elif sys.platform == "win32":
        base = _home("APPDATA", "AppData/Roaming")
    else:
        base = _home("XDG_CONFIG_HOME", ".config")
    return base / "Code" / "User" / "mcp.json"


CLIENTS: Mapping[str, Client] = {
    "claude": Client("Claude Code", lambda: _home("CLAUDE_CONFIG_DIR", "") / ".claude.json", ".mcp.json", write=_with_transport),
    "codex": Client("Codex", lambda: _home("CODEX_HOME", ".codex") / "config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": Client("Cursor", lambda: Path.home() / ".cursor" / "mcp.json", ".cursor/mcp.json"),
    "vscode": Client("VS Code", _vscode, ".vscode/mcp.json", "servers", _with_transport),
    "gemini": Client("Gemini CLI", lambda: Path.home() / ".gemini" / "settings.json", ".gemini/settings.json"),
    "opencode": Client("OpenCode", lambda: _home("XDG_CONFIG_HOME", ".config") / "opencode" / "opencode.json", "opencode.json", "mcp", _opencode_entry),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Place:
    """A client's configuration file, and how an entry stands in it."""

    title: str
    path: Path
    key: str = "mcpServers"
    write: Callable[[Entry], dict[str, Any]] = _plain

    def snippet(self, entry: Entry) -> str:
        """The text of a configuration that has only this entry."""
        return self._add(None, entry)

    def install(self, entry: Entry) -> bool:
        """Add a server to the configuration; whether that changed it. Another server of the same name is an error."""
        text = _read(self.path)
        with_hint = "add the entry by hand: millgate mcp install --print"
        known = None if text is None else self._load(text, with_hint)[1].get(entry.name)
        if known == self.write(entry):
            return False
        if known is not None:
            raise InputError(
                f"{self.path} has another server named {entry.name}",
                hint="remove it with: millgate mcp uninstall, or choose a --name",
            )
        changed = self._add(text, entry)
        if self._load(changed, with_hint)[1].get(entry.name) != self.write(entry):
            raise self._refusal("its servers are written in a form that is not known", with_hint)
        _write(self.path, changed)
        return True

    def uninstall(self, name: str) -> bool:
        """Take a server out of the configuration; whether it was there."""
        text, by_hand = _read(self.path), "take the entry out by hand"
        if text is None or name not in (found := self._load(text, by_hand))[1]:
            return False
        data, servers = found
        del servers[name]
        cut = _cut_toml if self._is_toml else _cut_json
        changed = cut(text, self.key, name)
        left, others = self._load(changed, by_hand)
        if (left | {self.key: others}) != data:
            raise self._refusal("the entry cannot be taken out safely", by_hand)
        _write(self.path, changed)
        return True

    @property
    def _is_toml(self) -> bool:
        return self.path.suffix == ".toml"

    def _add(self, text: str | None, entry: Entry) -> str:
        add = _add_toml if self._is_toml else _add_json
        return add(text, self.key, entry.name, self.write(entry))

    def _load(self, text: str, hint: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The data of a configuration, and the servers in it."""
        form = "TOML" if self._is_toml else "JSON"
        try:
            load = load_toml if self._is_toml else load_json
            data = load(text)
        except (ValueError, InputError) as error:
            raise self._refusal(f"it is not valid {form}: {error}", hint) from error
        servers = data.get(self.key, {})
        if not isinstance(servers, dict):
            raise self._refusal(f"{self.key!r} is not a table of servers", hint)
        return data, servers

    def _refusal(self, why: str, hint: str) -> InputError:
        return InputError(f"{self.path} is left as it is: {why}", hint=hint)


def find_place(client: str, scope: str) -> Place:
    """The configuration file of a client, for the user or for the project in the current folder."""
    found = CLIENTS[client]
    path = found.user() if scope == "user" else Path.cwd() / found.project
    commented = path.with_suffix(".jsonc")
    if client == "opencode" and commented.is_file() and not path.is_file():
        path = commented
    if scope == "project":
        # a cloned repository must not name the file that is written; `resolve` fails for a link to itself
        target = Path(os.path.realpath(path))
        if not target.is_relative_to(Path.cwd().resolve()):
            raise InputError(
                f"{path} leads out of this folder, to {target}",
                hint="remove the link, or configure the client for all projects: --scope user",
            )
    return Place(found.title, path, found.key, found.write)


def launch_command(
    store: str | None, *, tenant: str | None, collection: str, portable: bool
) -> list[str]:
    """The command and its arguments.

    A client may start it anywhere and without the user's PATH, so program and store are absolute; if it is
    `portable`, for a file that a team shares, both stay as they are.
    """
    command = ["millgate"]
    if not portable:
        from millgate.settings import load as load_settings  # noqa: PLC0415  (wrap reads JSON here, and starts at once)

        name = "millgate.exe" if sys.platform == "win32" else "millgate"
        script = Path(sys.executable).parent / name
        command = [str(script)] if script.exists() else [sys.executable, "-m", "millgate"]
        if store is None and "://" in (store := load_settings().store):
            raise InputError(
                "the store of the settings is an address, which may hold a password",
                hint="name it with --store to write it into the client's configuration",
            )
        store = store if "://" in store else str(Path(store).absolute())
    options = {
        "--store": store,
        "--tenant": tenant,
        "--collection": None if collection == "main" else collection,
    }
    given = [part for name, value in options.items() if value is not None for part in (name, value)]
    return [*command, "mcp", *given]


def load_json(text: str) -> dict[str, Any]:
    """The object in a JSON text, which may have comments and trailing commas."""
    try:
        data = json.loads(_blank_comments(text))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(data, dict):
        raise InputError("it is not a JSON object")
    return data


def load_toml(text: str) -> dict[str, Any]:
    """The document in a TOML text; ValueError if there is none."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


_COMMENT = r"//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/"
# The last group stays: strings, and what is never closed, which is taken to its end or each sign in it would be tried.
_NOT_JSON = re.compile(
    rf"""\A\ufeff|{_COMMENT}|,(?=(?:\s|{_COMMENT})*+[}}\]])|("(?:[^"\\\n]|\\.)*+"?|/\*(?s:.*))"""
)


def _blank_comments(text: str) -> str:
    """The text with spaces for comments and trailing commas: what is left stands where it stood."""
    return _NOT_JSON.sub(lambda found: found[1] or re.sub(r"\S|\ufeff", " ", found[0]), text)


# How JSON and TOML are edited: a new JSON member is the first of its object, a new TOML table the last of its file.


def _add_json(text: str | None, key: str, name: str, value: Mapping[str, Any]) -> str:
    entry = f'"{name}": {json.dumps(value, ensure_ascii=False)}'
    if text is None:
        return f'{{"{key}": {{{entry}}}}}\n'
    line, plain = "\r\n" if "\r\n" in text else "\n", _blank_comments(text)
    root = _members(plain, 0)
    if key in root:
        opens = root[key][1]
        inserted, others = f"{line}    {entry}", _members(plain, opens)
    else:
        opens = plain.index("{")
        inserted, others = f'{line}  "{key}": {{{entry}}}', root
    return text[: opens + 1] + inserted + ("," if others else "") + text[opens + 1 :]


def _cut_json(text: str, key: str, name: str) -> str:
    plain = _blank_comments(text)
    start, _, end = _members(plain, _members(plain, 0)[key][1])[name]
    head, tail = text[:start].rstrip(), text[end:]
    if tail.lstrip().startswith(","):
        return head + tail.lstrip().removeprefix(",")
    return head.removesuffix(",") + tail  # the last of several, or the only one


def _members(text: str, at: int) -> dict[str, tuple[int, int, int]]:
    """The members of the object at or after a place of valid JSON: where each begins, its value begins, and it ends."""

    def skip(at: int, over: str = "") -> int:
        while text[at].isspace() or text[at] in over:
            at += 1
        return at

    found, decoder = {}, json.JSONDecoder()
    at = skip(text.index("{", at) + 1)
    while text[at] == '"':
        start = at
        name, at = scanstring(text, at + 1)
        value = skip(at, ":")
        _, end = decoder.raw_decode(text, value)
        found[name] = start, value, end
        at = skip(end, ",")
    return found


def _add_toml(text: str | None, key: str, name: str, value: Mapping[str, Any]) -> str:
    line = "\r\n" if text and "\r\n" in text else "\n"
    # JSON writes strings and lists of strings as TOML does, but for one character that TOML wants escaped
    pairs = [f"{field} = {json.dumps(part, ensure_ascii=False)}" for field, part in value.items()]
    table = line.join([f"[{key}.{name}]", *pairs, ""]).replace("\x7f", "\\u007f")
    return table if text is None else text + line + table


def _cut_toml(text: str, key: str, name: str) -> str:
    """The text without the table of that name and those inside it, and without the line break before each."""
    header = rf"[ \t]*\[\s*\"?{key}\"?\s*\.\s*\"?{re.escape(name)}\"?\s*[\].]"
    # up to its last pair: blank lines and comments at its end belong to what follows
    pair = r"(?:[ \t]*\r?\n|[ \t]*#[^\n]*\n)*[ \t]*[^\s\[#][^\n]*(?:\n|\Z)"
    return re.sub(rf"(?:\A|\r?\n|(?<=\n)){header}[^\n]*(?:\n|\Z)(?:{pair})*", "", text)


def _read(path: Path) -> str | None:
    """The text of a file with its own line ends; None if there is no file."""
    why: object = f"a regular file of at most {_MOST_BYTES:,} bytes is expected"
    try:
        found = path.stat()
        if stat.S_ISREG(found.st_mode) and found.st_size <= _MOST_BYTES:
            return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        why = f"it cannot be read: {error}"
    raise InputError(f"{path} is left as it is: {why}", hint="check the file")


def _write(path: Path, text: str) -> None:
    """Replace a file at once, with the permissions it had; a link stays a link.

    Nobody else can read the copy while it is written: such a file may hold keys.
    """
    target = Path(os.path.realpath(path))
    fresh = target.with_name(f".{target.name}.{uuid4().hex[:8]}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            fresh.chmod(target.stat().st_mode & 0o7777)
        fresh.replace(target)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
