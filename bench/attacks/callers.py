"""Requests of readers and writers: strange shapes, names and numbers, floods, dense graphs, costly replays."""

import asyncio
import itertools
import time
from urllib.parse import quote

import httpx2
from bench.attacks.target import attack

STRANGE_NAMES = [
    "../../etc/passwd", "..\\..", "/", ".", "a\0b", "a\r\nset-cookie: x=1", "\u202egpj.exe", "\ud800", "con", "%2e%2e", "'; DROP TABLE chunks; --",
    "<script>alert(1)</script>", "{{7*7}}", "%s%n", "a" * 1024, "a" * 100_000, "\u0300" * 1_000, "\x1b]0;x\x07", " ", "", "https://evil.test/", "::", "\ufdfa" * 1_000, "[" + "9" * 6_000 + "] x",
]  # fmt: skip


@attack
async def long_titles(target):
    """Titles and metadata that would be stored with every chunk."""
    text = "Refunds are paid. " * 20_000
    for more in ({"title": "<" + " " * 30_000}, {"metadata": {"m": "x" * 10**6}}):
        row = {"id": "big", "text": text, **more}
        answer = await target.post("/v1/documents", {"documents": [row]}, target.write)
        if answer.status_code < 400:
            target.won.append("a title or metadata without limit was stored")


@attack
async def guessed_keys(target):
    """Keys by the thousand, from the address of somebody who has a good one."""
    until, numbers = target.until, itertools.count()

    async def guess(client):
        while time.monotonic() < until:
            headers = {"authorization": f"Bearer mg_{next(numbers):043d}"}
            answer = await client.get("/v1/documents", headers=headers)
            target.statuses.append(answer.status_code)
            if answer.status_code == 200:
                target.won.append("a guessed key opened")

    async with httpx2.AsyncClient(base_url=target.url, timeout=30) as client:
        await asyncio.gather(*(guess(client) for _ in range(32)))
    if (await target.get("/v1/documents", target.unused)).status_code != 200:
        target.won.append("a good key was refused for the bad ones of others")


@attack
async def strange_bodies(target):
    """Bodies of every wrong shape."""
    deep = "[" * 100_000
    for body in (deep, '{"query": ' + "9" * 10_000 + "}", '{"query": NaN}', '{"query": "\\ud800"}', "{" * 10**6):  # fmt: skip
        async with httpx2.AsyncClient(base_url=target.url, timeout=60) as client:
            headers = {"authorization": f"Bearer {target.read}", "content-type": "application/json"}
            answer = await client.post("/v1/context", content=body, headers=headers)
            target.statuses.append(answer.status_code)


@attack
async def review_flood(target):
    """A reader who brings a question a request before the reviewers."""
    for n in range(100):
        query = f"I want to end my life because of number {n}"
        await target.post("/v1/context", {"query": query})


@attack
async def swelling_bodies(target):
    """JSON whose values take thirty times its bytes, to every parser that a reader can reach."""
    blocks = b"[" + b"[]," * 10_000_000 + b"0]"
    bodies = {
        "/v1/context": b'{"query": "refunds", "current_window_blocks": %b}' % blocks,
        "/v1/chat/completions": b'{"model": "shape-0", "messages": %b}' % blocks,
        "/v1/embeddings": b'{"model": "shape-0", "input": %b}' % blocks,
        "/mcp": b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": %b}' % blocks,
    }
    for path, body in bodies.items():
        await target.send("POST", path, content=body)


@attack
async def strange_numbers(target):
    """Numbers that no column, no counter and no sum can hold, in every field that is a number."""
    numbers = ("1e400", "-1e308", "1e308", "9223372036854775808", "-9223372036854775809", "0.1", "NaN", "9" * 5_000, "١٢")  # fmt: skip
    fields = ("max_tokens", "k_rag", "context_length", "used_tokens", "threshold_tokens", "min_trust")  # fmt: skip
    for number in numbers:
        for path in ("/v1/traces", "/v1/facts", "/v1/reviews", "/v1/sessions"):
            await target.send("GET", path, params={"limit": number, "offset": number, "after": number})  # fmt: skip
        await target.send("GET", "/v1/graph/paths", params={"start": "a", "max_hops": number})
        for field in fields:
            body = f'{{"query": "refunds", "{field}": {number}}}'
            await target.send("POST", "/v1/context", content=body.encode())
        fact = f'{{"content": "a fact", "trust": {number}}}'
        await target.send("POST", "/v1/facts", content=fact.encode(), key=target.write)
        turn = f'{{"session": "s", "messages": [{{"content": "hello", "time": {number}, "salience": {number}, "phase": {number}}}]}}'  # fmt: skip
        await target.send("POST", "/v1/turns", content=turn.encode(), key=target.write)
        edge = f'{{"edges": [{{"source": "a", "predicate": "uses", "target": "b", "weight": {number}}}]}}'  # fmt: skip
        await target.send("POST", "/v1/graph/edges", content=edge.encode(), key=target.write)


