"""The gateway of a wrapped agent: one process that guards, and another in its place when it dies or falls silent.

There is one at a time. The first starts with the agent; one that has failed is ended at once, and the next call
starts the next. A call waits for a gateway that starts, but not for long: then it goes to its upstream unguarded.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import asdict
from io import FileIO

import orjson

from millgate.errors import ConfigError, UpstreamError
from millgate.service.proxy.http_client import (
    SECRET_HEADER,
    Address,
    HttpClient,
    HttpResponse,
    Timeouts,
    UpstreamRequest,
    read_all,
)
from millgate.service.wire import Headers
from millgate.wrap.spec import MEMORY, GatewaySpec
from millgate.wrap.summary import Summary

# -P: the folder that the agent works in must not shadow what the gateway imports
COMMAND = (sys.executable, "-P", "-m", "millgate.wrap.gateway")
START_S = 60.0  # importing everything takes seconds on a busy machine
STOP_S = 5.0
SILENT_STEPS = 4  # in which a sign of life is waited for
# How long a call waits for a gateway that starts: it takes 2 s of CPU, and this is five times that, for a busy machine.
FIRST_S = 10.0
NEVER_S = 86_400.0
KILL_S = 5.0  # a process that is killed is gone within milliseconds, unless a broken disk holds it
PIPE = 65_536  # bytes that a pipe holds
METRICS_BYTES = 1 << 24  # of its numbers, which have some kilobytes
LOG_TAIL = 4096  # bytes; the summary shows five lines


class GatewayProcess:
    """A process that serves on a port of the loopback address until its input ends; no wait for it is without a bound.

    It inherits its listening socket. So its port is known before it runs, a request waits in the socket until a process
    serves it, and nothing that it prints has to be understood. Its pipes are ours and not asyncio's, which takes a
    process for running while anybody holds one of its pipes.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, port: int, input: FileIO, output: FileIO
    ) -> None:
        self.pid, self.port = process.pid, port
        self.exited = asyncio.ensure_future(process.wait())
        self._input, self._output, self._tail = input, output, b""
        self._loop = asyncio.get_running_loop()
        os.set_blocking(output.fileno(), False)
        self._loop.add_reader(output, self._read_output)

    @classmethod
    async def start(cls, command: Sequence[str], line: bytes) -> "GatewayProcess":
        """Start it, with the number of its listening socket behind its arguments and this line as its input."""
        (stdin, input), (output, stdout) = _open_pipe(), _open_pipe()
        try:
            with stdin, stdout, socket.create_server(("127.0.0.1", 0)) as listener:
                input.write(line)
                process = await asyncio.create_subprocess_exec(
                    *command, str(listener.fileno()),
                    stdin=stdin, stdout=stdout, stderr=asyncio.subprocess.STDOUT,
                    pass_fds=(listener.fileno(),), start_new_session=True,
                )  # fmt: skip
                return cls(process, listener.getsockname()[1], input, output)
        except BaseException:
            input.close()
            output.close()
            raise

    def _read_output(self) -> None:
        """Keep the end of what it writes. It is read as it comes, so that the process never waits for us."""
        data = self._output.read(PIPE)
        if data == b"":  # the writer has closed; None would mean that nothing is there yet
            self._loop.remove_reader(self._output)
        self._tail = (self._tail + (data or b""))[-LOG_TAIL:]

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        return self._tail.decode("utf-8", "replace").strip()

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
            if not self._output.closed:
                self._read_output()  # what the pipe holds, and no more
                self._loop.remove_reader(self._output)
                self._output.close()


def _open_pipe() -> tuple[FileIO, FileIO]:
    reader, writer = os.pipe()
    return FileIO(reader, "r"), FileIO(writer, "w")


