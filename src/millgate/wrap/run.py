"""Run: an agent under the supervisor, from its start to the summary.

The agent is started first. Its socket listens by then, so a call waits there until the supervisor serves; what the
supervisor needs is imported while the agent starts.
"""

import asyncio
import logging
import os
import secrets
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from millgate.errors import InputError, MissingExtra
from millgate.wrap import peer
from millgate.wrap.agents.launch import Launch, find_command, plan_launch
from millgate.wrap.agents.plan import SETTINGS_FILE
from millgate.wrap.spec import GatewaySpec

if TYPE_CHECKING:
    from millgate.wrap.summary import Summary
    from millgate.wrap.supervisor import Supervisor

NEEDED = ("aiohttp", "fastapi", "prometheus_client", "uvicorn")


async def run_wrapped(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    spec: GatewaySpec,
    upstreams: Mapping[str, str],
) -> tuple[int, "Summary"]:
    """Run a command with the gateway beside it: its exit code, and what was done for it."""
    find_command(command[0], environ)
    for needed in NEEDED:  # what is missing must be told before the agent starts
        if find_spec(needed) is None:
            raise MissingExtra(needed, extra="service")
    _keep_terminal_clean()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        secret = secrets.token_urlsafe(12)
        root = f"http://127.0.0.1:{listener.getsockname()[1]}"
        launch = plan_launch(command, root=root, secret=secret, environ=environ, upstreams=upstreams)  # fmt: skip
        if launch.open_paths and not await peer.can_tell():
            raise InputError(
                f"{command[0]} is not started: its address would stand on a command line, and this system does not "
                "say which user calls it",
                hint="install lsof, or use the proxy: millgate serve",
            )

        with _written_settings(launch) as arguments:
            ended = asyncio.Event()
            supervising = asyncio.ensure_future(
                _supervise(spec, secret, launch.open_paths, listener, ended)
            )
            try:
                code = await run_child(arguments, launch.environment)
                ended.set()
                return code, await supervising
            finally:
                supervising.cancel()
                await asyncio.wait({supervising})


async def _supervise(
    spec: GatewaySpec,
    secret: str,
    open_paths: Sequence[str],
    listener: socket.socket,
    ended: asyncio.Event,
) -> "Summary":
    """Serve the agent until it has ended; then say what was done for it."""
    try:
        module = await asyncio.to_thread(import_module, "millgate.wrap.supervisor")
        supervisor: Supervisor = module.Supervisor(spec, secret=secret, open_paths=open_paths)
        if ended.is_set():
            return supervisor.summary
        await supervisor.start(listener)
    except BaseException:
        listener.close()  # a call must not wait for nobody
        raise
    try:
        await ended.wait()
    finally:
        await supervisor.close()
    return supervisor.summary


@contextmanager
def _written_settings(launch: Launch) -> Iterator[tuple[str, ...]]:
    """The arguments, with the path of a settings file if the agent needs one; only its user can read the file."""
    if not launch.settings:
        yield launch.arguments
        return
    handle, path = tempfile.mkstemp(prefix="millgate-", suffix=".json")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(launch.settings)
        yield tuple(path if part == SETTINGS_FILE else part for part in launch.arguments)
    finally:
        Path(path).unlink(missing_ok=True)


def _keep_terminal_clean() -> None:
    """The terminal is the agent's: nothing of ours is logged to it."""
    for name in ("aiohttp", "asyncio"):
        logging.getLogger(name).addHandler(logging.NullHandler())
        logging.getLogger(name).propagate = False


LEFT_TO_CHILD = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
HANDED_ON = (signal.SIGTERM, signal.SIGHUP)
GROUP_S = 0.1  # a signal to a group reaches all its processes in less


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
    process.returncode = code = await _wait_for(process.pid)
    return code if code >= 0 else 128 - code


async def _wait_for(child: int) -> int:
    """The exit code of a child; we stop when it stops."""
    while True:
        _, status = await asyncio.to_thread(os.waitpid, child, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            return os.waitstatus_to_exitcode(status)
        if await _stays_stopped(child):
            os.kill(os.getpid(), signal.SIGSTOP)


async def _stays_stopped(child: int) -> bool:
    """Whether the child alone was stopped, and not with us and the whole group, which then may run again by now."""
    continued: list[int] = []
    before = signal.signal(signal.SIGCONT, lambda number, _: continued.append(number))
    try:
        while True:
            seen = len(continued)
            await asyncio.sleep(GROUP_S)
            if len(continued) == seen:
                break
    finally:
        signal.signal(signal.SIGCONT, before)
    options = os.WCONTINUED | os.WNOHANG | os.WNOWAIT
    try:
        return os.waitid(os.P_PID, child, options) is None  # noqa: ASYNC222  (it does not wait)
    except ChildProcessError:  # it has gone on, and ended
        return False
