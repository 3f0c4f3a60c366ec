"""OpenHands: LLM_BASE_URL, which counts with --override-with-envs; else its agent_settings.json says where it calls.

The flag gives LLM_MODEL and LLM_API_KEY a say too. A user who did not set it keeps the model and key of the file.
"""

from pathlib import Path

from millgate.wrap.agents.plan import PROVIDERS, Plan, read_json, text_of
from millgate.wrap.spec import redirect

FLAG = "--override-with-envs"
BASE_URL, OTHERS = "LLM_BASE_URL", ("LLM_MODEL", "LLM_API_KEY")
FOLDER = "OPENHANDS_PERSISTENCE_DIR"


def plan(plan: Plan) -> None:
    """Lay our address over its own; without one it calls its model's provider, as any other command."""
    has_flag = FLAG in plan.arguments
    folder = Path(plan.environ.get(FOLDER) or plan.home / ".openhands")
    saved = text_of(read_json(folder / "agent_settings.json"), "llm", "base_url")
    own = (has_flag and plan.environ.get(BASE_URL)) or saved
    if not own:
        for name in PROVIDERS:
            plan.set_variables(name)
        return
    plan.changes[BASE_URL] = redirect(plan.secret_root, plan.given.get("openai") or own)
    if not has_flag:
        plan.arguments.insert(0, FLAG)
        plan.changes |= dict.fromkeys(OTHERS, "")
