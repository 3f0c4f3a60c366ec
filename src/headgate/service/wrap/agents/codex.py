"""Codex: its address stands in its configuration, which `-c` on the command line replaces.

Later ones hold: the machine's file, the user's, the profile, the arguments. Every user of a machine can read a command
line, so the address that stands on it has no secret; `peer.py` looks who calls.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from headgate.service.wrap.address import CODEX, redirect
from headgate.service.wrap.agents.files import parents, read_toml
from headgate.service.wrap.agents.plan import Plan, text_of

SYSTEM = Path("/etc/codex")
SERVICE_KEYS = ("openai_base_url", "model_provider", "model_providers")
SETTING = ("-c", "--config")


def plan(plan: Plan) -> None:
    """Set the address of its provider, and have it send bodies that are not compressed, which we can read."""
    home = Path(plan.environ.get("CODEX_HOME") or plan.home / ".codex")
    if "--oss" in plan.arguments:
        plan.refuse("with --oss it calls a server of its own choice on this machine")
    config = _read_config(plan, home)
    name = text_of(config, "model_provider") or "openai"
    key, own = f"model_providers.{name}.base_url", text_of(config, "model_providers", name, "base_url")  # fmt: skip
    if name == "openai" and not own:
        key, own = "openai_base_url", text_of(config, "openai_base_url")
    elif not own:
        plan.refuse(f"its provider {name!r} has no base_url in its configuration")
    url = plan.given.get("openai") or own
    base = redirect(plan.root, url) if url else f"{plan.root}/{CODEX}/v1"
    plan.open_paths.append(base.removeprefix(plan.root))
    _drop_setting(plan.arguments, key)
    settings = (f'{key}="{base}"', "features.enable_request_compression=false")
    plan.arguments[0:0] = [part for setting in settings for part in ("-c", setting)]


def _read_config(plan: Plan, home: Path) -> dict[str, Any]:
    """What Codex would read, as far as it says where calls go."""
    for folder in parents(plan.folder):
        path = folder / ".codex" / "config.toml"
        if path.parent != home and "openai" not in plan.given and _names_service(read_toml(path)):
            # version 0.169 ignores such keys in a project's file, earlier ones do not
            plan.refuse_unclear(f"{path} names a model service, and it is not clear whether it counts", "openai")  # fmt: skip
    for path in (home / "managed_config.toml", SYSTEM / "managed_config.toml"):
        if _names_service(read_toml(path)):
            plan.refuse(f"{path} fixes its model service")
    over: dict[str, Any] = {}
    for value in _values_of(plan.arguments, *SETTING):
        over = _merge(over, _parse_setting(plan, value))
    config = _merge(read_toml(SYSTEM / "config.toml"), read_toml(home / "config.toml"))
    named = next(_values_of(plan.arguments, "-p", "--profile"), "")
    profile = named or text_of(over, "profile") or text_of(config, "profile")
    if profile:  # a table in earlier versions, a file of its own in later ones
        tables = config.get("profiles")
        table = tables.get(profile) if isinstance(tables, dict) else None
        config = _merge(config, table if isinstance(table, dict) else {})
        config = _merge(config, read_toml(home / f"{profile}.config.toml"))
    return _merge(config, over)


def _names_service(config: Mapping[str, Any]) -> bool:
    return any(key in config for key in SERVICE_KEYS)


def _values_of(arguments: Sequence[str], short: str, long: str) -> Iterator[str]:
    """The values of an option, in each of its forms: -c V, -cV, --config V, --config=V."""
    for at, argument in enumerate(arguments):
        if argument == "--":
            return
        if argument in (short, long) and at + 1 < len(arguments):
            yield arguments[at + 1]
        elif argument.startswith(f"{long}="):
            yield argument.removeprefix(f"{long}=")
        elif argument.startswith(short) and not argument.startswith("--"):
            yield argument.removeprefix(short).removeprefix("=")


def _parse_setting(plan: Plan, text: str) -> dict[str, Any]:
    """A setting of the command line as a tree: its key may have dots, and its value is TOML or else a text."""
    key, _, value = text.partition("=")
    with suppress(tomllib.TOMLDecodeError):
        return tomllib.loads(f"{key.strip()} = {value}")
    try:
        return tomllib.loads(f"{key.strip()} = {orjson.dumps(value).decode()}")
    except tomllib.TOMLDecodeError:
        plan.refuse(f"its setting {text!r} cannot be read", "mend it")


def _drop_setting(arguments: list[str], key: str) -> None:
    """Take a setting out of the arguments: ours stands in its place, and the last one would hold."""
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            kept += [argument, *rest]
        elif argument in SETTING:
            value = next(rest, "")
            if not _sets(value, key):
                kept += [argument, value]
        elif not _sets(argument.removeprefix("--config=").removeprefix("-c"), key):
            kept.append(argument)
    arguments[:] = kept


def _sets(setting: str, key: str) -> bool:
    return "=" in setting and setting.partition("=")[0].strip() == key


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged
