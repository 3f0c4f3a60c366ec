"""Launch: how a command is started so that its model calls come to us.

Only the child's environment and arguments are changed. Each address that it is told has the service behind it in its
path (address.py), and that is the service which the agent would have called.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from millgate.errors import InputError
from millgate.wrap.agents import claude, codex, gemini, hermes, opencode, openhands, pi
from millgate.wrap.agents.plan import PROVIDERS, Environment, Plan, is_file, parents, read_variables

PROXIES = ("http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent is started.

    Whoever asks at one of the `open_paths` needs no secret, but must be a process of this user. `settings` is the text
    of a file to write for the agent, whose path stands among the arguments as SETTINGS_FILE.
    """

    arguments: tuple[str, ...]
    environment: dict[str, str]
    open_paths: tuple[str, ...] = ()
    settings: str = ""


def plan_launch(
    command: Sequence[str],
    *,
    root: str,
    secret: str,
    environ: Environment,
    upstreams: Mapping[str, str],
    folder: Path | None = None,
) -> Launch:
    """How to start a command so that its model calls come to `root`; `upstreams` are addresses that the user gave.

    InputError if it is not clear where the calls would go without us.
    """
    agent = Path(command[0]).stem
    called = CALLED.get(agent, tuple(PROVIDERS))
    unknown = sorted(set(upstreams) - set(called))
    if unknown:
        is_known = unknown[0] in PROVIDERS
        raise InputError(
            f"{agent} does not call {unknown[0]}" if is_known else f"there is no provider {unknown[0]!r}",
            hint=f"providers: {', '.join(called)}",
        )  # fmt: skip
    plan = Plan(command, root, secret, environ, upstreams, folder or Path.cwd())
    plan.arguments = list(command[1:])
    AGENTS.get(agent, _plan_any)(plan)
    return Launch(
        (command[0], *plan.arguments),
        {**environ, **_reach_loopback(environ), **plan.changes},
        tuple(plan.open_paths),
        plan.settings,
    )


AGENTS: dict[str, Callable[[Plan], None]] = {
    "claude": claude.plan,
    "codex": codex.plan,
    "gemini": gemini.plan,
    "hermes": hermes.plan,
    "opencode": opencode.plan,
    "openhands": openhands.plan,
    "pi": pi.plan,
}

# For agents that call one provider: the name under which --upstream has its address; hermes and codex call others that
# speak OpenAI's API under it too.
CALLED = {
    "claude": ("anthropic",),
    "codex": ("openai",),
    "gemini": ("gemini",),
    "hermes": ("openai",),
}


def _plan_any(plan: Plan) -> None:
    """Set the variables that SDKs read, unless a .env file sets one: whether the command reads it is not known."""
    for name, provider in PROVIDERS.items():
        is_set = any(plan.environ.get(variable) for variable in provider.variables)
        for path in () if is_set or name in plan.given else _env_files(plan):
            found = read_variables(path)
            for variable in provider.variables:
                if found.get(variable):
                    why = f"{path} sets {variable}, and it is not clear whether it is read"
                    plan.refuse_unclear(why, name)
        plan.set_variables(name)


def _env_files(plan: Plan) -> Iterator[Path]:
    """The .env files that a command may read: above its folder and its script, in the home, in a folder of its own."""
    own = f".{Path(plan.command[0]).stem}"
    scripts = (plan.folder / argument for argument in plan.command[1:])
    folders = [plan.folder, *(path.parent for path in scripts if is_file(path))]
    above = dict.fromkeys(above for folder in folders for above in parents(folder))
    for folder in dict.fromkeys((*above, plan.home)):
        yield from (folder / ".env", folder / own / ".env")


def _reach_loopback(environ: Environment) -> dict[str, str]:
    """If a proxy is set, calls to this machine must not go through it."""
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
