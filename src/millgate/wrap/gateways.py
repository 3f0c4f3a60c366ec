"""Gateways: the processes that guard, one at work and one in reserve, replaced when they die or fall silent.

A gateway is asked for a sign of life while it has work. One that gives none is killed and the reserve takes its place
at once; another is started in the background, later and later if they keep failing. Only the calls of an agent that
starts faster than the first gateway wait for it.
"""

import asyncio
import sys
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import asdict, replace

import orjson

from millgate.errors import ConfigError, MillgateError, UpstreamError
from millgate.service.proxy.transport import (
    SECRET_HEADER,
    Address,
    Response,
    Timeouts,
    Transport,
    UpstreamRequest,
)
from millgate.service.wire import Headers
from millgate.wrap.gateway_process import GatewayProcess
from millgate.wrap.spec import MEMORY, GatewaySpec

# -P: the folder that the agent works in must not shadow what the gateway imports
COMMAND = (sys.executable, "-P", "-m", "millgate.wrap.gateway")
START_S = 60.0  # importing everything takes seconds on a busy machine
STOP_S = 5.0
PING_S = 0.1  # how often a gateway with work is asked for a sign of life
SILENT_STEPS = 4  # in which it is waited for
RESERVE_S = 2.0  # the reserve starts when the agent has started, which needs the processor itself
RESTART_S = 0.5  # the wait before the first restart, doubled for each failure that follows
MAX_RESTART_S = 30.0
NEVER_S = 86_400.0


class Gateway:
    """One gateway process that serves."""

    def __init__(self, process: GatewayProcess, spec: GatewaySpec, transport: Transport) -> None:
        self.metrics = ""
        """Its numbers, as it told them last."""
        self.failed = asyncio.Event()
        self.pid = process.pid
        self._process, self._spec, self._transport = process, spec, transport
        self._address = Address("http", "127.0.0.1", process.port)
        # without a sign of life for so long it counts as hung; a healthy one answers within milliseconds
        self._silence_s = spec.patience_s / 2
        self._turns = self._heard = 0
        self._has_work = asyncio.Event()
        self._watch = asyncio.ensure_future(self._watch_silence())
        process.exited.add_done_callback(lambda _: self.failed.set())

    @classmethod
    async def start(cls, spec: GatewaySpec, transport: Transport) -> "Gateway":
        """Start one and wait until it serves; ConfigError says why it does not."""
        process = await GatewayProcess.start(COMMAND, orjson.dumps(asdict(spec)) + b"\n")
        gateway = cls(process, spec, transport)
        try:
            # This leads to our own side, and takes many times as long as any request that follows.
            response = await gateway.send("GET", "/v1/models", answer_s=START_S)
            await response.close()
        except UpstreamError as error:
            await gateway._end(STOP_S)  # if it is about to end, it still writes why
            raise ConfigError(process.log[-500:] or error.message) from error
        except BaseException:
            await gateway._end(0.0)
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
    ) -> Response:
        """Its response to a request, once the head has come."""
        known = [*(headers or []), (SECRET_HEADER, self._spec.secret.encode())]
        limits = Timeouts(self._silence_s, answer_s, NEVER_S)
        return await self._transport.send(
            UpstreamRequest(method, self._address, target, known, body, limits)
        )

    def note_sign_of_life(self) -> None:
        """More of a turn came from it: it works, however long it takes to say so when asked."""
        self._heard += 1

    def begin_turn(self) -> None:
        """It has one more turn to work on."""
        self._turns += 1
        self._has_work.set()

    def end_turn(self) -> None:
        """It has one turn less."""
        self._turns -= 1
        if not self._turns:
            self._has_work.clear()

    async def is_alive(self) -> bool:
        """Whether it gives a sign of life in time: an answer, or more of any turn. One that does not has failed.

        The time is counted in steps, so that one in which we ourselves were stopped is no longer than the others.
        """
        answer = asyncio.ensure_future(self._get("/healthz"))
        silent = 0
        try:
            while silent < SILENT_STEPS and not answer.done():
                heard = self._heard
                await asyncio.wait({answer}, timeout=self._silence_s / SILENT_STEPS)
                silent = silent + 1 if heard == self._heard else 0
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
        parts = []
        try:
            while data := await response.read():
                parts.append(data)
        finally:
            await response.close()
        if response.status != 200:
            raise UpstreamError(f"the gateway answered {target} with {response.status}")
        return b"".join(parts)

    async def _watch_silence(self) -> None:
        while not self.failed.is_set():
            await self._has_work.wait()
            if await self.is_alive():
                await asyncio.sleep(PING_S)

    @property
    def log(self) -> str:
        """The end of what it wrote."""
        return self._process.log

    async def close(self) -> None:
        """End it: in order if it has something to store and can, else by force."""
        stores = self._spec.store != MEMORY and not self.failed.is_set()
        await self._end(STOP_S if stores else 0.0)

    async def _end(self, wait_s: float) -> None:
        self._watch.cancel()
        await asyncio.wait({self._watch})
        await self._process.end(wait_s)


