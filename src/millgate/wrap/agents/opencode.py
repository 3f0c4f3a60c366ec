"""OpenCode: a plugin of ours, which asks OpenCode itself where its calls would go (extensions/opencode.js)."""

import orjson

from millgate.errors import InputError
from millgate.wrap.agents.plan import EXTENSIONS, Plan

VARIABLE = "OPENCODE_CONFIG_CONTENT"


def plan(plan: Plan) -> None:
    """Name the plugin in the configuration that OpenCode takes from its environment and adds to those in files."""
    plan.tell_extension()
    try:
        content = orjson.loads(plan.environ.get(VARIABLE) or "{}")
        content.setdefault("plugin", []).append((EXTENSIONS / "opencode.js").as_uri())
    except (orjson.JSONDecodeError, AttributeError, TypeError) as error:
        raise InputError(f"{VARIABLE} is not a configuration of OpenCode: {error}") from error
    plan.changes[VARIABLE] = orjson.dumps(content).decode()
