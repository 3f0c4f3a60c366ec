"""Attack a live service, class by class, and see that it stays up: others are served, and memory stays where it was.

    python bench/attacks.py [--only NAME] [--seconds 5]

A hostile client, a reader, a writer and a hostile upstream each do their worst for some seconds, while a second client asks
/healthz ten times a second. It fails where /healthz took longer than a second or failed, where the service holds over 100 MB
more than before the attack, where it answered 500, or where an attack got what it wanted.
"""

import argparse
import asyncio
import gzip
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

import httpx2
from workload import serve, status

from headgate.gateway import Headgate

HEALTH_S, MEMORY_MB = 1.0, 100.0
MARKS = "".join(map(chr, (0x0F74, 0x0327, 0x05B0, 0x0301)))  # of different combining classes
ATTACKS = {}


def attack(function):
    ATTACKS[function.__name__] = function
    return function


class Target:
    """The service under attack: its address, the keys that the attackers hold, and what the hostile upstream does."""

    def __init__(self, url, read, write, seconds):
        self.url, self.read, self.write, self.seconds = url, read, write, seconds
        self.host, self.port = "127.0.0.1", int(url.rsplit(":", 1)[1])
        self.statuses, self.won = [], []

    @property
    def until(self):
        return time.monotonic() + self.seconds

    async def post(self, path, body, key=None, **options):
        headers = {"authorization": f"Bearer {key or self.read}"}
        async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
            answer = await client.post(path, json=body, headers=headers, **options)
        self.statuses.append(answer.status_code)
        return answer

    async def get(self, path, key=None):
        headers = {"authorization": f"Bearer {key or self.read}"}
        async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
            answer = await client.get(path, headers=headers)
        self.statuses.append(answer.status_code)
        return answer

    async def send(self, method, path, *, key=None, headers=None, **options):
        """One request as it is, whatever it is; None where it cannot even be sent."""
        sent = {"authorization": f"Bearer {key or self.read}", "content-type": "application/json", "accept": "application/json, text/event-stream"}  # fmt: skip
        try:
            async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
                answer = await client.request(method, path, headers={**sent, **(headers or {})}, **options)  # fmt: skip
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
            return None
        self.statuses.append(answer.status_code)
        return answer

    async def flood(self, head, piece):
        """Send a head and then pieces until the service hangs up or the time is over."""
        until = self.until
        _, writer = await asyncio.open_connection(self.host, self.port)
        try:
            writer.write(head)
            while time.monotonic() < until:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except OSError:
            pass  # hung up, as it should
        finally:
            writer.close()

    async def chat(self, model, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}], **fields}
        try:
            return await self.post("/v1/chat/completions", body)
        except httpx2.HTTPError as error:
            return error


@attack
async def combining_marks(target):
    """A window of marks whose canonical order takes quadratic time."""
    body = {"query": "refunds", "current_window_text": MARKS * 250_000}
    await target.post("/v1/context", body)


@attack
async def expanding_letters(target):
    """A letter that compatibility forms make eighteen times as long."""
    await target.post(
        "/v1/context", {"query": "refunds", "current_window_text": "\ufdfa" * 2_000_000}
    )


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
async def large_windows(target):
    """Windows of ten megabytes that would all be stored, and lists that would read them."""
    window = "the window says nothing new " * 350_000
    for n in range(6):
        await target.post("/v1/context", {"query": f"refunds {n}", "current_window_text": window})
    await asyncio.gather(*(target.get("/v1/traces?limit=1000") for _ in range(6)))


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
async def guessed_keys(target):
    """Keys by the thousand."""
    until = target.until
    async with httpx2.AsyncClient(base_url=target.url, timeout=30) as client:
        n = 0
        while time.monotonic() < until:
            n += 1
            headers = {"authorization": f"Bearer hg_{n:043d}"}
            answer = await client.get("/v1/documents", headers=headers)
            target.statuses.append(answer.status_code)
            if answer.status_code == 200:
                target.won.append("a guessed key opened")


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
async def distinct_windows(target):
    """Windows in which no word comes twice, each of them remembered."""
    for n in range(8):
        window = " ".join(f"{n}{m:x}" for m in range(1_000_000))
        await target.post("/v1/context", {"query": "refunds", "current_window_text": window})
    await target.post("/v1/context", {"query": "refunds", "current_window_text": dense_text(10_000_000)})  # fmt: skip


@attack
async def strange_numbers(target):
    """Numbers that no column, no counter and no sum can hold, wherever a number is read."""
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
    """Ids, titles, sessions, tags and collections that lead elsewhere, split lines, or are no text at all."""
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
        headers = {f"x-headgate-{of}": printable for of in ("collection", "session", "upstream", "budget", "k", "guard", "circles")}  # fmt: skip
        await target.send("POST", "/v1/chat/completions", headers={**headers, "x-request-id": printable}, content=b'{"model": "shape-4", "messages": []}')  # fmt: skip


