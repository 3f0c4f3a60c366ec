"""The gateway of `millgate wrap` killed, stopped, stalled and slowed down during SDK sessions: whether a turn fails.

    make bench-wrap [ARGS="--moments 100"]      15 minutes

The sessions are those of the openai and anthropic packages, without retries, against a scripted upstream that answers
at the pace of a model. Each moment is one fault in one turn. A turn fails if the SDK raises, or if its text is neither
the one that it has without a fault nor the upstream's own. Extra is the time beyond the same turn without a
fault.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import anthropic
import httpx2
import openai
from aiohttp import web

from millgate.wrap.spec import MEMORY, GatewaySpec, redirect
from millgate.wrap.supervisor import Supervisor

PIECE_S = 0.025
PROSE = (
    "The millgate of a channel decides how much water enters the fields below it. In a dry year it stays nearly closed, "
    "and the keeper opens it for an hour at dawn. In a wet one it may stand open for weeks without anybody giving it a "
    "thought, until the first storm of autumn carries branches down from the hills and somebody has to walk up there, "
    "with a rake and a lamp, to clear the grating before the lower meadow is under water. "
)
UNIT = "and then the water rises again over the old stone wall, "
ENDING = (
    "and at last the keeper closes the gate, walks home along the dike, and sleeps until noon. "
)
TOOL = {
    "path": "channel/gate.txt",
    "text": " ".join(f"line {n} of the log" for n in range(12, 60, 7)),
}
MESSAGES = [{"role": "user", "content": "Tell me about the gate."}]
FAULTS = ("kill", "stop", "stall", "slow")
STALL_S = 30.0
BROKEN = (httpx2.TransportError, openai.APIConnectionError, anthropic.APIConnectionError)


def pieces(text, size=12):
    return [text[at : at + size] for at in range(0, len(text), size)]


# A model service that says what the name of its model asks for


class Model:
    """Speaks chat completions, messages and responses; a model named `loop...` loops in its first call."""

    def __init__(self):
        self.calls = Counter()

    async def start(self):
        app = web.Application(client_max_size=0)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_post("/v1/messages", self.messages)
        app.router.add_post("/v1/responses", self.responses)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self):
        await self._runner.cleanup()

    def _text(self, model):
        self.calls[model] += 1
        if model == "short":
            return "Closed."
        if model.startswith("loop"):
            return PROSE + UNIT * 30 if self.calls[model] == 1 else ENDING
        return PROSE

    async def chat(self, request):
        asked = await request.json()
        model = asked["model"]
        head = {"id": "chatcmpl-1", "created": 1, "model": model}
        text = self._text(model)
        if not asked.get("stream"):
            await asyncio.sleep(len(pieces(text)) * PIECE_S)
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}  # fmt: skip
            return web.json_response({**head, "object": "chat.completion", "choices": [choice]})
        if model.startswith("tool"):
            named = {"name": "write", "arguments": ""}
            deltas = [{"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": named}]}]  # fmt: skip
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in pieces(json.dumps(TOOL))]  # fmt: skip
        else:
            deltas = [{"content": part} for part in pieces(text)]
        events = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        finish = "tool_calls" if model.startswith("tool") else "stop"
        events.append({"index": 0, "delta": {}, "finish_reason": finish})
        lines = [json.dumps({**head, "object": "chat.completion.chunk", "choices": [event]}) for event in events]  # fmt: skip
        return await stream(request, [f"data: {line}\n\n" for line in (*lines, "[DONE]")])

    async def messages(self, request):
        asked = await request.json()
        model = asked["model"]
        text = self._text(model)
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1}}  # fmt: skip
        if not asked.get("stream"):
            await asyncio.sleep(len(pieces(text)) * PIECE_S)
            whole = {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
            return web.json_response({**message, **whole})
        events = [{"type": "message_start", "message": message}]
        events.append({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})  # fmt: skip
        events += [{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": part}} for part in pieces(text)]  # fmt: skip
        events.append({"type": "content_block_stop", "index": 0})
        events.append({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 9}})  # fmt: skip
        events.append({"type": "message_stop"})
        return await stream(request, [f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events])  # fmt: skip

    async def responses(self, request):
        asked = await request.json()
        text = self._text(asked["model"])
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}  # fmt: skip
        whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": asked["model"], "status": "completed",
                 "output": [item], "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}  # fmt: skip
        begun = {**whole, "status": "in_progress", "output": []}
        place = {"output_index": 0, "item_id": "msg_1", "content_index": 0}
        events = [("response.created", {"response": begun})]
        events.append(("response.output_item.added", {"output_index": 0, "item": {**item, "status": "in_progress", "content": []}}))  # fmt: skip
        events.append(("response.content_part.added", {**place, "part": {**part, "text": ""}}))
        events += [("response.output_text.delta", {**place, "delta": piece, "logprobs": []}) for piece in pieces(text)]  # fmt: skip
        events.append(("response.output_text.done", {**place, "text": text, "logprobs": []}))
        events.append(("response.content_part.done", {**place, "part": part}))
        events.append(("response.output_item.done", {"output_index": 0, "item": item}))
        events.append(("response.completed", {"response": whole}))
        lines = (json.dumps({"type": kind, "sequence_number": n, **fields}) for n, (kind, fields) in enumerate(events))  # fmt: skip
        kinds = (kind for kind, _ in events)
        return await stream(request, [f"event: {kind}\ndata: {line}\n\n" for kind, line in zip(kinds, lines, strict=True)])  # fmt: skip


async def stream(request, events):
    response = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        with suppress(ConnectionError):
            await response.write(event.encode())
        await asyncio.sleep(PIECE_S)
    with suppress(ConnectionError):
        await response.write_eof()
    return response


# Turns of real clients


def chat_stream(sdk, model):
    parts = sdk.openai.chat.completions.create(model=model, messages=MESSAGES, stream=True)
    finished, text = False, ""
    for part in parts:
        choice = part.choices[0]
        finished = finished or choice.finish_reason is not None
        text += choice.delta.content or ""
        text += "".join(call.function.arguments or "" for call in choice.delta.tool_calls or ())
    assert finished, "the stream ended before it was finished"
    return text


def chat_whole(sdk, model):
    answer = sdk.openai.chat.completions.create(model=model, messages=MESSAGES)
    return answer.choices[0].message.content


def messages_stream(sdk, model):
    with sdk.anthropic.messages.stream(model=model, max_tokens=999, messages=MESSAGES) as parts:
        message = parts.get_final_message()
    assert message.stop_reason, "the stream ended before it was finished"
    return message.content[0].text


def messages_whole(sdk, model):
    answer = sdk.anthropic.messages.create(model=model, max_tokens=999, messages=MESSAGES)
    return answer.content[0].text


def responses_stream(sdk, model):
    with sdk.openai.responses.stream(model=model, input="Tell me about the gate.") as parts:
        return parts.get_final_response().output_text


KINDS = {
    "chat, streamed": ("plain", chat_stream, PROSE),
    "chat, whole": ("plain", chat_whole, PROSE),
    "chat, a loop": ("loop", chat_stream, PROSE + UNIT * 30),
    "chat, a tool call": ("tool", chat_stream, json.dumps(TOOL)),
    "messages, streamed": ("plain", messages_stream, PROSE),
    "messages, whole": ("plain", messages_whole, PROSE),
    "messages, a loop": ("loop", messages_stream, PROSE + UNIT * 30),
    "responses, streamed": ("plain", responses_stream, PROSE),
}


@dataclass
class Clients:
    openai: openai.OpenAI
    anthropic: anthropic.Anthropic


class Bench:
    """The upstream and the supervisor in a loop of their own, and clients of both SDKs in front."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self._model, self._count = Model(), 0
        self.supervisor = Supervisor(GatewaySpec(MEMORY))
        url = self.run(self._model.start())
        self.run(self.supervisor.start())
        self.url = f"{url}/v1"
        root = self.supervisor.url
        self.sdk = Clients(
            openai.OpenAI(api_key="-", base_url=redirect(root, self.url), max_retries=0),
            anthropic.Anthropic(api_key="-", base_url=redirect(root, url), max_retries=0),
        )

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(120)

    def close(self):
        self.sdk.openai.close()
        self.sdk.anthropic.close()
        self.run(self.supervisor.close())
        self.run(self._model.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def turn(self, kind):
        """One turn: its text and its seconds. A connection that broke is asked again, as agents do."""
        model, ask, _ = KINDS[kind]
        self._count += 1
        began = time.perf_counter()
        try:
            text = ask(self.sdk, f"{model}-{self._count}")
        except BROKEN:
            text = ask(self.sdk, f"{model}-{self._count}")
        return text, time.perf_counter() - began

    def added_s(self, calls=40):
        """How much longer a call takes through the supervisor and the gateway than without them."""
        straight = openai.OpenAI(api_key="-", base_url=self.url, max_retries=0)
        seconds = {True: [], False: []}
        for number in range(2 * calls):
            began = time.perf_counter()
            client = self.sdk.openai if number % 2 else straight
            client.chat.completions.create(model="short", messages=MESSAGES)
            seconds[bool(number % 2)].append(time.perf_counter() - began)
        straight.close()
        return statistics.median(seconds[True]) - statistics.median(seconds[False])

    def pid(self):
        """The process of the gateway at work, once it serves."""
        while (found := self.run(self.supervisor.gateways.find())) is None:
            pass
        return found.pid


@contextmanager
def fault(bench, name, after_s):
    """Let a fault happen to the gateway at work, some seconds from now."""
    over = threading.Event()

    pid = bench.pid()

    def happen():
        time.sleep(after_s)
        with suppress(ProcessLookupError):  # it is not there any more
            if name == "kill":
                os.kill(pid, signal.SIGKILL)
            elif name == "stop":
                os.kill(pid, signal.SIGSTOP)
            elif name == "stall":
                os.kill(pid, signal.SIGSTOP)
                later = threading.Timer(STALL_S, continue_process, [pid])
                later.daemon = True
                later.start()
            else:
                crawl(pid, over)

    thread = threading.Thread(target=happen)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def continue_process(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def crawl(pid, over):
    """Let a process run for a tenth of the time only, so that it is slow and yet gives signs of life."""
    while not over.is_set():
        os.kill(pid, signal.SIGSTOP)
        over.wait(0.36)
        os.kill(pid, signal.SIGCONT)
        over.wait(0.04)


@dataclass
class Outcome:
    kind: str
    fault: str
    at: float
    extra: float
    text: str
    failed: str = ""


def run_moments(bench, moments, rng, *, kinds=tuple(KINDS), clean_runs=3, say=print):
    """Faults at random moments of turns: what became of each, and the turns without a fault."""
    clean = {kind: [bench.turn(kind) for _ in range(clean_runs)] for kind in kinds}
    texts = {kind: runs[0][0] for kind, runs in clean.items()}
    seconds = {kind: statistics.median(s for _, s in runs) for kind, runs in clean.items()}
    outcomes = []
    for number in range(moments):
        kind = kinds[number % len(kinds)]
        name = FAULTS[(number + number // len(kinds)) % len(FAULTS)]
        at = rng.uniform(0, seconds[kind])
        outcome = Outcome(kind, name, at, 0.0, "")
        with fault(bench, name, at):
            try:
                outcome.text, took = bench.turn(kind)
                outcome.extra = took - seconds[kind]
            except (openai.OpenAIError, anthropic.AnthropicError, AssertionError, OSError) as error:
                outcome.failed = f"{type(error).__name__}: {error}"[:200]
        if not outcome.failed and outcome.text not in (texts[kind], KINDS[kind][2]):
            outcome.failed = f"another text: …{outcome.text[-80:]!r}"
        outcomes.append(outcome)
        say(f"{number:3d}  {kind:20s} {name:6s} at {at:4.2f} s: {outcome.failed or f'{outcome.extra:+.2f} s'}")  # fmt: skip
    return outcomes, texts, clean


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--moments", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    bench = Bench()
    try:
        print(
            f"a call without a fault takes {bench.added_s() * 1000:.0f} ms longer than without wrapping"
        )
        outcomes, texts, clean = run_moments(bench, given.moments, random.Random(given.seed))
    finally:
        bench.close()
    noise = max(max(s for _, s in runs) - min(s for _, s in runs) for runs in clean.values())
    print(f"\nturns without a fault differ among themselves by up to {noise:.2f} s\n")
    print("| fault | turns | failed | extra s, median | worst | loops cut |")
    print("|---|---|---|---|---|---|")
    for name in FAULTS:
        mine = [o for o in outcomes if o.fault == name]
        if mine:
            loops = [o for o in mine if "loop" in o.kind]
            cut = sum(o.text == texts[o.kind] for o in loops)
            extra = sorted(o.extra for o in mine)
            print(f"| {name} | {len(mine)} | {sum(bool(o.failed) for o in mine)} | {statistics.median(extra):.2f} | {extra[-1]:.2f} | {cut} of {len(loops)} |")  # fmt: skip
    print(dict(bench.supervisor.summary.routes))
    bad = sum(bool(o.failed) or o.extra > 1.0 for o in outcomes)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
