"""Fields without end: folders, sessions, limits, questions that take long, bodies where none belong."""

import asyncio

import httpx2
from bench.attacks.target import attack

INJECTED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


@attack
async def deep_folders(target):
    """Folders of 20 000 levels, each of which would be looked for on the disk; the tenant has knowledge edges."""
    edge = {"source": "parcels", "predicate": "uses", "target": "rail"}
    await target.post("/v1/graph/edges", {"edges": [edge]}, target.write)
    deep = "/a" * 20_000
    asked = [target.post("/v1/context", {"query": "how do parcels ship?", "cwd": deep}) for _ in range(16)]  # fmt: skip
    hooks = [target.post("/v1/hooks/prompt", {"prompt": "how do parcels ship?", "cwd": "/a" * 2_000}) for _ in range(16)]  # fmt: skip
    await asyncio.gather(*asked, *hooks)


@attack
async def long_sessions(target):
    """Names of sessions of 8 MB, and lists of the requests that had them."""
    for _ in range(8):
        answer = await target.post("/v1/context", {"query": "refunds", "session": "s" * 8_000_000})
        if answer.status_code == 200:
            target.won.append("a session without limit was stored")
    await asyncio.gather(*(target.get("/v1/traces?limit=1000") for _ in range(4)))


@attack
async def long_names_everywhere(target):
    """Every other field of a body, a header and a path that a reader can send, a megabyte long."""
    long = "n" * 1_000_000
    for name in ("task", "collection", "detail", "order"):
        await target.post("/v1/context", {"query": "refunds", name: long})
    await target.post("/v1/strategy", {"query": "x", "available_tools": [long] * 20})
    await target.chat(long)
    await target.send("POST", "/v1/embeddings", content=b'{"model": "%b"}' % long.encode())
    for header in ("x-millgate-session", "x-millgate-collection", "session-id"):
        await target.send("POST", "/v1/chat/completions", headers={header: "h" * 60_000}, content=b'{"model": "shape-4", "messages": []}')  # fmt: skip
    for path in ("traces", "documents", "sessions", "facts"):
        await target.send("GET", f"/v1/{path}/{'p' * 60_000}")


@attack
async def costly_whys(target):
    """Twelve times at once: which change would have let a chunk in, for a question of 45 words."""
    query = " ".join(f"refunds of kind {n}" for n in range(15))
    asked = await target.post("/v1/context", {"query": query, "budget": 200, "include_report": True})  # fmt: skip
    trace = asked.json()["trace"]
    evicted = [id for ids in asked.json()["report"]["evicted_by"].values() for id in ids][:12]
    await asyncio.gather(*(target.get(f"/v1/traces/{trace}/why/{id}") for id in evicted))


@attack
async def bodies_where_none_belong(target):
    """A second request in the body of one that has none, to an upstream that may not read it."""
    for method in ("GET", "HEAD", "DELETE", "OPTIONS"):
        for path in ("/v1/models", "/v1/files/x"):
            await target.send(method, path, content=INJECTED)


@attack
async def absurd_limits(target):
    """Limits of tokens and numbers of answers that would hold all that others may spend."""
    for limit in (-(10**9), 10**15, True, "many", -1, 0.5):
        await target.chat("shape-4", max_tokens=limit)
        await target.chat("shape-4", n=limit, max_tokens=10)


@attack
async def one_tenants_crowd(target):
    """As many contexts at once as one key may have under way, each with a wide question."""
    wide = " ".join(f"refund{n} kind{n}" for n in range(2_000))
    with_key = {"authorization": f"Bearer {target.read}"}
    async with httpx2.AsyncClient(base_url=target.url, timeout=90, limits=httpx2.Limits(max_connections=200)) as client:  # fmt: skip
        asked = (client.post("/v1/context", json={"query": f"{n} {wide}"}, headers=with_key) for n in range(120))  # fmt: skip
        target.statuses += [answer.status_code for answer in await asyncio.gather(*asked)]
