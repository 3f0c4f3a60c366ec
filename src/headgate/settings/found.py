"""What a settings file may set that was merely found in the current folder.

The author of a repository writes that file too, and entering a folder is not consent. So it may tune, but it may not
name a command, an address, or a path outside its folder. Those come from the environment, or from a file that
HEADGATE_CONFIG names.
"""

from collections.abc import Callable
from pathlib import Path

from headgate.errors import ConfigError

HINT = "set it in the environment, or name the file yourself: HEADGATE_CONFIG=headgate.toml"

_MODELS = ("none", "static", "minilm")


def refuse(name: str, value: object, folder: Path) -> ConfigError | None:
    """Why a file found in the folder may not set this; None if it may."""
    what = next((what for rule, what in _RULES.items() if rule(name, value, folder)), "")
    if not what:
        return None
    return ConfigError(
        f"{name} {what}, which a headgate.toml found in the current folder may not", hint=HINT
    )


def _is_address(name: str, value: object, _: Path) -> bool:
    return name.partition(".")[0] == "proxy" or (
        name in {"search.searx", "search.mcp", "grader.url", "embed.url"} and value != ""
    )


def _is_outside(name: str, value: object, folder: Path) -> bool:
    if name not in {"store", "log.path", "embed.model"} or value in ("", ":memory:"):
        return False
    return not (folder / str(value)).resolve().is_relative_to(folder.resolve())


def _is_remote_model(name: str, value: object, folder: Path) -> bool:
    return name == "embed.model" and value not in _MODELS and not (folder / str(value)).is_dir()


def _opens_the_service(name: str, value: object, _: Path) -> bool:
    return name in {"service.host", "service.keyless"} and value not in ("127.0.0.1", "never")


Rule = Callable[[str, object, Path], bool]
_RULES: dict[Rule, str] = {
    _is_address: "names a command or an address",
    _is_outside: "names a path outside its folder",
    _is_remote_model: "names a model elsewhere",
    _opens_the_service: "opens the service to more callers",
}
