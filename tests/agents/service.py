"""A model service that plays one scenario at a time to a real agent, and keeps every request to the byte.

It speaks the four APIs of `apis.py`. A call of the agent's main loop gets what the scenario says for it; calls beside
it (a title, a count of tokens, a list of models) get a plain answer. A try to open a WebSocket gets 426, which is what
clients know as "use HTTP".
"""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from dataclasses import dataclass, field

from tests.agents.apis import api_of
from tests.agents.task import ACCOUNT
from tests.agents.wire import Cut, Do, Head, Pause, Sent, plain, read_request
from tests.proxy.conftest import Loop

# Between two pieces of an answer. A real model takes longer; without a pause a whole answer would be in the sockets'
# buffers before anyone could hang up.
PACE_S = 0.002
# What ChatGPT tells Codex of the user's accounts. Codex takes this origin only in place of its own address there.
ACCOUNTS = {
    "accounts": [{"id": ACCOUNT, "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT"}],
    "account_ordering": [ACCOUNT],
    "default_account_id": ACCOUNT,
}  # fmt: skip


@dataclass
class Call:
    """A model call: what was sent, and what became of its answer."""

    sent: Sent
    ask: object
    main: bool  # of the agent's main loop
    status: int = 200
    output_tokens: int = (
        0  # that the service wrote before the answer was complete, or the client was gone
    )
    severed: bool = False  # the client went away before the answer was complete

    @property
    def input_tokens(self):
        return len(self.sent.plain) // 4


@dataclass
class Play:
    """What happens in one run of an agent: the scenario, and all that reached the service."""

    scenario: object
    agent: object
    sent: list[Sent] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    attempts: Counter = field(default_factory=Counter)

    @property
    def main(self):
        return [call for call in self.calls if call.main]

    def answer(self, call):
        """The steps of the answer: what the real service would refuse, then what the scenario says."""
        if refused := call.ask.refusal():
            return call.ask.error(400, refused)
        if not call.main:
            return call.ask.say(self.agent.beside(call.ask))
        done = self.agent.results(call.ask)
        attempt = self.attempts[len(done)]
        self.attempts[len(done)] += 1
        return self.scenario.answer(self.agent, call.ask, done, attempt)


class Service:
    """Listens on loopback until it is closed; `play` is what it plays now."""

    def __init__(self):
        self._loop = Loop()
        self._tasks = set()
        self.play = None
        self._server = self._loop.run(self._start())
        self.port = self._server.sockets[0].getsockname()[1]
        self.root = f"http://127.0.0.1:{self.port}"

    async def _start(self):
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)

    def begin(self, scenario, agent):
        """Play a scenario to an agent from now on."""
        self.play = Play(scenario, agent)
        return self.play

    def close(self):
        async def end():
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self._loop.run(end())
        self._loop.close()

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client is gone, or the service is closed
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader, writer):
        """One request and its answer; whether the connection may be used again."""
        sent = await read_request(reader)
        play = self.play
        play.sent.append(sent)
        if sent.header("upgrade").lower() == "websocket":
            return await self._send(writer, plain(426, {"error": {"message": "Upgrade Required"}}))
        api = api_of(sent.path)
        if api is None or sent.method != "POST":
            return await self._send(writer, beside(sent))
        ask = api(sent)
        call = Call(sent, ask, play.agent.is_main(ask))
        play.calls.append(call)
        ask.serial = f"{len(play.main):03d}"
        return await self._send(writer, play.answer(call), call, reader)

    async def _send(self, writer, steps, call=None, reader=None):
        """Write the steps of an answer; whether the connection may be used again."""
        gone = asyncio.ensure_future(reader.read(1)) if reader else None
        playing = asyncio.ensure_future(self._write(writer, steps, call))
        try:
            await asyncio.wait({playing, *filter(None, [gone])}, return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            if not playing.done():
                call.severed = True
                return False
            return playing.result()
        except ConnectionError:
            if call:
                call.severed = True
            return False
        finally:
            for task in filter(None, (gone, playing)):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await task

    async def _write(self, writer, steps, call):
        head = Head()
        for step in steps:
            if isinstance(step, Head):
                head = step
                writer.write(head.bytes())
                if call:
                    call.status = step.status
            elif isinstance(step, Pause | Do):
                await writer.drain()
                await step.wait()
            elif isinstance(step, Cut):
                await writer.drain()
                await asyncio.sleep(0.05)  # what was written before arrives before the break
                reset(writer)
                return False
            else:
                writer.write(b"%x\r\n%b\r\n" % (len(step.data), step.data))
                await writer.drain()
                if call:
                    call.output_tokens += step.tokens
                await asyncio.sleep(PACE_S)
        if head.has_body:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def reset(writer):
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def beside(sent):
    """The answer to what is no model call."""
    if sent.path.endswith("/count_tokens"):
        return plain(200, {"input_tokens": len(sent.body) // 4})
    if sent.path.endswith(":countTokens"):
        return plain(200, {"totalTokens": len(sent.body) // 4})
    if sent.path.endswith("/models"):
        return plain(200, {"object": "list", "data": [], "models": []})
    if sent.path.endswith("/wham/accounts/check"):
        return plain(200, ACCOUNTS)
    if sent.method == "HEAD":
        return [Head(has_body=False)]
    return plain(404, {"error": {"message": f"there is no {sent.path}", "type": "not_found_error"}})
