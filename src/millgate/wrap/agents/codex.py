"""Codex: its address stands in its configuration, which `-c` on the command line replaces.

Later ones hold: the machine's file, the user's, the profile, the arguments. Files are merged table by table; an
argument takes the place of all that earlier ones said below its key, so ours stands after theirs. Every user of a
machine can read a command line, so the address that stands on it has no secret; `peer.py` looks who calls.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from millgate.wrap.agents.plan import Plan, parents, read_toml, text_of
from millgate.wrap.spec import CODEX, redirect

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
    if "." in name:
        plan.refuse(f"its provider {name!r} has a dot in its name, which cannot be said by -c")
    key, own = f"model_providers.{name}.base_url", text_of(config, "model_providers", name, "base_url")  # fmt: skip
    if name == "openai" and not own:
        key, own = "openai_base_url", text_of(config, "openai_base_url")
    elif not own:
        plan.refuse(f"its provider {name!r} has no base_url in its configuration")
    url = plan.given.get("openai") or own
    base = redirect(plan.root, url) if url else f"{plan.root}/{CODEX}/v1"
    plan.open_paths.append(base.removeprefix(plan.root))
    settings = {key: f'"{base}"', "features.enable_request_compression": "false"}
    at = _end_of_rivals(plan.arguments, [_split_key(key) for key in settings])
    plan.arguments[at:at] = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]  # fmt: skip


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
    for _, setting in _options_of(plan.arguments, *SETTING):
        _apply(over, setting)
    config = _merge(read_toml(SYSTEM / "config.toml"), read_toml(home / "config.toml"))
    named = next((value for _, value in _options_of(plan.arguments, "-p", "--profile")), "")
    profile = named or text_of(over, "profile") or text_of(config, "profile")
    if profile:  # a table in earlier versions, a file of its own in later ones
        tables = config.get("profiles")
        table = tables.get(profile) if isinstance(tables, dict) else None
        config = _merge(config, table if isinstance(table, dict) else {})
        config = _merge(config, read_toml(home / f"{profile}.config.toml"))
    return _merge(config, over)


def _names_service(config: Mapping[str, Any]) -> bool:
    return any(key in config for key in SERVICE_KEYS)


def _options_of(arguments: Sequence[str], short: str, long: str) -> Iterator[tuple[int, str]]:
    """Where an option ends and its value, in each of its forms: -c V, -cV, -c=V, --config V, --config=V."""
    for at, argument in enumerate(arguments, 1):
        if argument == "--":
            return
        if argument in (short, long):
            if at < len(arguments):
                yield at + 1, arguments[at]
        elif argument.startswith(f"{long}="):
            yield at, argument.removeprefix(f"{long}=")
        elif argument.startswith(short):
            yield at, argument.removeprefix(short).removeprefix("=")


def _apply(config: dict[str, Any], setting: str) -> None:
    """Set what a setting of the command line says, as Codex does; it complains itself of one without `=`."""
    name, found, text = setting.partition("=")
    if not found:
        return
    *tables, last = _split_key(name)
    for table in tables:
        below = config.get(table)
        config[table] = config = below if isinstance(below, dict) else {}
    config[last] = _parse_value(text.strip())


def _split_key(name: str) -> list[str]:
    """The path of a setting. Codex splits it at every dot, within quotes too."""
    return name.strip().split(".")


def _parse_value(text: str) -> object:
    """A value is TOML, else a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip("\"'")


def _end_of_rivals(arguments: Sequence[str], ours: Sequence[Sequence[str]]) -> int:
    """Where the last argument ends that sets one of our keys, or a table which holds it; 0 if none does."""
    ends = [0]
    for end, setting in _options_of(arguments, *SETTING):
        path = _split_key(setting.partition("=")[0])
        ends += [end for own in ours if path == list(own[: len(path)])]
    return ends[-1]


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            merged[key] = _merge(below, value)
        else:
            merged[key] = value
    return merged
