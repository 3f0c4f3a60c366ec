"""Agents: how each is told to send its model calls here, and where those calls would have gone without us.

Only the child's environment and arguments are changed. An address that the user has set already is where the calls go
on to, so that wrapping chains. An agent that is not known gets the variables that SDKs read.
"""

import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from headgate.errors import InputError

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Provider:
    """A model service: its own address, what clients expect at the end of it, and the variables that replace it."""

    name: str
    url: str
    suffix: str
    variables: tuple[str, ...]


PROVIDERS = {
    provider.name: provider
    for provider in (
        Provider(
            "openai", "https://api.openai.com/v1", "/v1", ("OPENAI_BASE_URL", "OPENAI_API_BASE")
        ),
        Provider("anthropic", "https://api.anthropic.com", "", ("ANTHROPIC_BASE_URL",)),
        Provider(
            "gemini", "https://generativelanguage.googleapis.com", "", ("GOOGLE_GEMINI_BASE_URL",)
        ),
    )
}
# Codex sends the calls of people who logged in with ChatGPT elsewhere; this header marks them.
CHATGPT = "https://chatgpt.com/backend-api/codex"
CHATGPT_HEADER = b"chatgpt-account-id"
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started, and where its calls go on to, by the name of the provider."""

    arguments: tuple[str, ...]
    environment: dict[str, str]
    upstreams: dict[str, str]


@dataclass(slots=True)
class _Plan:
    """A launch while it is put together."""

    root: str
    environ: Environment
    given: Mapping[str, str]
    arguments: list[str] = field(default_factory=list)
    changes: dict[str, str] = field(default_factory=dict)
    upstreams: dict[str, str] = field(default_factory=dict)

    def base(self, name: str, *, own: str = "") -> str:
        """Our address for a provider; `own` is what the agent's configuration says in place of the usual one."""
        provider = PROVIDERS[name]
        set_by_user = (self.environ.get(variable, "") for variable in provider.variables)
        chosen = self.given.get(name) or own or next(filter(None, set_by_user), provider.url)
        self.upstreams[name] = chosen.rstrip("/")
        return f"{self.root}/{name}{provider.suffix}"

    def set_variables(self, name: str) -> None:
        """The variables of a provider."""
        base = self.base(name)
        self.changes |= dict.fromkeys(PROVIDERS[name].variables, base)


def plan_launch(
    command: Sequence[str], *, root: str, environ: Environment, upstreams: Mapping[str, str]
) -> Launch:
    """How to start a command so that its model calls come to `root`; `upstreams` are addresses that the user gave."""
    unknown = sorted(set(upstreams) - set(PROVIDERS))
    if unknown:
        raise InputError(
            f"there is no provider {unknown[0]!r}", hint=f"providers: {', '.join(PROVIDERS)}"
        )
    plan = _Plan(root, environ, upstreams)
    AGENTS.get(Path(command[0]).stem, _plan_any)(plan)
    return Launch(
        (command[0], *plan.arguments, *command[1:]),
        {**environ, **_reach_loopback(environ), **plan.changes},
        plan.upstreams,
    )


def _plan_any(plan: _Plan) -> None:
    for name in PROVIDERS:
        plan.set_variables(name)


def _plan_claude(plan: _Plan) -> None:
    plan.set_variables("anthropic")


def _plan_gemini(plan: _Plan) -> None:
    # Nothing else: with an OpenAI address in its environment it asks another kind of server.
    plan.set_variables("gemini")


def _plan_codex(plan: _Plan) -> None:
    """Codex takes its address from its configuration, which arguments override. A compressed body cannot be read."""
    config = _codex_config(plan.environ)
    name = config.get("model_provider")
    provider = (config.get("model_providers") or {}).get(name) or {}
    key = f"model_providers.{name}.base_url" if provider.get("base_url") else "openai_base_url"
    base = plan.base(
        "openai", own=str(provider.get("base_url") or config.get("openai_base_url") or "")
    )
    settings = (f'{key}="{base}"', "features.enable_request_compression=false")
    plan.arguments += [part for setting in settings for part in ("-c", setting)]


def _codex_config(environ: Environment) -> dict[str, Any]:
    """The user's configuration of Codex, which is only read; empty if none can be read."""
    home = environ.get("CODEX_HOME") or str(Path(environ.get("HOME", "~")).expanduser() / ".codex")
    try:
        return tomllib.loads((Path(home) / "config.toml").read_text())
    except (OSError, ValueError):
        return {}


def _plan_opencode(plan: _Plan) -> None:
    """OpenCode merges a configuration from its environment over those in files."""
    name = "OPENCODE_CONFIG_CONTENT"
    try:
        content = orjson.loads(plan.environ.get(name) or "{}")
        providers = content.setdefault("provider", {})
        for provider in ("anthropic", "openai"):
            options = providers.setdefault(provider, {}).setdefault("options", {})
            own = str(options.get("baseURL") or "")
            base = plan.base(provider, own=own if provider == "openai" else own.removesuffix("/v1"))
            options["baseURL"] = base.removesuffix("/v1") + "/v1"
    except (orjson.JSONDecodeError, AttributeError, TypeError) as error:
        raise InputError(f"{name} is not a configuration of OpenCode: {error}") from error
    plan.changes[name] = orjson.dumps(content).decode()


AGENTS: dict[str, Callable[[_Plan], None]] = {
    "claude": _plan_claude,
    "codex": _plan_codex,
    "gemini": _plan_gemini,
    "opencode": _plan_opencode,
}


def _reach_loopback(environ: Environment) -> dict[str, str]:
    """Where a proxy is set, calls to this machine must not go through it."""
    names = {name for name in environ if name.lower() in PROXIES}
    if not names:
        return {}
    without = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    listed = ",".join(filter(None, [without, "127.0.0.1"]))
    return {"NO_PROXY": listed, "no_proxy": listed}


def find_command(name: str, environ: Environment) -> None:
    """Raise InputError if there is no such command."""
    from shutil import which  # noqa: PLC0415

    if which(name, path=environ.get("PATH", os.defpath)) is None:
        raise InputError(f"there is no command {name!r}", hint="install it, or give its path")
