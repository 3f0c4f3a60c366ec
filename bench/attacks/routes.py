"""Every route of the service, with bodies that its parser or its own work finds hard."""

import asyncio
import json
from urllib.parse import quote

from bench.attacks.target import attack


def nested(depth):
    """A value so deep that a parser which follows it recursively gives up."""
    value = "x"
    for _ in range(depth):
        value = [value]
    return value


@attack
async def hostile_turns(target):
    """Turns of every wrong shape: deep, long, linked in circles, with times and parts without end."""
    circle = [{"id": f"m{n}", "parent": f"m{(n + 1) % 5_000}", "content": f"turn {n}"} for n in range(5_000)]  # fmt: skip
    shapes = [
        circle,
        [{"id": "m", "parent": "m", "content": "own parent"}],
        [{"role": "user", "content": nested(200)}],
        [{"role": "user", "content": [{"type": "text", "text": "x"}] * 50_000}],
        [{"role": "user", "content": "x " * 2_000_000}],
        [{"role": "\u0300" * 100_000, "name": "x" * 1_000_000, "content": "hello"}],
        [{"content": "hello", "time": "2026-" * 100_000}],
        [{"content": "hello", "id": "i" * 1_000_000, "parent": "p" * 1_000_000}],
        [
            {
                "tool_calls": [{"function": {"arguments": "[" * 100_000}}] * 100,
                "role": "assistant",
                "content": None,
            }
        ],
        ["same words again"] * 10_000,
    ]
    for n, messages in enumerate(shapes):
        await target.post("/v1/turns", {"session": f"hostile{n}", "messages": messages, "collection": "hostile"}, target.write)  # fmt: skip
    await target.post("/v1/context", {"query": "what was said in turn 7?", "collection": "hostile", "session": "hostile0"})  # fmt: skip
    await target.post("/v1/graph/verify", {"slice": {"messages": [{"id": "a"}] * 100_000, "deep": nested(500)}})  # fmt: skip


@attack
async def hostile_calls(target):
    """Messages over MCP: batches, deep arguments, unknown methods, tools with every wrong argument."""

    def call(method, params):
        return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}

    version = {"_meta": {"progressToken": "x" * 100_000}}
    bodies = [
        [call("tools/list", {})] * 50_000,
        call("tools/call", {"name": "get_context", "arguments": {"query": "\u0300" * 90_000, "window": "x " * 1_900_000}}),
        call("tools/call", {"name": "x" * 1_000_000, "arguments": nested(900)}),
        call("x" * 1_000_000, version),
        call("initialize", {"protocolVersion": "9" * 100_000, "capabilities": nested(900), "clientInfo": {"name": "x", "version": "y"}}),
        call("tools/call", {"name": "get_context", "arguments": {"query": "refunds", "budget": 10**300}}),
        call("resources/read", {"uri": "file:///etc/passwd"}),
        call("resources/read", {"uri": "millgate://" + "%2e%2e/" * 10_000}),
        call("prompts/get", {"name": "../../x", "arguments": {"x": "{{7*7}}"}}),
        {"jsonrpc": "2.0", "id": nested(500), "result": {}},
        call("completion/complete", {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "y", "value": "z" * 1_000_000}}),
    ]  # fmt: skip
    for body in bodies:
        await target.send("POST", "/mcp", content=json.dumps(body).encode(), headers={"mcp-protocol-version": "x" * 1_000 if body is bodies[3] else "2025-06-18"})  # fmt: skip
    await asyncio.gather(*(target.send("POST", "/mcp", content=json.dumps(bodies[1]).encode()) for _ in range(6)))  # fmt: skip


