"""Many agents at once through the whole service, each in the middle of a long tool call.

What the client gets is what the upstream sent, byte for byte, as it comes: the upstream sends the second half of every
call only when every client has seen a part of its first half.
"""

import asyncio
import json

import pytest
from tests.proxy.upstream import DONE, UNIT, call_item, chunk, event, response_stream, told

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.edge.reply import BROKEN_OFF
from millgate.settings import Settings
from millgate.types.policy import ProxyPolicy, ServicePolicy

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
TOKENS, STEP = (
    4_000,
    16,
)  # characters an event, as models that stream four tokens at a time send them


def arguments(tokens):
    """The arguments of a call that writes a file, about so long; no part of it repeats."""
    words = " ".join(f"line{n}={n * n}" for n in range(tokens // 4))
    return json.dumps({"path": "notes.txt", "content": words})


def stream(api, text, step=STEP):
    """The events of one tool call with these arguments."""
    parts = [text[at : at + step] for at in range(0, len(text), step)]
    if api == "responses":
        return response_stream(call_item(text))
    if api == "messages":
        tool = {"type": "tool_use", "id": "tool_1", "name": "write", "input": {}}
        return [
            told()[0],
            event("content_block_start", index=0, content_block=tool),
            *(event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": p}) for p in parts),
            event("content_block_stop", index=0),
            *told()[-2:],
        ]  # fmt: skip
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write", "arguments": ""}}  # fmt: skip
    return [
        chunk({"role": "assistant", "tool_calls": [head]}),
        *(chunk({"tool_calls": [{"index": 0, "function": {"arguments": p}}]}) for p in parts),
        chunk({}, finish="tool_calls"),
        DONE,
    ]


def arguments_in(got):
    """The arguments that a client reads out of the deltas that it got."""
    found = [json.loads(x.partition("\n\n")[0]) for x in got.decode().split("data: ") if x.startswith("{")]  # fmt: skip
    calls = [c for f in found for d in f.get("choices", ()) for c in d["delta"].get("tool_calls", ())]  # fmt: skip
    if calls:
        return "".join(call["function"]["arguments"] for call in calls)
    deltas = [f["delta"] for f in found if "delta" in f and f["type"] != "message_delta"]
    return "".join(d if isinstance(d, str) else d["partial_json"] for d in deltas)


def body(api, model):
    ask = [{"role": "user", "content": f"Write the file, {model}."}]
    asked = {"input": ask} if api == "responses" else {"messages": ask}
    more = {"max_tokens": 9_000} if api == "messages" else {}
    return json.dumps({"model": model, "stream": True, **asked, **more}).encode()


class Reader:
    """One client: what it has so far, and how its answer ended."""

    def __init__(self, port, api, model):
        self.port, self.api, self.model = port, api, model
        self.got, self.whole = bytearray(), False
        self.has_arguments = asyncio.Event()

    async def run(self):
        sent = body(self.api, self.model)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        head = f"POST {PATHS[self.api]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"  # fmt: skip
        writer.write(head.encode() + sent)
        try:
            answer = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in answer.split(b"\r\n")[0], answer
            while size := int(await reader.readuntil(b"\r\n"), 16):
                data = (await reader.readexactly(size + 2))[:-2]
                self.got += data
                if b"line1" in data:
                    self.has_arguments.set()
            self.whole = True
        except asyncio.IncompleteReadError:
            pass  # the connection broke
        finally:
            self.has_arguments.set()
            writer.close()
        return self


@pytest.fixture
def service(rig):
    """The whole service, its port, and the upstream behind it."""
    upstream = rig.at(idle_s=60, answer_s=60, connect_s=60)
    settings = Settings(
        store=":memory:",
        proxy=ProxyPolicy(upstreams={"main": upstream}),
        service=ServicePolicy(deadline_s=60),
    )
    with Millgate.open(settings=settings) as gate:
        url, stop = rig.app(create(gate))
        yield int(url.rpartition(":")[2])
        stop()


def run(rig, work, seconds=600):
    return asyncio.run_coroutine_threadsafe(work, rig.background.loop).result(seconds)


def test_64_agents_at_once_get_their_tool_calls_whole_and_as_they_come(rig, service):
    text = arguments(TOKENS)

    async def work():
        go, readers, scripts = asyncio.Event(), [], {}
        for n in range(64):
            api = list(PATHS)[n % 3]
            events = stream(api, text)
            half = len(events) // 2
            model = rig.script([*events[:half], go, *events[half:]])
            scripts[model] = b"".join(events)
            readers.append(Reader(service, api, model))
        reading = [asyncio.ensure_future(reader.run()) for reader in readers]
        await asyncio.gather(*(reader.has_arguments.wait() for reader in readers))
        go.set()
        for reader in await asyncio.gather(*reading):
            assert reader.got == scripts[reader.model]
            assert reader.whole

    run(rig, work())


@pytest.mark.slow
@pytest.mark.parametrize("api", PATHS)
def test_one_call_of_a_megabyte_passes_alone(rig, service, api):
    events = stream(api, json.dumps({"content": " ".join(map(str, range(160_000)))}), step=400)
    reader = Reader(service, api, rig.script(events))
    assert run(rig, reader.run()).got == b"".join(events)


@pytest.mark.parametrize("api", PATHS)
def test_a_hopeless_call_breaks_the_connection_and_if_the_retry_says_the_same_it_is_believed(
    rig, service, api
):
    text = '{"content": "line1=1 ' + UNIT * 400 + '"}'
    model = rig.script(stream(api, text))
    first = run(rig, Reader(service, api, model).run())
    assert not first.whole
    assert first.got.endswith(BROKEN_OFF)
    assert first.got.removesuffix(BROKEN_OFF) in b"".join(stream(api, text))
    again = run(rig, Reader(service, api, model).run())
    assert again.whole
    assert len(rig.upstream.seen[model]) == 2
    assert arguments_in(again.got) == text
