"""Gemini CLI: GOOGLE_GEMINI_BASE_URL, for calls with an API key.

Other ways to sign in use other APIs. The variable may also stand in a .env file, of which Gemini CLI reads the first
that it finds; in a folder that the user does not trust it takes no address from it.
"""

from pathlib import Path

from millgate.wrap.agents.plan import EXTENSIONS, Plan, parents, read_json, read_variables, text_of

VARIABLE = "GOOGLE_GEMINI_BASE_URL"
WITH_KEY = "gemini-api-key"
DEFAULTS = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"


def plan(plan: Plan) -> None:
    """Set the variable, and nothing else: with an OpenAI address it would ask another kind of server."""
    home = Path(plan.environ.get("GEMINI_CLI_HOME") or plan.home)
    named = plan.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
    system = Path(named or "/etc/gemini-cli/settings.json")
    defaults = Path(plan.environ.get(DEFAULTS) or system.with_name("system-defaults.json"))
    chosen = ""
    for path in (defaults, home / ".gemini" / "settings.json", plan.folder / ".gemini" / "settings.json", system):  # fmt: skip
        chosen = text_of(read_json(path), "security", "auth", "selectedType") or chosen
    file = _env_file(plan.folder, home)
    variables = {**read_variables(file), **plan.environ}
    if (chosen or _choose(variables)) != WITH_KEY:
        plan.refuse("it does not sign in with an API key, and wrap does not read the API that it then uses")  # fmt: skip
    own = variables.get(VARIABLE, "")
    is_users = file.parent == home / ".gemini" or own == plan.environ.get(VARIABLE, "")
    if not is_users and "gemini" not in plan.given:
        plan.refuse_unclear(f"{file} sets {VARIABLE}, which counts only in a folder that you trust", "gemini")  # fmt: skip
    plan.set_variables("gemini", own=own)
    if not chosen:
        # with an address and no choice it takes itself for the client of a gateway, and does not start
        if defaults.exists():
            plan.refuse(f"{defaults} does not say how it signs in", f"set security.auth.selectedType to {WITH_KEY} there")  # fmt: skip
        plan.changes[DEFAULTS] = str(EXTENSIONS / "gemini.json")


def _choose(variables: dict[str, str]) -> str:
    """How it signs in if no settings say so."""
    if "true" in (variables.get("GOOGLE_GENAI_USE_GCA"), variables.get("GOOGLE_GENAI_USE_VERTEXAI")):  # fmt: skip
        return ""
    return WITH_KEY if variables.get("GEMINI_API_KEY") else ""


def _env_file(folder: Path, home: Path) -> Path:
    """The .env file that it reads in a folder that is trusted."""
    for above in (*parents(folder), home):
        for path in (above / ".gemini" / ".env", above / ".env"):
            if path.is_file():
                return path
    return home / ".env"