class Gateway:
    """One gateway process that serves."""

    def __init__(self, process: GatewayProcess, spec: GatewaySpec, transport: HttpClient) -> None:
        self.metrics = ""
        """Its numbers, as it told them last."""
        self.failed = asyncio.Event()
        self.heard = 0
        """How often more of any answer came from it: as long as any does, it works."""
        self.pid = process.pid
        # without a sign of life for so long it counts as hung; a healthy one answers within milliseconds
        self.silence_s = spec.patience_s / 2
        self._process, self._spec, self._transport = process, spec, transport
        self._address = Address("http", "127.0.0.1", process.port)
        process.exited.add_done_callback(lambda _: self.failed.set())

    @classmethod
    async def start(cls, spec: GatewaySpec, transport: HttpClient) -> "Gateway":
        """Start one and wait until it serves; ConfigError says why it does not."""
        process = await GatewayProcess.start(COMMAND, orjson.dumps(asdict(spec)) + b"\n")
        gateway = cls(process, spec, transport)
        try:
            # This leads to our own side, and takes many times as long as any request that follows.
            response = await gateway.send("GET", "/v1/models", answer_s=START_S)
            await response.close()
        except UpstreamError as error:
            await process.end(STOP_S)  # if it is about to end, it still writes why
            raise ConfigError(process.log[-500:] or error.message) from error
        except BaseException:
            await process.end()
            raise
        return gateway

    async def send(
        self,
        method: str,
        target: str,
        headers: Headers | None = None,
        body: bytes = b"",
        *,
        answer_s: float = NEVER_S,
    ) -> HttpResponse:
        """Its response to a request, once the head has come."""
        known = [*(headers or []), (SECRET_HEADER, self._spec.secret.encode())]
        limits = Timeouts(self.silence_s, answer_s, NEVER_S)
        return await self._transport.send(
            UpstreamRequest(method, self._address, target, known, body, limits)
        )

    async def is_alive(self) -> bool:
        """Whether it gives a sign of life in time: an answer, or more of any call. One that does not has failed.

        The time is counted in steps, so that one in which we ourselves were stopped is no longer than the others.
        """
        answer = asyncio.ensure_future(self._get("/healthz"))
        silent = 0
        try:
            while silent < SILENT_STEPS and not answer.done():
                heard = self.heard
                await asyncio.wait({answer}, timeout=self.silence_s / SILENT_STEPS)
                silent = silent + 1 if heard == self.heard else 0
            await asyncio.wait_for(answer, 0)
        except (UpstreamError, TimeoutError):
            self.failed.set()
        finally:
            answer.cancel()
        return not self.failed.is_set()

    async def read_metrics(self) -> None:
        """Note its numbers as they are now."""
        with suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                self.metrics = (await self._get("/metrics")).decode()

    async def _get(self, target: str) -> bytes:
        response = await self.send("GET", target)
        body = await read_all(response, METRICS_BYTES)
        if response.status != 200:
            raise UpstreamError(f"the gateway answered {target} with {response.status}")
        return body

    async def close(self) -> str:
        """End it: in order if it has something to store and can, else by force. The end of what it wrote."""
        stores = self._spec.store != MEMORY and not self.failed.is_set()
        await self._process.end(STOP_S if stores else 0.0)
        return self._process.log


class Gateways:
    """The gateway at work, and what is known of those before it."""

    def __init__(self, spec: GatewaySpec, transport: HttpClient, summary: Summary) -> None:
        self.spec, self._transport, self._summary = spec, transport, summary
        self.current: Gateway | None = None
        """The gateway at work; None while there is none."""
        self._starting: asyncio.Future[None] | None = None
        self._is_trusted = True  # whether the last one was good for anything
        self._tasks: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Start a gateway in the background, unless one is there or starts."""
        if self.current is None and (self._starting is None or self._starting.done()):
            self._starting = self.do_aside(self._start())

    async def _start(self) -> None:
        try:
            self.current = await Gateway.start(self.spec, self._transport)
        except (ConfigError, UpstreamError, OSError) as error:
            self._summary.failures += 1
            self._summary.last_log, self._is_trusted = str(error), False

    async def find(self) -> Gateway | None:
        """The gateway at work, or the next one, once it serves; None if that takes too long.

        After one that was good for nothing a call waits no longer than its user has patience.
        """
        if self.current is not None and self.current.failed.is_set():
            await self.replace(self.current)
        self.start()
        if self.current is None and self._starting is not None:
            patience_s = self.spec.patience_s
            wait_s = max(FIRST_S, patience_s) if self._is_trusted else patience_s
            await asyncio.wait({self._starting}, timeout=wait_s)
        return self.current

    async def note_answer(self, gateway: Gateway) -> None:
        """A gateway has answered a call to its end: note its numbers."""
        self._is_trusted = True
        await gateway.read_metrics()

    async def replace(self, gateway: Gateway) -> None:
        """End a gateway that has failed; the next call starts another."""
        if self.current is gateway:
            self.current = None
            self._summary.failures += 1
            self._is_trusted = bool(gateway.metrics)  # which it has told once it has answered
            self._summary.add(gateway.metrics)
            self._summary.last_log = await gateway.close()

    def do_aside(self, work: Coroutine[object, object, None]) -> asyncio.Future[None]:
        """Do some work until `close`, for which nobody waits."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """End the gateway; its last numbers are read before."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        if (gateway := self.current) is not None:
            self.current = None
            if not gateway.failed.is_set() and await gateway.is_alive():
                await gateway.read_metrics()
            self._summary.add(gateway.metrics)
            await gateway.close()