@attack
async def strange_names(target):
    """Ids, titles, sessions, tags and collections that lead elsewhere, split lines, or are not text."""
    for name in STRANGE_NAMES:
        row = {"id": name, "text": "Refunds are paid.", "title": name, "collection": name, "metadata": {name: name}}  # fmt: skip
        await target.post("/v1/documents", {"documents": [row]}, target.write)
        await target.post("/v1/facts", {"content": f"refunds {name}", "tags": [name]}, target.write)
        turns = {"session": name, "messages": [{"role": name, "name": name, "content": name}], "collection": name}  # fmt: skip
        await target.post("/v1/turns", turns, target.write)
        edges = {"edges": [{"source": name, "predicate": "uses", "target": name, "provenance": name}]}  # fmt: skip
        await target.post("/v1/graph/edges", edges, target.write)
        await target.post("/v1/context", {"query": name or "x", "collection": name, "session": name, "task": name})  # fmt: skip
        quoted = quote(name.encode("utf-8", "surrogatepass"), safe="")
        for path in ("documents", "facts", "traces", "reviews", "traces/x/why"):
            await target.send("GET", f"/v1/{path}/{quoted}", params={"collection": name})
        for path in ("requests", "store", "facts", "graph", "context", "static", "reviews"):
            await target.send("GET", f"/dashboard/{path}/{quoted}?collection={quoted}&q={quoted}&page={quoted}")  # fmt: skip
        printable = name.encode("latin-1", "replace").replace(b"\0", b"").replace(b"\r", b"").replace(b"\n", b"")  # fmt: skip
        headers = {f"x-millgate-{of}": printable for of in ("collection", "session", "upstream", "budget", "k", "guard", "circles")}  # fmt: skip
        await target.send("POST", "/v1/chat/completions", headers={**headers, "x-request-id": printable}, content=b'{"model": "shape-4", "messages": []}')  # fmt: skip


@attack
async def many_names(target):
    """A reader who keeps asking for new collections, sessions and conversations."""
    until, n = target.until, 0
    while time.monotonic() < until:
        n += 1
        await asyncio.gather(
            target.post("/v1/context", {"query": f"refunds {n}", "collection": f"none{n}"}),
            target.chat("shape-4", prompt_cache_key=f"s{n}"),
            target.send("GET", "/v1/documents/none", params={"collection": f"none{n}"}),
        )


@attack
async def dense_graphs(target):
    """A graph in which everything is linked with everything, and the widest questions about it."""
    names = [f"n{n}" for n in range(100)]
    edges = [{"source": a, "predicate": "uses", "target": b} for a in names for b in names]
    await target.post("/v1/graph/edges", {"edges": edges}, target.write)
    for start in names[:5]:
        params = {"start": start, "max_hops": 5, "max_results": 1000}
        await target.send("GET", "/v1/graph/paths", params=params)
    await target.post("/v1/context", {"query": " ".join(names), "include_graph": True})


@attack
async def heavy_replays(target):
    """A trace whose every question is asked at once, under settings that make it dear."""
    asked = await target.post("/v1/context", {"query": " ".join(f"refund{n}" for n in range(5_000))})  # fmt: skip
    trace = asked.json()["trace"]
    wide = {"retrieve.k": "20000", "gate.min_ratio": ["x"] * 1000, "graph.max_results": 1e7, "penalize.weight": "nan"}  # fmt: skip
    changes = [{name: value} for name, value in wide.items()]
    await asyncio.gather(
        *(target.get(f"/v1/traces/{trace}/why") for _ in range(4)),
        *(target.post(f"/v1/traces/{trace}/replay", {"settings": change}) for change in changes),
    )
