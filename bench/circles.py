"""Does a note help a real model out of a circle of tool calls?

    python bench/circles.py http://127.0.0.1:8080/v1 MODEL [--sessions 60] [--plain]

The address is that of a server of a small model. The proxy is started in front of it. Each session is a conversation in
which the model has made the same call three times with the same result, drawn from a seed. It goes on for two turns; a
call that is the same once more gets the same result once more. The circle is left when the model calls anything else or
answers. Every session runs twice: with the ladder, and with it switched off by header.

With `--plain` the conversation is written out as text and completed, and calls are read from the text: so a model
without a format of its own for tools can make them.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import orjson
from agent_sessions import looping_session, render

from headgate.guard.steps import Step

CALL = re.compile(r"\s*Action: (\w+) (\{.*)")
TURNS = 2
TOKENS = 300


def tools_of(messages) -> list[dict]:
    """The tools of a conversation, as a request declares them, and one more that nobody tried."""
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
    stuck, result = Step(last["name"], last["arguments"]).call, messages[-1]["content"]
    for _ in range(TURNS):
        body = {
            "model": model,
            "messages": messages,
            "tools": tools,
            "max_tokens": TOKENS,
            "temperature": 0,
        }
        headers = {} if ladder else {"x-headgate-circles": "off"}
        reply = client.post("/chat/completions", json=body, headers=headers, timeout=600)
        reply.raise_for_status()
        said = orjson.loads(reply.content)["choices"][0]["message"]
        calls = said.get("tool_calls") or []
        if not calls:
            return True
        made = calls[0]["function"]
        if Step(made["name"], made["arguments"]).call != stuck:
            return True
        messages.append(
            {"role": "assistant", "content": said.get("content"), "tool_calls": calls[:1]}
        )
        messages.append({"role": "tool", "tool_call_id": calls[0]["id"], "content": result})
    return False


# A model without tools of its own


def write_out(fields) -> str:
    """A conversation as text, up to where the model goes on."""
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
    environ = os.environ | {"HEADGATE_PROXY__UPSTREAMS__MAIN__URL": url}
    command = [sys.executable, "-m", "headgate", "serve", "--store", ":memory:", "--port", "0", "--json"]  # fmt: skip
    process = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        yield orjson.loads(process.stdout.readline())["url"] + "/v1"
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--sessions", type=int, default=60)
    parser.add_argument("--plain", action="store_true")
    given = parser.parse_args()
    if given.plain:
        with written_out(given.url) as url:
            compare(url, given.model, given.sessions)
    else:
        compare(given.url, given.model, given.sessions)


def compare(url: str, model: str, sessions: int) -> None:
    """Run every session with and without the ladder, and print the shares that left the circle."""
    seeds = random.Random(0).sample(range(10_000), sessions)
    left = {True: 0, False: 0}
    with proxied(url) as address, httpx2.Client(base_url=address) as client:
        for number, seed in enumerate(seeds, 1):
            session, _ = looping_session(seed, period=1, copies=3, lead=0)
            messages = render(session, "chat", seed=seed)
            for ladder in left:
                left[ladder] += leaves(client, model, messages, ladder=ladder)
            print(f"{number}: {left[True]} with the ladder, {left[False]} without", flush=True)
    for ladder, count in left.items():
        name = "with the ladder" if ladder else "without"
        print(f"{name}: {count} of {sessions} left the circle within {TURNS} turns ({count / sessions:.0%})")  # fmt: skip


if __name__ == "__main__":
    main()
