"""Run: an agent under the supervisor, from its start to the summary."""

import logging
from collections.abc import Mapping, Sequence

from headgate.service.wrap.agent_process import run_child
from headgate.service.wrap.agents import find_command, plan_launch
from headgate.service.wrap.summary import Summary, summarize
from headgate.service.wrap.supervisor import Supervisor


async def run_wrapped(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    store: str | None,
    inject: bool,
    upstreams: Mapping[str, str],
    patience_s: float,
) -> tuple[int, Summary]:
    """Run a command with the gateway beside it: its exit code, and what was done for it."""
    find_command(command[0], environ)
    _keep_terminal_clean()
    supervisor = Supervisor(store=store, inject=inject, patience_s=patience_s)
    await supervisor.start()
    try:
        launch = plan_launch(command, root=supervisor.url, environ=environ, upstreams=upstreams)
        supervisor.upstreams = launch.upstreams
        code = await run_child(launch.arguments, launch.environment)
    finally:
        await supervisor.close()
    pool = supervisor.pool
    return code, summarize(supervisor.routes, pool.metrics(), pool.failures, pool.last_log)


def _keep_terminal_clean() -> None:
    """The terminal is the agent's: nothing of ours is logged to it."""
    for name in ("aiohttp", "asyncio"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False
