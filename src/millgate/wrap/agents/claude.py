"""Claude Code: ANTHROPIC_BASE_URL, which the `env` of its settings replaces.

Later ones hold: the environment, the user's settings, the project's, the project's local ones, those that `--settings`
names, those that the machine's administrator sets.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from millgate.wrap.agents.plan import SETTINGS_FILE, Plan, is_file, read_json

VARIABLE = "ANTHROPIC_BASE_URL"
# other services that it can use, with APIs and addresses of their own (its version 2.1)
ELSEWHERE = (
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_MANTLE", "CLAUDE_CODE_USE_ANTHROPIC_AWS", "CLAUDE_CODE_USE_GATEWAY",
)  # fmt: skip


def plan(plan: Plan) -> None:
    """Set the variable; if its settings set it too, name a settings file that stands over them."""
    user = Path(plan.environ.get("CLAUDE_CONFIG_DIR") or plan.home / ".claude")
    project = plan.folder / ".claude"
    flag = _take_flag(plan)
    found = dict(plan.environ)
    for path in (user / "settings.json", project / "settings.json", project / "settings.local.json"):  # fmt: skip
        found |= _variables(read_json(path))
    found |= _variables(flag or {})
    for path in _managed_files():
        managed = _variables(read_json(path))
        if VARIABLE in managed:
            plan.refuse(f"{path} fixes its address")
        found |= managed
    elsewhere = [name for name in ELSEWHERE if found.get(name, "") not in ("", "0", "false")]
    if elsewhere:
        plan.refuse(f"{elsewhere[0]} is set, and wrap does not read the API that it then uses")
    plan.set_variables("anthropic", own=found.get(VARIABLE, ""))
    if flag is not None or found.get(VARIABLE, "") != plan.environ.get(VARIABLE, ""):
        variables = {**_variables(flag or {}), VARIABLE: plan.changes[VARIABLE]}
        plan.settings = orjson.dumps({**(flag or {}), "env": variables}).decode()
        plan.arguments[0:0] = ["--settings", SETTINGS_FILE]


def _managed_files() -> list[Path]:
    is_mac = sys.platform == "darwin"
    system = Path("/Library/Application Support/ClaudeCode" if is_mac else "/etc/claude-code")
    return [system / "managed-settings.json", *sorted(system.glob("managed-settings.d/*.json"))]


def _take_flag(plan: Plan) -> dict[str, Any] | None:
    """Take `--settings` out of the arguments: the settings that it names, None if it is not there."""
    for at, argument in enumerate(plan.arguments):
        name, equals, value = argument.partition("=")
        if argument == "--":
            break
        if name == "--settings":
            given = value if equals else "".join(plan.arguments[at + 1 : at + 2])
            del plan.arguments[at : at + (1 if equals else 2)]
            return _read_flag(plan, given)
    return None


def _read_flag(plan: Plan, given: str) -> dict[str, Any]:
    if not given.lstrip().startswith("{"):
        if not is_file(plan.folder / given):
            plan.refuse(f"there is no settings file {given!r}", "mend --settings")
        return read_json(plan.folder / given)
    try:
        return dict(orjson.loads(given))
    except (ValueError, TypeError) as error:
        plan.refuse(f"its --settings cannot be read: {error}", "mend it")


def _variables(settings: Mapping[str, Any]) -> dict[str, str]:
    env = settings.get("env")
    found = env if isinstance(env, dict) else {}
    return {name: value for name, value in found.items() if isinstance(value, str)}
