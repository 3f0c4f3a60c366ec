"""GatewayProcess: a process that serves on a port of the loopback address, and no wait for it is without a bound.

It inherits its listening socket. So its port is known before it runs, a request waits in the socket until a process
serves it, and nothing that it prints has to be understood. Its pipes are ours and not asyncio's, which takes a process
for running while anybody holds one of its pipes.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO

KILL_S = 5.0  # a process that is killed is gone within milliseconds, unless a broken disk holds it
PIPE = 65_536  # bytes that a pipe holds
LOG_TAIL = 4096  # bytes; the summary shows five lines


class GatewayProcess:
    """One process; it ends when its input ends."""

    def __init__(
        self, process: asyncio.subprocess.Process, port: int, input: FileIO, log: "LogTail"
    ) -> None:
        self.pid, self.port = process.pid, port
        self.exited = asyncio.ensure_future(process.wait())
        self._input, self._log = input, log

    @classmethod
    async def start(cls, command: Sequence[str], line: bytes) -> "GatewayProcess":
        """Start it, with the number of its listening socket behind its arguments and this line as its input."""
        (reader, writer), log = _open_pipe(), LogTail()
        try:
            with reader, log.writer, socket.create_server(("127.0.0.1", 0)) as listener:
                writer.write(line)
                process = await asyncio.create_subprocess_exec(
                    *command, str(listener.fileno()),
                    stdin=reader, stdout=log.writer, stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(listener.fileno(),), start_new_session=True,
                )  # fmt: skip
                port = listener.getsockname()[1]
        except BaseException:
            writer.close()
            log.close()
            raise
        return cls(process, port, writer, log)

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        return self._log.text

    async def end(self, wait_s: float = 0.0) -> None:
        """End its input, and kill it if it is still there `wait_s` later."""
        self._input.close()
        try:
            if wait_s:
                await asyncio.wait({self.exited}, timeout=wait_s)
        finally:
            if not self.exited.done():
                # The whole group, for it may have started others. A Mac does not permit it once the process has ended.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
                await asyncio.wait({self.exited}, timeout=KILL_S)
            self._log.close()


class LogTail:
    """The end of what a process writes. It is read as it comes, by pieces, so that the process never waits for us."""

    def __init__(self) -> None:
        self._reader, self.writer = _open_pipe()
        self._loop = asyncio.get_running_loop()
        self._tail = b""
        os.set_blocking(self._reader.fileno(), False)
        self._loop.add_reader(self._reader, self._read)

    def _read(self) -> None:
        data = self._reader.read(PIPE)
        if data == b"":  # the writer has closed; None would mean that nothing is there yet
            self._loop.remove_reader(self._reader)
        self._tail = (self._tail + (data or b""))[-LOG_TAIL:]

    @property
    def text(self) -> str:
        """What is kept."""
        return self._tail.decode("utf-8", "replace").strip()

    def close(self) -> None:
        """Read what the pipe holds, and no more."""
        if not self._reader.closed:
            self._read()
            self._loop.remove_reader(self._reader)
            self._reader.close()


def _open_pipe() -> tuple[FileIO, FileIO]:
    reader, writer = os.pipe()
    return FileIO(reader, "r"), FileIO(writer, "w")
