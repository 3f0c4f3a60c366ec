"""Hermes: `model.base_url` in its config.yaml, over which it lays a folder of managed settings (extensions/hermes).

For the large services it chooses keys, headers and caching by their host names, which ours would hide. So only a
service of the user's own can be wrapped.
"""

from pathlib import Path
from urllib.parse import urlsplit

from millgate.wrap.agents.plan import EXTENSIONS, Plan, read_variables, read_yaml_block
from millgate.wrap.spec import redirect

MANAGED = "HERMES_MANAGED_DIR"
KNOWN_BY_NAME = ("openrouter.ai", "anthropic.com", "openai.com", "ollama.com", "azure.com")
CHOOSES = ("-p", "--profile", "--provider")


def plan(plan: Plan) -> None:
    """Lay our address over the one in config.yaml."""
    if plan.environ.get(MANAGED) or Path("/etc/hermes").is_dir():
        plan.refuse("its settings are managed for this machine")
    home = Path(plan.environ.get("HERMES_HOME") or plan.home / ".hermes")
    if other := _other_profile(plan):
        plan.refuse(f"{other} may choose another model service than its config.yaml")
    path = home / "config.yaml"
    model = read_yaml_block(path, "model")
    url = plan.given.get("openai") or model.get("base_url", "")
    if model.get("provider", "") not in ("", "auto", "custom") or not url:
        plan.refuse(f"wrap needs a model.base_url of your own, with provider custom, in {path}")
    host = urlsplit(url).hostname or ""
    if "$" in url or any(f".{host}".endswith(f".{name}") for name in KNOWN_BY_NAME):
        plan.refuse(f"it knows {url} by its name, which wrap would hide from it")
    if not model.get("api_key") and host not in ("127.0.0.1", "localhost"):
        plan.refuse(f"it finds the key for {host} by that name", f"set model.api_key in {path}")
    files = (plan.folder / ".env", home / ".env")
    variables = [plan.environ, *map(read_variables, files)]
    if any(found.get("CUSTOM_BASE_URL") for found in variables):
        plan.refuse("CUSTOM_BASE_URL is set, which stands over its config.yaml")
    plan.changes[MANAGED] = str(EXTENSIONS / "hermes")
    plan.changes["MILLGATE_WRAP_BASE_URL"] = redirect(plan.secret_root, url)


def _other_profile(plan: Plan) -> str:
    """What chooses another profile or provider than config.yaml; "" if nothing does."""
    for argument in plan.arguments:
        if argument.partition("=")[0] in CHOOSES:
            return argument
    sticky = plan.home / ".hermes" / "active_profile"
    if not sticky.is_file():
        return ""
    chosen = sticky.read_text("utf-8", "replace").strip()
    return f"the profile in {sticky}" if chosen not in ("", "default") else ""
