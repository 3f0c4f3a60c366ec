"""The agent's process. It runs as if the shell itself had started it: its terminal, its signals, its exit code.

It stays in our process group, so the terminal's signals (interrupt, quit, stop, window size) reach it directly; we take
no notice of those. Signals that are sent to us alone (terminate, hang up) are handed on. When it is stopped we stop
too, so that the shell gets its terminal back, and whoever continues the group continues both.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

from headgate.errors import InputError

LEFT_TO_CHILD = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP)
HANDED_ON = (signal.SIGTERM, signal.SIGHUP)


async def run_child(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command to its end: its exit code, 128 + N where signal N ended it.

    Signals stay handled so when it has ended, until the loop is closed: a second interrupt must not break off what is
    left to do. One that is ignored stays ignored, by the child too: so `nohup` and shells that run it aside want it.
    """
    loop = asyncio.get_running_loop()
    process: subprocess.Popen[bytes] | None = None

    def take(number: int) -> None:
        if number in HANDED_ON and process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    # Before the child is there, for one that comes while it starts. Those that are left to the child get a handler
    # too, since it would inherit that they are ignored.
    for number in (*LEFT_TO_CHILD, *HANDED_ON):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, take, number)
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