@attack
async def hostile_queries(target):
    """Addresses and headers at the edge of what a head may hold: many parameters, cookies, encodings, quotes."""
    long = quote("\u0300" * 6_000)
    for path in (
        "/v1/facts?" + "query=x&" * 7_000,
        "/v1/facts?query=" + long,
        "/v1/graph/paths?start=" + quote("\u0301\u0323" * 200) + "&max_hops=5",
        "/v1/documents/" + "%2e%2e%2f" * 6_000,
        "/v1/documents/" + "a/" * 25_000,
        "/v1/traces/" + "%00" * 18_000 + "/why",
        "/dashboard/reviews?" + "page=1&" * 8_000,
        "/dashboard/requests?q=" + long,
        "/dashboard/requests?session=" + quote('"<script>' * 3_000),
        "/v1/reviews?status=" + "x" * 50_000,
        "/openapi.json?" + "x" * 60_000,
    ):  # fmt: skip
        await target.send("GET", path)
    for headers in (
        {"cookie": "a=b; " * 12_000},
        {"cookie": '"' * 50_000},
        {"cookie": "millgate-key=" + "\\" * 50_000},
        {"accept": "text/html;q=0.1," * 3_500},
        {"content-type": "application/json;" + "a=" * 25_000},
        {"content-type": "multipart/form-data; boundary=" + "-" * 50_000},
        {"forwarded": "for=1," * 9_000},
        {"authorization": "Bearer " + "mg_" * 18_000},
        {"traceparent": "00-" + "f" * 50_000, "tracestate": "a=b," * 2_000},
        {"origin": "http://" + "a." * 25_000, "sec-fetch-site": "cross-site"},
        {"x-forwarded-for": "1.1.1.1, " * 5_000},
        {"if-none-match": '"x", ' * 9_000, "if-modified-since": "Mon, " * 500},
    ):  # fmt: skip
        for path in ("/v1/traces", "/dashboard/", "/v1/models"):
            await target.send("GET", path, headers=headers)


