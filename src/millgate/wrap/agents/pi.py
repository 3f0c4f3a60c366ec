"""pi: an extension of ours, which asks pi itself where its calls would go (extensions/pi.js)."""

from millgate.wrap.agents.plan import EXTENSIONS, Plan

PACKAGE_COMMANDS = ("install", "remove", "uninstall", "update", "list", "config")


def plan(plan: Plan) -> None:
    """Name the extension on the command line; the commands for packages take none, and call no model."""
    plan.tell_extension()
    if not plan.arguments or plan.arguments[0] not in PACKAGE_COMMANDS:
        plan.arguments[0:0] = ["-e", str(EXTENSIONS / "pi.js")]