@attack
async def many_names(target):
    """A reader who asks for ever new collections, sessions and conversations."""
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
async def hostile_fingerprints(target):
    """Fingerprints of windows that nobody had."""
    made = (await target.post("/v1/fingerprint", {"current_window_text": "one two three " * 400})).json()  # fmt: skip
    wild = [
        {**made, "spans": made["spans"] * 20_000},
        {**made, "spans": [{**made["spans"][0], "token_count": 2**62}] * 100},
        {**made, "global_simhash64": "f" * 10**6},
        {**made, "global_minhash128": [2**64] * 128},
        {**made, "sketch": {**made["sketch"], "threes": {**made["sketch"]["threes"], "bits": 64}}},
        {**made, "sketch": dict.fromkeys(made["sketch"], "A" * 10**7)},
        {**made, "version": 10**18},
    ]
    for fingerprint in wild:
        body = {"query": "refunds", "current_window_fingerprint": fingerprint}
        await target.post("/v1/context", body)


@attack
async def slow_bodies(target):
    """Bodies that come a byte at a time, from a reader and from nobody."""
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
async def heavy_replays(target):
    """A trace whose every question is asked at once, under settings that make it dear."""
    asked = await target.post("/v1/context", {"query": " ".join(f"refund{n}" for n in range(5_000))})  # fmt: skip
    trace = asked.json()["request_id"]
    wide = {"retrieve.k": "20000", "gate.order": ["x"] * 1000, "graph.max_results": 1e7, "penalize.weight": "nan"}  # fmt: skip
    changes = [{name: value} for name, value in wide.items()]
    await asyncio.gather(
        *(target.get(f"/v1/traces/{trace}/why") for _ in range(4)),
        *(target.post(f"/v1/traces/{trace}/replay", {"settings": change}) for change in changes),
    )


@attack
async def upstream_bombs(target):
    """An upstream whose small answers become a gigabyte."""
    await asyncio.gather(*(target.chat("bomb") for _ in range(4)), target.chat("bomb-stream", stream=True))  # fmt: skip


@attack
async def upstream_long_answers(target):
    """An upstream whose answers are as long as they may be, without a loop and with one."""
    await asyncio.gather(target.chat("long"), target.chat("loop"))


@attack
async def upstream_floods(target):
    """An upstream that sends trailers, or informational answers, without end."""
    await asyncio.gather(target.chat("trailers"), target.chat("informational"), target.chat("endless-head"))  # fmt: skip


@attack
async def upstream_swelling(target):
    """An upstream whose answers, or single events, hold millions of values."""
    await asyncio.gather(target.chat("swelling"), target.chat("swelling"), target.chat("swelling-stream", stream=True))  # fmt: skip


@attack
async def upstream_crumbs(target):
    """An upstream that sends a stream of nothing: crumbs, empty events, comments, lines without an end."""
    await asyncio.gather(*(target.chat(name, stream=True) for name in ("crumbs", "comments", "blank", "one-line", "wild-index")))  # fmt: skip


@attack
async def upstream_shapes(target):
    """An upstream whose answers have any shape but the right one."""
    for n in range(len(SHAPES)):
        await target.chat(f"shape-{n}")


BOMB = gzip.compress(b'{"x": "' + b"0" * (256 << 20) + b'"}', 9)
WILD = b"".join(
    b'data: {"choices": [{"index": %d, "delta": {"tool_calls": [{"index": %d, "id": "%d", "function": {"name": "f", "arguments": "{"}}]}}]}\n\n' % (n, 10**15 + n, n)
    for n in range(200)
)  # fmt: skip
STRANGE_NAMES = [
    "../../etc/passwd", "..\\..", "/", ".", "a\0b", "a\r\nset-cookie: x=1", "\u202egpj.exe", "\ud800", "con", "%2e%2e", "'; DROP TABLE chunks; --",
    "<script>alert(1)</script>", "{{7*7}}", "%s%n", "a" * 1024, "a" * 100_000, "\u0300" * 1_000, "\x1b]0;x\x07", " ", "", "https://evil.test/", "::", "\ufdfa" * 1_000, "[" + "9" * 6_000 + "] x",
]  # fmt: skip
SHAPES = [
    "null", "[]", "1", '"x"', "{}", '{"choices": 1}', '{"choices": [1]}', '{"choices": [{"message": 1}]}',
    '{"choices": [{"message": {"content": 5}}]}', '{"usage": "x", "choices": []}', '{"choices": [{"message": {"tool_calls": 7}}]}',
]  # fmt: skip


async def answer_badly(reader, writer, until):
    """The hostile upstream: the model's name says what it does."""
    length, body = 0, b""
    while (line := await reader.readline()).strip():
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    body = await reader.readexactly(length)
    first, piece = answer_of(json.loads(body or b"{}").get("model", ""))
    with suppress(OSError):
        writer.write(first)
        while piece and time.monotonic() < until():
            writer.write(piece)
            await writer.drain()
        await writer.drain()
    writer.close()


