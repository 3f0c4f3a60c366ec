"""Run: an agent under the supervisor, from its start to the summary."""

import asyncio
import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headgate.errors import InputError
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


LEFT_TO_CHILD = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
HANDED_ON = (signal.SIGTERM, signal.SIGHUP)


async def run_child(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command as if the shell had started it: its terminal, its signals, its exit code (128 + N after signal N).

    It stays in our process group, so the terminal's signals (interrupt, quit, stop, window size) reach it directly, and
    we ignore them. Signals that are sent to us alone (terminate, hang up) are handed on. When it is stopped we stop
    too, so that the shell gets its terminal back; continuing the group continues both.
    Signals stay handled so when it has ended, until the loop is closed: a second interrupt must not break off what is
    left to do. One that is ignored stays ignored, by the child too: so `nohup` and shells that run it aside want it.
    """
    loop = asyncio.get_running_loop()
    process: subprocess.Popen[bytes] | None = None

    def hand_on(number: int) -> None:
        if number in HANDED_ON and process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    # Before the child is there, for one that comes while it starts. Those that are left to the child get a handler
    # too, since it would inherit that they are ignored.
    for number in (*LEFT_TO_CHILD, *HANDED_ON):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, hand_on, number)
    try:
        process = subprocess.Popen(arguments, env=dict(environment))  # noqa: ASYNC220, S603  (waited for below)
    except OSError as error:
        raise InputError(f"{arguments[0]} cannot be started: {error.strerror}") from error
    while True:
        _, status = await asyncio.to_thread(os.waitpid, process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        os.kill(os.getpid(), signal.SIGSTOP)
    process.returncode = code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
