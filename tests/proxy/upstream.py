"""A model service that does what a script says, down to the bytes and the moment the connection breaks.

A script is a list of steps for one call: bytes (one chunk of the answer), a Head, a Pause, RESET, CLOSE. The n-th call
for a model gets its n-th script, the last one repeats.
"""

import asyncio
import json
import socket
import struct
from dataclasses import dataclass, field

RESET, CLOSE = object(), object()


@dataclass(frozen=True)
class Head:
    status: int = 200
    headers: tuple = (("content-type", "text/event-stream"),)
    chunked: bool = True
    raw: bytes = b""

    def bytes(self):
        if self.raw:
            return self.raw
        lines = [f"HTTP/1.1 {self.status} X", *(f"{k}: {v}" for k, v in self.headers)]
        lines += ["transfer-encoding: chunked"] if self.chunked else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


@dataclass(frozen=True)
class Pause:
    seconds: float = 60.0


@dataclass(frozen=True)
class Endless:
    chunk: bytes


@dataclass
class Seen:
    method: str
    path: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass
class Upstream:
    scripts: dict = field(default_factory=dict)
    seen: dict = field(default_factory=dict)
    open: int = 0
    accepted: int = 0
    severed: int = 0
    written: int = 0
    port: int = 0

    async def start(self, tls=None):
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", 0, limit=1 << 20, ssl=tls
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self._tasks = set()
        return self

    async def stop(self):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def script(self, model, *calls):
        self.scripts[model], self.seen[model] = calls, []

    async def _serve(self, reader, writer):
        task = asyncio.current_task()
        self._tasks.add(task)
        self.accepted += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, path, _ = first.split(" ")
        try:
            model = json.loads(body)["model"]
        except (ValueError, KeyError, TypeError):
            model = path
        seen = self.seen.setdefault(model, [])
        seen.append(Seen(method, path, headers, body))
        scripts = self.scripts.get(model) or self.scripts["*"]
        script = scripts[min(len(seen), len(scripts)) - 1]
        self.open += 1
        gone = asyncio.ensure_future(reader.read(1))
        play = asyncio.ensure_future(self._play(script, writer))
        try:
            await asyncio.wait({gone, play}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not play.done():
                self.severed += 1
                return False
            return play.result()
        except ConnectionError:
            self.severed += 1
            return False
        finally:
            self.open -= 1
            for task in (gone, play):
                task.cancel()
            await asyncio.gather(gone, play, return_exceptions=True)

    async def _play(self, script, writer):
        """Whether the connection may be used again."""
        head = next((s for s in script if isinstance(s, Head)), Head())
        begun = False
        for step in script:
            if not begun and not isinstance(step, Pause) and step is not RESET:
                begun = True
                writer.write(head.bytes())
            if step is CLOSE or step is RESET:
                return await self._break(writer, step)
            await self._step(writer, head, step)
        if head.chunked:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return head.chunked or any(k == "content-length" for k, _ in head.headers)

    async def _step(self, writer, head, step):
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
        elif isinstance(step, Endless):
            while True:
                await self._chunk(writer, head, step.chunk)
        elif isinstance(step, bytes):
            await self._chunk(writer, head, step)

    async def _break(self, writer, step):
        await writer.drain()
        await asyncio.sleep(0.05)
        if step is RESET:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False

    async def _chunk(self, writer, head, data):
        writer.write(b"%x\r\n%b\r\n" % (len(data), data) if head.chunked else data)
        self.written += len(data)
        await writer.drain()
        await asyncio.sleep(0)


# What models say


def chunk(delta, *, finish=None, id="chatcmpl-1", **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = {"id": id, "object": "chat.completion.chunk", "created": 1700000000, "model": "up", "choices": [choice]}  # fmt: skip
    return b"data: " + json.dumps(data | more, ensure_ascii=False).encode() + b"\n\n"


def usage_chunk(prompt, said, *, id="chatcmpl-1"):
    usage = {"prompt_tokens": prompt, "completion_tokens": said, "total_tokens": prompt + said}
    data = {"id": id, "object": "chat.completion.chunk", "created": 1700000000, "model": "up", "choices": [], "usage": usage}  # fmt: skip
    return b"data: " + json.dumps(data).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def said(*texts, id="chatcmpl-1", name="content", finish="stop", usage=None):
    """A whole stream that says these texts."""
    out = [chunk({"role": "assistant", "content": ""}, id=id)]
    out += [chunk({name: text}, id=id) for text in texts]
    out.append(chunk({}, finish=finish, id=id))
    if usage:
        out.append(usage_chunk(*usage, id=id))
    return [*out, DONE]


def event(kind, **fields):
    data = json.dumps({"type": kind, **fields})
    return f"event: {kind}\ndata: {data}\n\n".encode()


def told(*texts, id="msg_1", usage=(10, 5), block="text"):
    """A whole Anthropic stream that says these texts."""
    name = {"text": "text", "thinking": "thinking"}[block]
    usage_in = {"input_tokens": usage[0], "output_tokens": 1}
    message = {"id": id, "type": "message", "role": "assistant", "model": "up", "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": usage_in}  # fmt: skip
    begin = {"type": block, name: ""} | ({"signature": ""} if block == "thinking" else {})
    return [
        event("message_start", message=message),
        event("content_block_start", index=0, content_block=begin),
        event("ping"),
        *(event("content_block_delta", index=0, delta={"type": f"{block}_delta", name: t}) for t in texts),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": usage[1]}),
        event("message_stop"),
    ]  # fmt: skip


PROSE = (
    "The headgate of a channel decides how much water enters the fields below. ",
    "In a dry year it stays nearly closed, and the keeper opens it for an hour at dawn. ",
    "In a wet one it may stand open for weeks without anybody giving it a thought. ",
)
UNIT = "and then the water rises again over the old stone wall, "
LOOP = (*PROSE, *(UNIT for _ in range(40)))


def answer(content, *, id="chatcmpl-1", usage=(10, 5), **message):
    usage = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": "stop", "logprobs": None}  # fmt: skip
    data = {"id": id, "object": "chat.completion", "created": 1700000000, "model": "up", "choices": [choice], "usage": usage, "x": 1}  # fmt: skip
    body = json.dumps(data).encode()
    return [json_head(), body]


def json_head(status=200, **headers):
    return Head(status, (("content-type", "application/json"), *headers.items()))