def answer_of(model):
    """What is sent first, and what is then sent without end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    said = {"long": " ".join(map(str, range(1_000_000))), "loop": "and so on, " * 650_000}
    event = b'data: {"choices":[{"delta":{"content":"word "}}]}\n\n'
    if model.startswith("shape-"):
        return whole(head, SHAPES[int(model[6:])].encode()), b""
    if model in said:
        answer = {"choices": [{"message": {"role": "assistant", "content": said[model]}}]}
        return whole(head, json.dumps(answer).encode()), b""
    return {
        "bomb": (whole(head + b"content-encoding: gzip\r\n", BOMB), b""),
        "bomb-stream": (stream + b"content-encoding: gzip\r\n\r\n" + chunk(BOMB) + b"0\r\n\r\n", b""),
        "trailers": (head + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"a:b\r\n" * 5_000),
        "informational": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1_000),
        "endless-head": (head, b"a:b\r\n" * 5_000),
        "swelling": (whole(head, b"[" + b"[]," * 2_500_000 + b"0]"), b""),
        "swelling-stream": (stream + b"\r\n" + chunk(b'data: {"choices": [' + b"[]," * 5_000_000 + b"0]}\n\n"), b""),
        "crumbs": (stream + b"\r\n" + chunk(b"data: "), chunk(b"x") * 5_000),
        "comments": (stream + b"\r\n", chunk(b": on\n\n" * 5_000)),
        "blank": (stream + b"\r\n", chunk(b"\r\n" * 5_000)),
        "one-line": (stream + b"\r\n" + chunk(b"data: "), chunk(b"\r" * 5_000)),
        "wild-index": (stream + b"\r\n", chunk(WILD)),
        "stream": (stream + b"\r\n", chunk(event * 200)),
    }[model]  # fmt: skip


def dense_text(length):
    """Ideographs by chance: every one a token, and no five of them twice."""
    rng = random.Random(1)
    return "".join(map(chr, rng.choices(range(0x4E00, 0x9F00), k=length)))


def whole(head, body):
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


def chunk(data):
    return b"%x\r\n" % len(data) + data + b"\r\n"


WATCHER = """
import http.client, sys, time
worst, port = 0.0, int(sys.argv[1])
while True:
    began = time.perf_counter()
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        link.request("GET", "/healthz")
        good = link.getresponse().status == 200
        link.close()
    except OSError:
        good = False
    print(time.perf_counter() - began if good else 999.0, flush=True)
    time.sleep(0.1)
"""


@contextmanager
def watched_health(port, found):
    """Ask /healthz again and again, from a process of its own, over a new connection each time; the seconds it took."""
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCHER, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield
    finally:
        watcher.terminate()
        found += [float(line) for line in watcher.communicate()[0].splitlines()]


async def run(name, target, pid):
    """One attack; what was wrong."""
    before, seconds, peak = status(pid, "VmRSS") / 1024, [], []
    target.statuses, target.won = [], []

    async def watch_memory():
        while True:
            peak.append(status(pid, "VmRSS") / 1024)
            await asyncio.sleep(0.05)

    memory = asyncio.ensure_future(watch_memory())
    with watched_health(target.port, seconds):
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await ATTACKS[name](target)
        took = time.perf_counter() - began
        await asyncio.sleep(0.5)
    memory.cancel()
    grown, slowest = max(peak) - before, max(seconds)
    codes = sorted(set(target.statuses))
    print(f"{name:20} {took:6.1f} s   /healthz {slowest:6.2f} s of {len(seconds):3}   memory {grown:+7.1f} MB   {codes}", flush=True)  # fmt: skip
    wrong = list(target.won)
    wrong += [f"{name}: /healthz took {slowest:.2f} s"] if slowest > HEALTH_S else []
    wrong += [f"{name}: {grown:.0f} MB more"] if grown > MEMORY_MB else []
    wrong += [f"{name}: answered 500"] if 500 in codes else []
    return wrong


async def attack_all(names, seconds):
    upstream = await asyncio.start_server(
        lambda r, w: answer_badly(r, w, lambda: began[0] + seconds), "127.0.0.1", 0
    )
    began = [time.monotonic()]
    port = upstream.sockets[0].getsockname()[1]
    folder = Path(tempfile.mkdtemp()) / "kb"
    with Headgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": f"Refunds of kind {n} are paid within {n} days."} for n in range(200)])  # fmt: skip
        read = gate.keys.create(scopes=("read",)).token
        write = gate.keys.create(scopes=("read", "write")).token
    upstreams = {"hostile": {"url": f"http://127.0.0.1:{port}/v1", "idle_s": 5, "answer_s": 20}}
    server, url = serve(folder, HEADGATE_PROXY__UPSTREAMS=json.dumps(upstreams))
    target = Target(url, read, write, seconds)
    wrong = []
    try:
        await target.post("/v1/context", {"query": "refunds"})
        for name in names:
            began[0] = time.monotonic()
            wrong += await run(name, target, server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        upstream.close()
        shutil.rmtree(folder.parent)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(ATTACKS))
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    wrong = asyncio.run(attack_all(args.only or list(ATTACKS), args.seconds))
    print("every attack failed" if not wrong else "\n".join(["SOMETHING GOT THROUGH", *wrong]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
