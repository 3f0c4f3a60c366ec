"""A model service that does what a script says, down to the bytes and the moment the connection breaks.

A script is a list of steps for one call: bytes (one chunk of the answer), a Head, a Pause, an Event to wait for, RESET,
CLOSE. The n-th call for a model gets its n-th script, the last one repeats.
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

    async def start(self, tls=None, host="127.0.0.1"):
        self._server = await asyncio.start_server(self._serve, host, 0, limit=1 << 20, ssl=tls)
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
        elif isinstance(step, asyncio.Event):
            await step.wait()
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
    "The millgate of a channel decides how much water enters the fields below. ",
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


# What OpenAI's responses say


def response_object(id, output=(), status="completed", usage=None):
    tokens = None
    if usage:
        tokens = {"input_tokens": usage[0], "input_tokens_details": {"cached_tokens": 0}, "output_tokens": usage[1],
                  "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": sum(usage)}  # fmt: skip
    return {"id": id, "object": "response", "created_at": 1700000000, "model": "up", "status": status, "output": list(output),
            "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None,
            "instructions": None, "metadata": {}, "temperature": 1.0, "top_p": 1.0, "usage": tokens}  # fmt: skip


def message_item(text, id="resp_1", status="completed"):
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": f"msg_{id}", "type": "message", "role": "assistant", "status": status, "content": [part]}  # fmt: skip


def reasoning_item(text, id="resp_1", secret="gAAAA-secret"):
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": f"rs_{id}", "type": "reasoning", "summary": summary, "encrypted_content": secret}


def call_item(arguments, id="resp_1", number=1):
    return {"id": f"fc_{id}_{number}", "type": "function_call", "status": "completed", "call_id": f"call_{number}",
            "name": "look", "arguments": arguments}  # fmt: skip


def pieces_of(text, size=40):
    return [text[at : at + size] for at in range(0, len(text), size)] or [""]


def response_stream(*items, id="resp_1", usage=(10, 5), end="response.completed", texts=()):
    """A whole stream of a response with these items; `texts` is short for one message that says them."""
    items = [message_item("".join(texts), id)] if texts else items
    begun = response_object(id, status="in_progress")
    events = [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]  # fmt: skip
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"} | {k: v for k, v in (("content", []), ("summary", []), ("arguments", "")) if k in item}  # fmt: skip
        empty.pop("encrypted_content", None)
        events.append(("response.output_item.added", {"output_index": index, "item": empty}))
        events += list(_inside(item, place, texts))
        events.append(("response.output_item.done", {"output_index": index, "item": item}))
    events.append((end, {"response": response_object(id, items, usage=usage)}))
    return [event(kind, sequence_number=n, **fields) for n, (kind, fields) in enumerate(events)]


def _inside(item, place, texts):
    if item["type"] == "message":
        part, place = item["content"][0], place | {"content_index": 0}
        yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
        for text in texts or pieces_of(part["text"]):
            yield "response.output_text.delta", {**place, "delta": text, "logprobs": []}
        yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**place, "part": part}
    elif item["type"] == "reasoning" and item["summary"]:
        part, place = item["summary"][0], place | {"summary_index": 0}
        yield "response.reasoning_summary_part.added", {**place, "part": {**part, "text": ""}}
        for text in pieces_of(part["text"]):
            yield "response.reasoning_summary_text.delta", {**place, "delta": text}
        yield "response.reasoning_summary_text.done", {**place, "text": part["text"]}
        yield "response.reasoning_summary_part.done", {**place, "part": part}
    elif item["type"] == "function_call":
        for text in pieces_of(item["arguments"]):
            yield "response.function_call_arguments.delta", {**place, "delta": text}
        yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}


def response_answer(*items, id="resp_1", usage=(10, 5)):
    return [json_head(), json.dumps(response_object(id, items, usage=usage)).encode()]


def completion(text, *, finish=None, id="cmpl-1"):
    choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
    data = {"id": id, "object": "text_completion", "created": 1700000000, "model": "up", "choices": [choice]}  # fmt: skip
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def completion_stream(*texts, id="cmpl-1"):
    return [*(completion(text, id=id) for text in texts), completion("", finish="stop", id=id), DONE]  # fmt: skip