class GatewayPool:
    """The gateway at work, and the one in reserve."""

    def __init__(self, spec: GatewaySpec, transport: Transport) -> None:
        self.spec, self._transport = spec, transport
        self.failures = 0
        self.last_log = ""
        """What the last gateway that failed had written, or why the last one did not start."""
        self.lost_store = ""
        """The store that gateways were to have and work without, and why; empty if they have theirs."""
        self._gateways: list[Gateway] = []
        self._metrics: list[str] = []  # of those that are gone
        self._in_a_row = 0
        self._came = asyncio.Event()
        self._started = asyncio.Event()
        self._started.set()
        self._tasks: set[asyncio.Future[None]] = set()

    def start(self) -> None:
        """Start the first gateway and then the reserve, in the background."""
        self._started.clear()
        self._spawn(self._start_first())

    async def _start_first(self) -> None:
        try:
            self._add_gateway(await self._start_gateway())
        except (MillgateError, OSError) as error:
            self.failures += 1
            self.last_log = str(error)
            self._spawn(self._add(RESTART_S))
        else:
            self._spawn(self._add(RESERVE_S))
        finally:
            self._started.set()

    async def _start_gateway(self) -> Gateway:
        """Start one. If it starts only without its store, all others go without it too: the guard needs none."""
        try:
            return await Gateway.start(self.spec, self._transport)
        except ConfigError as error:
            if self.spec.store == MEMORY:
                raise
            without = replace(self.spec, store=MEMORY, inject=False)
            gateway = await Gateway.start(without, self._transport)
            why = "; ".join(error.message.splitlines()[-2:]).replace("; hint: ", "; ")
            self.lost_store = f"{self.spec.store or 'of your settings'}: {why}"
            self.spec = without
            return gateway

    async def wait_for_start(self, wait_s: float) -> None:
        """Wait until the first gateway is there or has failed to start, but no longer than that."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._started.wait()

    @property
    def current(self) -> Gateway | None:
        """The gateway at work; None while there is none."""
        return next((gateway for gateway in self._gateways if not gateway.failed.is_set()), None)

    async def wait_for_one(self, wait_s: float) -> Gateway | None:
        """The gateway at work, once there is one; None if none comes in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while self.current is None:
                    self._came.clear()
                    await self._came.wait()
        return self.current

    def note_success(self) -> None:
        """A turn went through: restarts need not wait long."""
        self._in_a_row = 0

    def metrics(self) -> list[str]:
        """The numbers of every gateway there was."""
        return [*self._metrics, *(gateway.metrics for gateway in self._gateways)]

    def _add_gateway(self, gateway: Gateway) -> None:
        self._gateways.append(gateway)
        self._came.set()
        self._spawn(self._replace(gateway))

    async def _replace(self, gateway: Gateway) -> None:
        """Wait until a gateway fails, then end it and start another."""
        await gateway.failed.wait()
        self.failures += 1
        self._in_a_row += 1
        await gateway.close()
        self._gateways.remove(gateway)
        self._metrics.append(gateway.metrics)
        self.last_log = gateway.log
        await self._add(min(MAX_RESTART_S, RESTART_S * 2 ** (self._in_a_row - 1)))

    async def _add(self, wait_s: float) -> None:
        """Start one more gateway; if that fails, try again after longer and longer pauses."""
        while True:
            await asyncio.sleep(wait_s)
            try:
                self._add_gateway(await self._start_gateway())
            except (MillgateError, OSError) as error:
                self.last_log = str(error)
                wait_s = min(MAX_RESTART_S, 2 * wait_s + RESTART_S)
            else:
                return

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End all of them."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        await asyncio.gather(*(gateway.close() for gateway in self._gateways))
