"""Crowds: what one request may take, asked for many times at once; and bodies that are begun and never completed."""

import asyncio
import json
import time
from contextlib import suppress

from bench.attacks.target import attack
from bench.attacks.windows import LONGEST, dense_text

AT_ONCE = 24  # far below the requests that one key may have under way


async def together(target, path, body, *, times=AT_ONCE, key=None):
    """The same body from one caller, `times` times at once."""
    await asyncio.gather(*(target.send("POST", path, content=body, key=key) for _ in range(times)))


@attack
async def unfinished_bodies(target):
    """Large bodies that all stop a byte before their end, to every kind of route."""
    paths = ("/v1/context", "/v1/chat/completions", "/mcp", "/v1/embeddings")
    held = [await asyncio.open_connection(target.host, target.port) for _ in range(AT_ONCE)]
    size = 30 << 20

    async def begin(n, writer):
        path = paths[n % len(paths)]
        key = f"authorization: Bearer {target.read}\r\ncontent-type: application/json\r\n"
        with suppress(OSError):
            writer.write(f"POST {path} HTTP/1.1\r\nhost: localhost\r\n{key}content-length: {size + 1}\r\n\r\n".encode())  # fmt: skip
            for _ in range(size >> 20):
                writer.write(b" " * (1 << 20))
                await writer.drain()

    async with asyncio.timeout(target.seconds + 20):
        with suppress(TimeoutError):
            await asyncio.wait_for(
                asyncio.gather(*(begin(n, w) for n, (_, w) in enumerate(held))), target.seconds
            )
    await asyncio.sleep(1)
    for _, writer in held:
        writer.close()


@attack
async def windows_at_once(target):
    """The densest window that is allowed, from many requests at once."""
    body = f'{{"query": "refunds", "current_window_text": "{dense_text(LONGEST)}"}}'.encode()
    await together(target, "/v1/context", body, times=8)


@attack
async def fingerprints_at_once(target):
    """The widest fingerprints, from many requests at once."""
    body = json.dumps({"current_window_text": dense_text(2_000_000)}, ensure_ascii=False).encode()
    await together(target, "/v1/fingerprint", body, times=8)


@attack
async def values_at_once(target):
    """Bodies of an ordinary size whose values take thirty times their bytes, many at once."""
    blocks = b"[" + b"{}," * 80_000 + b"{}]"
    await together(target, "/v1/context", b'{"query": "refunds", "current_window_blocks": %b}' % blocks)  # fmt: skip
    await together(target, "/v1/turns", b'{"session": "s", "messages": [%b]}' % b",".join([b"{}"] * 9_999), key=target.write)  # fmt: skip
    await together(target, "/v1/chat/completions", b'{"model": "crumbs", "stream": true, "messages": %b}' % blocks)  # fmt: skip


@attack
async def wrong_values_at_once(target):
    """Bodies of an ordinary size with wrong values or unknown fields; naming each of them would take seconds."""
    await together(target, "/v1/context", b'{"query": "refunds", "current_window_blocks": [%b]}' % b",".join([b"1"] * 480_000))  # fmt: skip
    fields = b",".join(b'"k%d":0' % n for n in range(90_000))
    await together(target, "/v1/context", b'{"query": "refunds", %b}' % fields)


@attack
async def long_answers_at_once(target):
    """Upstream answers as long as they may be, many at once."""
    await asyncio.gather(*(target.chat("long") for _ in range(6)), *(target.chat("swelling-stream", stream=True) for _ in range(6)))  # fmt: skip


@attack
async def documents_at_once(target):
    """Large documents of every kind that a chunker can find hard, many at once."""
    texts = (
        "a" * 2_000_000, "# " * 500_000, "|" * 1_000_000, "```\n" * 300_000, "- " * 700_000, "> " * 700_000, "\n" * 2_000_000 + "x",
        "<ref>" * 300_000, "def f():\n" + "  " * 700_000, "User: x\n" * 150_000, "1. " * 500_000, "[1] " * 300_000, dense_text(700_000), "\u0300" * 700_000, "0." * 700_000,
    )  # fmt: skip
    await asyncio.gather(*(
        target.post("/v1/documents", {"documents": [{"id": f"hard{n}", "text": text}], "collection": "hard"}, target.write)
        for n, text in enumerate(texts)
    ))  # fmt: skip
    await target.post("/v1/context", {"query": "refunds and hard things", "collection": "hard"})


@attack
async def facts_at_once(target):
    """Facts by the thousand that nearly say the same, and every question about all of them."""
    until = target.until
    n = 0
    while time.monotonic() < until:
        await asyncio.gather(*(target.post("/v1/facts", {"content": f"The ferry number {n + i} leaves at {i} o'clock " + "from the harbor " * 50, "tags": [f"t{i}"] * 50}, target.write) for i in range(20)))  # fmt: skip
        n += 20
    await asyncio.gather(
        target.post("/v1/facts/merge", {}, target.write),
        target.send("GET", "/v1/facts", params={"query": "ferry " * 1_600, "limit": 1000}),
        target.post("/v1/facts", {"content": "ferry " * 1_000_000}, target.write),
        target.post("/v1/facts", {"content": "a ferry", "tags": ["x" * 1000] * 20_000}, target.write),
        target.post("/v1/facts", {"content": "b ferry", "category": "\u0300" * 1_000_000}, target.write),
    )  # fmt: skip
