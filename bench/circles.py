"""Does a note help a real model out of a circle of tool calls?

    headgate serve &                                   # in front of a server of a small model that can call tools
    python bench/circles.py http://127.0.0.1:8642/v1 MODEL [--sessions 60]

Each session is a conversation in which the model has made the same call three times with the same result, drawn from a seed. It is
sent through the proxy and goes on for two turns; a call that is the same once more gets the same result once more. The circle is
left when the model calls anything else or answers. Every session runs twice: with the ladder, and with it switched off by header.
"""

import argparse
import random

import httpx2
import orjson

from headgate.guard.steps import Step
from headgate.testing.agent_messages import render
from headgate.testing.agent_sessions import looping_session

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--sessions", type=int, default=60)
    given = parser.parse_args()
    seeds = random.Random(0).sample(range(10_000), given.sessions)
    left = {True: 0, False: 0}
    with httpx2.Client(base_url=given.url) as client:
        for seed in seeds:
            session, _ = looping_session(seed, period=1, copies=3, lead=0)
            messages = render(session, "chat", seed=seed)
            for ladder in left:
                left[ladder] += leaves(client, given.model, messages, ladder=ladder)
    for ladder, count in left.items():
        name = "with the ladder" if ladder else "without"
        print(
            f"{name}: {count} of {given.sessions} left the circle within {TURNS} turns ({count / given.sessions:.0%})"
        )


if __name__ == "__main__":
    main()
