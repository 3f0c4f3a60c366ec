"""Circles of tool calls: false alarms and finds against the usual rule, CPU, and whether a note helps a real model.

    make bench-circles [ARGS="--sessions 1000"]                     rules and CPU, one minute
    make bench-circles ARGS="--recorded FOLDER"                     the rules on recorded sessions, *.jsonl.gz: seconds
    make bench-circles ARGS="--model --sessions 24"                 a model of 135 M parameters, 110 MB: 10 minutes
    make bench-circles ARGS="--model NAME --url URL [--plain]"      a model of any server, such as http://127.0.0.1:8080/v1

Healthy and looping sessions are drawn from seeds (bench/fixtures/sessions.py). The usual rule of other guards is: the
same name and arguments three times in a row, whatever the results. CPU is the least of several runs on messages that
were just parsed, as the proxy has them; "unknown" is the first conversation of a process.

With --model the proxy stands in front of the model. In each session the model has made the same call three times with
the same result, and goes on for two turns; the same call gets the same result once more. The model leaves the circle
if it calls anything else or answers. Every session runs with the notes, and with them switched off by header. With
--plain the conversation is written out as text and calls are read from the text, for models without a format for
tools; the built-in model needs it.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import orjson
from bench.fixtures import small_model
from bench.fixtures.sessions import (
    APIS,
    MadeCall,
    Turn,
    healthy_session,
    looping_session,
    render,
)
from bench.fold import read_sessions
from rich.console import Console
from rich.table import Table

from millgate.circles import masks
from millgate.circles.action import call_number
from millgate.circles.finder import check
from millgate.circles.policy import CirclesPolicy
from millgate.circles.reader import Reader
from millgate.circles.steps import CircleFollower, annotate, find_steps

POLICY = CirclesPolicy()
LINES = "\n".join(f"line {n} of a file with some words in it, as files have" for n in range(140))
CALL = re.compile(r"\s*Action: (\w+) (\{.*)")
TURNS = 2
TOKENS = 300


# The rules


def fires_by_arguments(messages) -> bool:
    """The rule of the peers."""
    reader, last, count = Reader(), None, 0
    for at, message in enumerate(messages):
        for step in reader.read(at, message):
            call = step.call if step is not None else None
            count = count + 1 if call is not None and call == last else 1
            last = call
            if call is not None and count >= 3:
                return True
    return False


def compare_rules(sessions: int) -> Table:
    """False alarms on healthy sessions, and finds at the third copy."""
    table = Table("rule", "healthy", "false alarms", "looping", "found at the third copy")
    healthy = [render(healthy_session(seed), APIS[seed % 3], seed=seed) for seed in range(sessions)]
    looping = [
        render(looping_session(seed, period=seed % 6 + 1)[0], APIS[seed % 3], seed=seed)
        for seed in range(sessions)
    ]
    alarms = sum(bool(find_steps(messages, POLICY).marks) for messages in healthy)
    found = sum(check(messages) is not None for messages in looping)
    table.add_row("same call, same result", str(sessions), str(alarms), str(sessions), str(found))
    alarms, found = sum(map(fires_by_arguments, healthy)), sum(map(fires_by_arguments, looping))
    table.add_row("same call three times", str(sessions), str(alarms), str(sessions), str(found))
    return table


def compare_recorded(folder: Path) -> Table:
    """Recorded sessions with a circle at any point, which is printed, and those with repeated calls left alone."""
    table = Table(
        "sessions", "count", "with a circle", "same call three times", "of them left alone"
    )
    for name, sessions in read_sessions(folder).items():
        marks = {n: find_steps(s.messages, POLICY).marks for n, s in enumerate(sessions)}
        circles = {n for n, found in marks.items() if found}
        repeats = {n for n, s in enumerate(sessions) if most_repeated(s.messages) >= 3}
        counts = (len(sessions), len(circles), len(repeats), len(repeats - circles))
        table.add_row(name, *map(str, counts))
        for n in sorted(circles):
            print(f"{name} {n}, message {marks[n][0].at}: {marks[n][0].circle.describe()}")
    return table


def most_repeated(messages) -> int:
    """How often the call was made that was made most often, wherever it stands and whatever came back."""
    reader = Reader()
    steps = [step for at, m in enumerate(messages) for step in reader.read(at, m)]
    return max(
        Counter(step.call for step in steps if step is not None and step.tool).values(), default=0
    )


# CPU


def conversation(kind: str) -> list[Turn]:
    """500 messages, 2 MB."""
    turns = [Turn(human="go")]
    for n in range(250):
        path = {"path": f"src/file{n}.py" if kind == "healthy" else "src/a.py"}
        head = {"healthy": "", "polling": f"{n} of 900 done\n", "looping": f"took {n} ms\n"}[kind]
        turns.append(Turn(calls=(MadeCall("read", path, head + LINES),)))
    return turns


def measure_cpu() -> Table:
    """CPU of one request if all but its last turn is known, and of the first conversation of a process."""
    columns = ("check", "check, unknown", "ladder", "ladder, unknown", "JSON parse")
    table = Table("conversation", "MB", *(f"{name} ms" for name in columns))
    for kind in ("healthy", "polling", "looping"):
        body = orjson.dumps(render(conversation(kind), "chat"))
        load = partial(orjson.loads, body)
        parsed = [load() for _ in range(12)]
        ladder = [_grown(m, known) for m, known in zip(parsed[::2], parsed[1::2], strict=True)]
        runs = (
            [_cpu(check, m) for m in parsed[:6]],
            [_cpu(check, load()) for _ in range(6) if not forget()],
            ladder,
            [_cpu(_annotate, load()) for _ in range(6) if not forget()],
            [_cpu(load) for _ in range(6)],
        )
        table.add_row(
            kind, f"{len(body) / 1e6:.1f}", *(f"{1000 * min(times):.2f}" for times in runs)
        )
    return table


def forget() -> None:
    """Clear what earlier conversations left in caches."""
    for part in vars(masks).values():
        if hasattr(part, "cache_clear"):
            part.cache_clear()


def _annotate(messages: list) -> list:
    return annotate(messages, find_steps(messages, POLICY).marks)


def _grown(messages: list, known: list) -> float:
    """CPU of the steps as the proxy follows them, if all but the last turn was sent before."""
    follower = CircleFollower(POLICY)
    for at, message in enumerate(known[:-2]):
        follower.feed(at, message)

    def go_on():
        for at in range(follower.read, len(messages)):
            follower.feed(at, messages[at])
        return annotate(messages, follower.found.marks)

    return _cpu(go_on)


def _cpu(work, *given) -> float:
    began = time.process_time()
    work(*given)
    return time.process_time() - began


# A real model


def tools_of(messages) -> list[dict]:
    """The tools of a conversation, as a request declares them, and one more that was not tried."""
    names = {call["function"]["name"] for m in messages for call in m.get("tool_calls") or ()}
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"Runs {name}.",
                "parameters": {"type": "object", "additionalProperties": True},
            },
        }
        for name in sorted({*names, "list_files"})
    ]


def leaves(client: httpx2.Client, model: str, messages: list[dict], *, ladder: bool) -> bool:
    """Whether the model leaves the circle within two turns."""
    messages, tools = list(messages), tools_of(messages)
    last = messages[-2]["tool_calls"][0]["function"]
    stuck, result = call_number(last["name"], last["arguments"]), messages[-1]["content"]
    for _ in range(TURNS):
        body = {
            "model": model,
            "messages": messages,
            "tools": tools,
            "max_tokens": TOKENS,
            "temperature": 0,
        }
        headers = {} if ladder else {"x-millgate-circles": "off"}
        reply = client.post("/chat/completions", json=body, headers=headers, timeout=600)
        reply.raise_for_status()
        message = orjson.loads(reply.content)["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        if not calls:
            return True
        made = calls[0]["function"]
        if call_number(made["name"], made["arguments"]) != stuck:
            return True
        messages.append(
            {"role": "assistant", "content": message.get("content"), "tool_calls": calls[:1]}
        )
        messages.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": result})
    return False


# A model without tools of its own


def write_out(fields) -> str:
    """A conversation as text that the model completes."""
    names = ", ".join(tool["function"]["name"] for tool in fields.get("tools", ()))
    lines = [
        f"An agent works for a person with these tools: {names}. In each step it writes either one line "
        '"Action: TOOL {ARGUMENTS}" and gets a result, or "Answer: TEXT" when it is done or cannot go on.\n'
    ]
    for message in fields["messages"]:
        if message["role"] == "tool":
            lines.append(f"Result: {message['content'].strip()}")
        elif calls := message.get("tool_calls"):
            made = calls[0]["function"]
            lines.append(f"Action: {made['name']} {json.dumps(json.loads(made['arguments']))}")
        elif message["role"] == "user":
            lines.append(f"Person: {message['content']}")
        else:
            lines.append(f"Answer: {message['content']}")
    return "\n".join(lines) + "\n"


def read_back(text: str) -> dict:
    """What the model wrote, as a message: its call, or its answer."""
    found = CALL.match(text)
    if not found:
        return {"role": "assistant", "content": text.strip()}
    made = {"name": found[1], "arguments": found[2].split("\n")[0].strip()}
    call = {"id": f"call_{random.randrange(10**9)}", "type": "function", "function": made}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@contextmanager
def written_out(url: str):
    """A server of chat completions over one that only completes text."""

    class Chat(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            fields = orjson.loads(self.rfile.read(int(self.headers["content-length"])))
            asked = {
                "model": fields["model"],
                "prompt": write_out(fields),
                "max_tokens": 50,
                "temperature": fields["temperature"],
                "stop": ["\n"],
            }
            reply = httpx2.post(f"{url}/completions", json=asked, timeout=600).json()
            message = read_back(reply["choices"][0]["text"])
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            choice = {"index": 0, "message": message, "finish_reason": finish}
            body = orjson.dumps({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": fields["model"], "choices": [choice]})  # fmt: skip
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Chat)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def proxied(url: str):
    """The proxy in front of a server."""
    environ = os.environ | {"MILLGATE_PROXY__UPSTREAMS__MAIN__URL": url}
    command = [sys.executable, "-m", "millgate", "serve", "--store", ":memory:", "--port", "0", "--json"]  # fmt: skip
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield orjson.loads(process.stdout.readline())["url"] + "/v1"
    finally:
        process.terminate()
        process.wait()


def compare_model(url: str, model: str, sessions: int) -> None:
    """Run every session with and without the notes, and print the shares that left the circle."""
    seeds = random.Random(0).sample(range(10_000), sessions)
    left = {True: 0, False: 0}
    with proxied(url) as address, httpx2.Client(base_url=address) as client:
        for number, seed in enumerate(seeds, 1):
            session, _ = looping_session(seed, period=1, copies=3, lead=0)
            messages = render(session, "chat", seed=seed)
            for ladder in left:
                left[ladder] += leaves(client, model, messages, ladder=ladder)
            print(f"{number}: {left[True]} with notes, {left[False]} without", flush=True)
    for ladder, count in left.items():
        name = "with notes" if ladder else "without"
        print(f"{name}: {count} of {sessions} left the circle within {TURNS} turns ({count / sessions:.0%})")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--model", nargs="?", const="", help="a model of --url; alone, a small one")
    parser.add_argument("--url")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--recorded", type=Path, metavar="FOLDER", help="recorded sessions")
    given = parser.parse_args()
    if given.recorded:
        Console(width=130).print(compare_recorded(given.recorded))
    elif given.model is None:
        console = Console(width=130)
        console.print(compare_rules(given.sessions))
        console.print(measure_cpu())
    elif given.url and not given.plain:
        compare_model(given.url, given.model, given.sessions)
    else:
        server = None if given.url else small_model.serve()
        url = given.url or f"{server.listening_address}/v1"
        with written_out(url) as chat:
            compare_model(chat, given.model or "small", given.sessions)


if __name__ == "__main__":
    main()
