"""Connections: heads, trailers, pipelines and bodies without end, other protocols, clients that never read."""

import asyncio
import json
import time
from contextlib import suppress

from bench.attacks.target import attack
from bench.attacks.upstreams import BOMB


@attack
async def endless_heads(target):
    """Headers without end, one header without end, an address without end."""
    head = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
    await asyncio.gather(
        target.flood(head, b"a:b\r\n" * 10_000),
        target.flood(head + b"x: ", b"y" * 50_000),
        target.flood(b"GET /", b"y" * 50_000),
    )


@attack
async def endless_trailers(target):
    """Trailers without end behind a body in pieces."""
    head = (
        b"POST /v1/context HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    )
    await target.flood(head, b"a:b\r\n" * 10_000)


@attack
async def pipelines(target):
    """Requests one after the other without reading an answer."""
    await target.flood(b"", b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n" * 1_000)


@attack
async def half_heads(target):
    """Two hundred connections that never finish their head."""
    held = [await asyncio.open_connection(target.host, target.port) for _ in range(200)]
    for _, writer in held:
        writer.write(b"GET /healthz HTTP/1.1\r\nhost:")
    await asyncio.sleep(target.seconds)
    for _, writer in held:
        writer.close()


@attack
async def other_hosts(target):
    """Addresses that would lead the held key elsewhere."""
    for path in (
        "/v1%2F@evil.test/x",
        "/v1/..;/x",
        "/v1/%252e%252e/x",
        "/v1\\evil",
        "//evil.test/v1/x",
    ):
        _, writer = await asyncio.open_connection(target.host, target.port)
        key = f"authorization: Bearer {target.read}\r\n".encode()
        writer.write(b"POST " + path.encode() + b" HTTP/1.1\r\nhost: localhost\r\n" + key + b"content-length: 0\r\n\r\n")  # fmt: skip
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()


@attack
async def slow_bodies(target):
    """Bodies that come a byte at a time, from a reader and without a key."""
    keys = (f"authorization: Bearer {target.read}\r\n", "")
    held = [await asyncio.open_connection(target.host, target.port) for _ in range(100)]
    for n, (_, writer) in enumerate(held):
        writer.write(f"POST /v1/context HTTP/1.1\r\nhost: localhost\r\n{keys[n % 2]}content-length: 1000000\r\n\r\n".encode())  # fmt: skip
    until = target.until
    while time.monotonic() < until:
        for _, writer in held:
            with suppress(OSError):
                writer.write(b"[")
        await asyncio.sleep(0.2)
    for _, writer in held:
        writer.close()


@attack
async def other_protocols(target):
    """Upgrades, packed bodies, odd methods and lengths."""
    key = f"authorization: Bearer {target.read}\r\n"
    for head, body in (
        ("GET /v1/context HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n", b""),
        ("GET / HTTP/1.1\r\nupgrade: h2c\r\nconnection: upgrade, http2-settings\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n", b""),
        ("PRI * HTTP/2.0\r\n", b"SM\r\n\r\n" + b"\0" * 1000),
        ("POST /v1/context HTTP/1.1\r\ncontent-encoding: gzip\r\ncontent-type: application/json\r\n", BOMB),
        ("POST /v1/chat/completions HTTP/1.1\r\ncontent-encoding: gzip\r\ncontent-type: application/json\r\n", BOMB),
        ("POST /mcp HTTP/1.1\r\ncontent-encoding: gzip\r\ncontent-type: application/json\r\n", BOMB),
        ("TRACE /v1/context HTTP/1.1\r\n", b""),
        ("CONNECT evil.test:443 HTTP/1.1\r\n", b""),
        ("POST http://evil.test/v1/chat/completions HTTP/1.1\r\n", b"{}"),
        ("POST /v1/context HTTP/1.1\r\nexpect: 100-continue\r\n", b""),
        ("GET /v1/traces HTTP/1.1\r\nrange: bytes=" + ",".join(["0-"] * 1_000) + "\r\n", b""),
        ("POST /dashboard/sign-in HTTP/1.1\r\ncontent-type: multipart/form-data; boundary=x\r\n", b"--x\r\n" * 100_000),
        ("POST /dashboard/sign-in HTTP/1.1\r\ncontent-type: application/x-www-form-urlencoded\r\n", b"a=1&" * 200_000),
    ):  # fmt: skip
        reader, writer = await asyncio.open_connection(target.host, target.port)
        with suppress(OSError, TimeoutError):
            writer.write(f"{head}host: localhost\r\n{key}content-length: {len(body)}\r\n\r\n".encode() + body)  # fmt: skip
            async with asyncio.timeout(5):
                first = await reader.readline()
            if first[9:12].isdigit():
                target.statuses.append(int(first[9:12]))
        writer.close()


@attack
async def unread_streams(target):
    """Clients that ask for a stream and never read it."""
    body = json.dumps({"model": "stream", "stream": True, "messages": [{"role": "user", "content": "x"}]}).encode()  # fmt: skip
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {target.read}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"  # fmt: skip
    held = [await asyncio.open_connection(target.host, target.port, limit=1) for _ in range(8)]
    for _, writer in held:
        writer.write(head.encode() + body)
    await asyncio.sleep(target.seconds)
    for _, writer in held:
        writer.close()


@attack
async def unread_answers(target):
    """Clients that ask for a large document and never read it."""
    text = "Refunds are paid within days, as a rule. " * 100_000
    await target.post("/v1/documents", {"documents": [{"id": "large", "text": text}], "collection": "large"}, target.write)  # fmt: skip
    head = f"GET /v1/documents/large?collection=large HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {target.read}\r\n\r\n"  # fmt: skip
    held = [await asyncio.open_connection(target.host, target.port, limit=1) for _ in range(60)]
    for _, writer in held:
        writer.write(head.encode())
    await asyncio.sleep(target.seconds)
    for _, writer in held:
        writer.close()