@attack
async def hostile_conversations(target):
    """Conversations that the proxy's own reading finds hard: circles, calls, parts and schemas without end."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps({"x": "y" * 2_000})}}  # fmt: skip
    conversations = [
        [{"role": "assistant", "tool_calls": [call] * 50}, {"role": "tool", "tool_call_id": "c", "content": "failed"}] * 200,
        [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "I go on"}] * 20_000,
        [{"role": "assistant", "content": "", "tool_calls": [{"id": f"c{n}", "type": "function", "function": {"name": f"f{n % 7}", "arguments": "{" * n}}]} for n in range(3_000)],
        [{"role": "user", "content": [{"type": "text", "text": "x"}] * 100_000}],
        [{"role": "user", "content": nested(900)}],
        [{"role": "tool", "tool_call_id": "c", "content": "\u0327\u0301" * 1_000_000}],
        [{"role": "user", "content": "ab" * 2_000_000}],
        [{"role": "user", "content": "Traceback (most recent call last):\n" * 100_000}],
        [{"role": "x" * 1_000_000, "content": {"a": {"b": 1}}}],
    ]  # fmt: skip
    tools = [{"type": "function", "function": {"name": f"f{n}", "parameters": nested(50)}} for n in range(2_000)]  # fmt: skip
    for messages in conversations:
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions"):
            fields = {"model": "shape-4", "messages": messages, "input": messages, "prompt": [[1] * 1_000] * 10, "tools": tools, "max_tokens": 10**9}  # fmt: skip
            headers = {"x-millgate-context": "on", "x-millgate-budget": "1000"}
            await target.send("POST", path, content=json.dumps(fields).encode(), headers=headers)


@attack
async def hostile_hooks(target):
    """Prompts of hooks, strategies, sessions and resumed spends with the longest values that their fields take."""
    long = "\u0300\u0323" * 500_000
    for path, body in (
        ("/v1/hooks/prompt", {"prompt": long, "cwd": long, "session_id": long}),
        ("/v1/hooks/prompt?budget=9999999999999999999", {"prompt": "refunds"}),
        ("/v1/hooks/prompt?collection=" + "x" * 1025, {"prompt": "refunds"}),
        ("/v1/strategy", {"query": long}),
        ("/v1/strategy", {"query": "compare", "available_tools": ["x" * 100] * 50_000}),
        ("/v1/strategy", {"query": "read " * 19_000, "char_count": 10**12, "used_tokens": 10**12}),
        ("/v1/sessions/resume", {"name": long, "scope": "session"}),
        ("/v1/context", {"query": "refunds", "task": long, "session": long, "cwd": long}),
        ("/v1/context", {"query": "refunds", "collection": [f"c{n}" for n in range(100)]}),
        ("/v1/context", {"query": "refunds", "budget": 10_000_000, "k": 10_000, "include_report": True, "debug": True}),
        ("/v1/context", {"query": "refunds", "window": {"version": nested(900)}}),
        ("/v1/context", {"query": "(" * 50_000 + ")" * 50_000}),
        ("/v1/context", {"query": '"' * 100_000}),
        ("/v1/context", {"query": "a-" * 50_000}),
        ("/v1/context", {"query": "?" * 100_000}),
    ):  # fmt: skip
        await target.send("POST", path, content=json.dumps(body).encode())


@attack
async def many_turns(target):
    """A chat log of a million turns of one letter, and rows by the thousand that each hold many."""
    await target.post("/v1/documents", {"documents": [{"id": "log", "text": "User: x\n" * 1_000_000}], "collection": "logs"}, target.write)  # fmt: skip
    rows = [{"id": f"log{n}", "text": "User: y\n" * 4_000} for n in range(50)]
    await target.post("/v1/documents", {"documents": rows, "collection": "logs"}, target.write)


@attack
async def long_documents(target):
    """A document of very many chunks, and every way to read it, many times at once."""
    await target.post("/v1/documents", {"documents": [{"id": "log", "text": "User: x\n" * 40_000}], "collection": "long"}, target.write)  # fmt: skip
    read = {"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "millgate://documents/long/log"}}  # fmt: skip
    paths = ("/v1/documents/log?collection=long",)  # fmt: skip
    await asyncio.gather(
        *(target.send("GET", path, key=target.write) for path in paths for _ in range(12)),
        *(target.send("POST", "/mcp", content=json.dumps(read).encode()) for _ in range(12)),
    )


@attack
async def long_feedback(target):
    """A fact whose notes, category and tags go on without end, and its readers."""
    made = await target.post("/v1/facts", {"content": "The ferry leaves at nine."}, target.write)
    path = f"/v1/facts/{made.json()['fact']['id']}"
    for n in range(6):
        await target.post(f"{path}/feedback", {"helpful": bool(n % 2), "note": "x" * 5_000_000}, target.write)  # fmt: skip
    for change in ({"category": "c" * 5_000_000}, {"tags": ["t" * 500_000] * 10}, {"tags": ["t"] * 50_000}):  # fmt: skip
        await target.send("PATCH", path, key=target.write, content=json.dumps(change).encode())
    await asyncio.gather(*(target.get(path) for _ in range(12)))


@attack
async def short_messages(target):
    """Conversations of very many very short messages, each another one, as an agent would send them again and again."""
    for n in range(12):
        messages = [{"role": "user", "content": f"{n}"}, {"role": "assistant", "content": f"{n}!"}] * 25_000  # fmt: skip
        body = {"model": "shape-4", "messages": messages}
        await target.send("POST", "/v1/chat/completions", content=json.dumps(body).encode())


@attack
async def expanding_names(target):
    """Letters that become eighteen, and half letters, wherever a name, a tag, a question or a header is read."""
    for text in (
        "\ufdfa" * 5_000,
        "\u1e9b\u0323" * 5_000,
        "\ud83d" * 5_000,
        "\u0390" * 5_000,
        "\u3300" * 5_000,
    ):
        for path, body in (
            (
                "/v1/context",
                {
                    "query": text * 4,
                    "session": text[:500],
                    "task": text[:500],
                    "collection": text[:500],
                },
            ),
            ("/v1/context", {"query": "refunds", "current_window_blocks": [text] * 400}),
            ("/v1/facts", {"content": text, "tags": [text[:100]] * 20, "category": text[:100]}),
            (
                "/v1/turns",
                {
                    "session": text[:500],
                    "messages": [{"role": "user", "name": text[:500], "content": text}] * 100,
                },
            ),
            (
                "/v1/graph/edges",
                {
                    "edges": [{"source": text[:500], "predicate": text[:200], "target": text[:500]}]
                    * 200
                },
            ),
            (
                "/v1/documents",
                {
                    "documents": [
                        {
                            "id": text[:500],
                            "title": text[:400],
                            "text": text * 20,
                            "metadata": {text[:100]: text[:500]},
                        }
                    ]
                },
            ),
            ("/v1/strategy", {"query": text * 4}),
            ("/v1/hooks/prompt", {"prompt": text * 4}),
        ):
            await target.post(path, body, target.write)
