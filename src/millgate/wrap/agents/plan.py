"""Plan: a launch of an agent while it is put together, and how an agent's own configuration is read.

Configuration is never written. A file that is there and cannot be understood is an error: what the agent would do is
then not known.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import orjson

from millgate.errors import InputError
from millgate.integrations.mcp_clients import load_json
from millgate.wrap.spec import redirect

T = TypeVar("T")
Environment = Mapping[str, str]

MOST_BYTES = 8 << 20  # Claude Code's own file of all projects may have a megabyte
_VARIABLE = re.compile(r"^[ \t]*+(?:export[ \t]++)?([A-Za-z_]\w*+)[ \t]*+=([^\n]*+)$", re.MULTILINE)
_YAML_PAIR = re.compile(r"^[ \t]++([A-Za-z_]\w*+):(?:[ \t]++([^\n]*+))?$")
EXTENSIONS = Path(__file__).with_name("extensions")
SETTINGS_FILE = "<settings>"
"""Among an agent's arguments: the path of the file that is written for it."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A model service: its own address, and the variables that replace it."""

    name: str
    url: str
    variables: tuple[str, ...]


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider("openai", "https://api.openai.com/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE")),
        Provider("anthropic", "https://api.anthropic.com", ("ANTHROPIC_BASE_URL",)),
        Provider(
            "gemini", "https://generativelanguage.googleapis.com", ("GOOGLE_GEMINI_BASE_URL",)
        ),
    )
}


@dataclass(slots=True)
class Plan:
    """How a command will be started: its arguments, the variables that change, and what else it needs."""

    command: Sequence[str]
    root: str
    secret: str
    environ: Environment
    given: Mapping[str, str]
    """Addresses that the user gave with --upstream, by provider."""
    folder: Path
    """Where the command runs."""
    changes: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    open_paths: list[str] = field(default_factory=list)
    """Paths of ours that need no secret, since they stand on a command line."""
    settings: str = ""
    """The text of a file to write for the agent."""

    @property
    def home(self) -> Path:
        """The user's home folder, as the agent sees it."""
        return Path(self.environ.get("HOME") or "~").expanduser()

    @property
    def secret_root(self) -> str:
        """Our address for those who know the secret."""
        return f"{self.root}/{self.secret}"

    def set_variables(self, name: str, own: str = "") -> None:
        """Set the variables of a provider; `own` is what the agent's files say in place of the usual address."""
        provider = PROVIDERS[name]
        set_by_user = (self.environ.get(variable, "") for variable in provider.variables)
        url = self.given.get(name) or own or next(filter(None, set_by_user), provider.url)
        self.changes |= dict.fromkeys(provider.variables, redirect(self.secret_root, url))

    def tell_extension(self) -> None:
        """Tell an extension of ours, which runs inside the agent, where we are and which addresses the user gave."""
        self.changes["MILLGATE_WRAP_ROOT"] = self.secret_root
        self.changes["MILLGATE_WRAP_UPSTREAMS"] = orjson.dumps(self.given).decode()

    def refuse(self, why: str, hint: str = "use the proxy instead: millgate serve") -> NoReturn:
        """Say why the agent is not started."""
        raise InputError(f"{Path(self.command[0]).name} is not started: {why}", hint=hint)

    def refuse_unclear(self, why: str, provider: str) -> NoReturn:
        """Say why it is not clear where calls would go, and how to say it."""
        self.refuse(why, f"say where its calls go: millgate wrap --upstream {provider}=URL")


def text_of(values: Mapping[str, Any], *names: str) -> str:
    """The text under a path of names; "" if there is none."""
    found: Any = values
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, str) else ""


# What an agent's own configuration says


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
