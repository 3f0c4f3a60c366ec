"""Plan: a launch of an agent while it is put together."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import orjson

from millgate.errors import InputError
from millgate.wrap.address import redirect

Environment = Mapping[str, str]

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
