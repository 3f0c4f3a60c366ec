"""The service: CPU of a request over HTTP against the library, of MCP calls, and of the pages of the dashboard.

    make bench-service [ARGS="http --chunks 20000 --requests 600 --connections 16 --library 60"]      3 minutes
    make bench-service ARGS="mcp [--chunks 10000] [--data DIR]"                                       1 minute
    make bench-service ARGS="dashboard [--chunks 100000] [--traces 10000]"                            3 minutes

http: clients over plain sockets ask `millgate serve` for context, with a window of 8 000 tokens each. CPU is what the
system books to the server's process; the library's is measured before and after, on the same store, questions and
windows. Errors, times and the memory of the server are printed too.
mcp: a server over stdio is asked with questions about its store. Each call is timed at the client, so that transport,
JSON and schemas count; a question counts with its fastest of three calls. `ping` is what the protocol alone takes.
dashboard: CPU and size of each page with many traces and chunks, and what recording a window costs.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from urllib.request import urlopen

import httpx2
import orjson
from bench.fixtures import texts
from bench.fixtures.services import cpu_seconds, status
from mcp import Client, StdioServerParameters

from millgate.gateway import Millgate
from millgate.service.app import create
from millgate.service.observe.call_trace import call_trace, window_step
from millgate.service.observe.model_call import ModelCall
from millgate.settings import Settings

# Over HTTP

PARTS = ("ka", "mo", "ri", "tel", "sun", "ver", "pol", "dra", "fin", "gor", "lin", "mer", "dok", "sa", "vel",
         "nor", "pi", "zu", "chen", "bra", "qui", "stam", "lor", "net", "fex", "gul", "hom", "jad", "wex", "ost")  # fmt: skip
WORDS = [a + b + c for a in PARTS for b in PARTS for c in PARTS]
random.Random(0).shuffle(WORDS)
WEIGHTS = list(
    accumulate(1 / (rank + 10) for rank in range(len(WORDS)))
)  # as in language, by Zipf's law


def zipf_text(rng, words):
    chosen = rng.choices(WORDS, cum_weights=WEIGHTS, k=words)
    return " ".join(w.capitalize() if rng.random() < 0.05 else w for w in chosen) + "."


def fill(folder, chunks):
    rng = random.Random(1)
    with Millgate.open(folder) as gate:
        gate.add({"id": f"d{n}", "text": zipf_text(rng, 60)} for n in range(chunks))
        gate.index()


def questions(folder, connections, tokens):
    """Questions in the words of some chunk, and windows of other text."""
    rng = random.Random(2)
    windows = [zipf_text(rng, int(tokens * 0.5)) for _ in range(connections)]
    with Millgate.open(folder) as gate:
        names = [f"d{rng.randrange(gate.index().count)}" for _ in range(200)]
        chunks = [gate.document(name)[0] for name in names]
    return [" ".join(rng.sample(chunk.text.split(), 5)) for chunk in chunks], windows


async def library(folder, asked, windows, requests):
    with Millgate.open(folder) as gate:
        for at in range(30):
            await gate.acontext(asked[at % len(asked)], window=windows[at % len(windows)])
        gate.traces(limit=1)  # waits, as wait_for_traces does
        began = time.process_time()
        for at in range(requests):
            await gate.acontext(asked[at % len(asked)], window=windows[at % len(windows)])
        gate.traces(limit=1)
        return (time.process_time() - began) / requests


class Load:
    def __init__(self, port, asked, windows):
        self.port = port
        self.asked = asked
        self.windows = windows
        self.seconds = []
        self.errors = 0
        self.next = 0

    async def run(self, requests):
        self.seconds, self.errors, self.next = [], 0, 0
        await asyncio.gather(*(self.connection(n, requests) for n in range(len(self.windows))))

    async def connection(self, number, requests):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        while self.next < requests:
            at = self.next
            self.next += 1
            body = json.dumps({"query": self.asked[at % len(self.asked)],
                               "current_window_text": self.windows[number]}).encode()  # fmt: skip
            head = f"POST /v1/context HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
            began = time.perf_counter()
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", answer)[1])
            await reader.readexactly(length)
            self.seconds.append(time.perf_counter() - began)
            self.errors += not answer.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()


def wait_for_traces(port):
    """Traces are written behind the answers, and a list of them waits for those."""
    with urlopen(f"http://127.0.0.1:{port}/v1/traces?limit=1") as answer:
        answer.read()


def served(folder, asked, windows, requests, rounds):
    line = [sys.executable, "-m", "millgate", "serve", "--port", "0", "--store", folder, "--json"]
    server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        load = Load(port, asked, windows)
        asyncio.run(load.run(max(256, requests // 20)))
        wait_for_traces(port)
        marks = [status(server.pid, "VmRSS") / 1024]
        began, seconds, errors = cpu_seconds(server.pid), [], 0
        for _ in range(rounds):
            asyncio.run(load.run(requests // rounds))
            seconds += load.seconds
            errors += load.errors
            marks.append(status(server.pid, "VmRSS") / 1024)
        wait_for_traces(port)
        spent = (cpu_seconds(server.pid) - began) / len(seconds)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return spent, sorted(seconds), errors, marks


def http(given):
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, given.chunks)
        asked, windows = questions(folder, given.connections, given.window)
        before = asyncio.run(library(folder, asked, windows, given.library))
        spent, seconds, errors, marks = served(folder, asked, windows, given.requests, rounds=10)
        after = asyncio.run(library(folder, asked, windows, given.library))
    own = (before + after) / 2
    p50, p99 = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
    print(
        f"chunks {given.chunks:,}  connections {given.connections}  window {given.window:,} tokens"
    )
    print(f"requests {len(seconds):,}  errors {errors}")
    print(f"CPU a request: library {1000 * before:.2f} ms before and {1000 * after:.2f} after, service {1000 * spent:.2f} ms, ratio {spent / own:.2f}")  # fmt: skip
    print(f"p50 {1000 * p50:.0f} ms  p99 {1000 * p99:.0f} ms  p99/p50 {p99 / p50:.2f}")
    print("memory of the server in MB: " + " ".join(f"{mark:.0f}" for mark in marks))


# Over MCP

QUESTIONS = 60
CALLS = 3


async def fastest_ms(call):
    times = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        await call()
        times.append(time.perf_counter() - begun)
    return 1000 * min(times)


def server_cpu_ms():
    """CPU time of the processes that this one started."""
    children = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    return 1000 * sum(cpu_seconds(pid) for pid in children)


async def measure_calls(store, questions):
    """Milliseconds of each call, by tool, and the server's CPU time a call."""
    arguments = ["-m", "millgate", "mcp", "--store", store]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    found = {}
    async with Client(server, mode="legacy") as client:
        for question in questions[:3]:  # to warm it
            answer = await client.call_tool("get_context", {"query": question})
        trace = answer.structured_content["trace"]
        await client.call_tool("remember", {"content": "The build runs on Python 3.12."})
        calls = {
            "get_context": lambda q: client.call_tool("get_context", {"query": q}),
            "recall": lambda q: client.call_tool("recall", {"query": q}),
            "context_strategy": lambda q: client.call_tool("context_strategy", {"query": q}),
            "why (what fell)": lambda _: client.call_tool("why", {"trace": trace}),
            "ping": lambda _: client.send_ping(),
        }
        for name, call in calls.items():
            before = server_cpu_ms()
            times = [await fastest_ms(lambda q=q, c=call: c(q)) for q in questions]
            found[name] = times, (server_cpu_ms() - before) / (CALLS * len(questions))
    return found


def mcp(given):
    warnings.filterwarnings("ignore", message="ping is removed")
    with tempfile.TemporaryDirectory() as store:
        with Millgate.open(store) as gate:
            gate.add(texts.rows(given.data, given.chunks))
            gate.index()
        found = asyncio.run(measure_calls(store, texts.questions(given.data, QUESTIONS)))
    print(f"{given.chunks:,} chunks, ms a call")
    for name, (times, cpu) in found.items():
        p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(f"{name:<18} p50 {p50:6.1f}   p95 {p95:6.1f}   CPU {cpu:5.1f}")


# The dashboard

PATHS = (
    "/dashboard/", "/dashboard/requests", "/dashboard/requests?q=word", "/dashboard/requests?q=nothing", "/dashboard/requests/c7",
    "/dashboard/requests/big", "/dashboard/requests/big/chunk?chunk=x7",
    "/dashboard/requests/c7/replay?budget=300", "/dashboard/requests/m7",
    "/dashboard/reviews", "/dashboard/costs", "/dashboard/health",
)  # fmt: skip
SESSIONS = 40


def words(chance, count):
    return " ".join(f"word{chance.randrange(3000)}" for _ in range(count))


def fill_traces(gate, chunks, traces):
    """Documents, and traces of which every fifth is a request for context and the others are model calls."""
    chance = random.Random(1)
    gate.add({"id": f"d{n}", "title": f"Doc {n}", "text": words(chance, 25)} for n in range(chunks))
    window = [words(chance, 2000)]
    made = gate.context(words(chance, 6), window=window, budget=800, session="s0").trace
    messages = [{"role": "user", "content": words(chance, 200)} for _ in range(20)]
    for n in range(traces):
        session = f"s{n % SESSIONS}"
        trace = replace(made, id=f"c{n // 5}", request=replace(made.request, session=session))
        if n % 5:
            sent = orjson.dumps({"messages": messages[: n // SESSIONS % 20 + 1]})
            call = ModelCall("/v1/chat/completions", "chat", id=f"m{n}", model="m", upstream="u", session=session, query="a word?", sent=sent)  # fmt: skip
            trace = call_trace(call, tenant=gate.tenant, now=made.created + n)
        gate.save_trace(trace)
        if not n % 100:
            gate.traces(limit=1)  # waits for what is to be written
    some = made.candidates
    many = (some[n % len(some)] for n in range(1000))
    big = tuple(replace(c, chunk=replace(c.chunk, id=f"x{n}")) for n, c in enumerate(many))
    gate.save_trace(replace(made, id="big", candidates=big))
    gate.traces(limit=1)
    return messages


def fill_reviews(gate):
    """Reviews that wait for a person."""
    chance = random.Random(2)
    for n in range(200):
        gate.reviews.ask(f"{n} {words(chance, 8)}?", collection="main", grades={"d7": 0.4}, reason="unsure")  # fmt: skip


async def measure_pages(gate):
    transport = httpx2.ASGITransport(create(gate), client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in PATHS:
            times = []
            for _ in range(4):
                began = time.process_time()
                reply = await client.get(path)
                times.append(time.process_time() - began)
            print(f"{1000 * min(times[1:]):7.1f} ms {len(reply.content):9,} bytes  {reply.status_code}  {path}")  # fmt: skip


def dashboard(given):
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store=folder, service={"log": False})
        with Millgate.open(settings=settings) as gate:
            messages = fill_traces(gate, given.chunks, given.traces)
            fill_reviews(gate)
            asyncio.run(measure_pages(gate))
    chars = sum(len(message["content"]) for message in messages)
    began = time.process_time()
    window_step({"messages": messages}, 0)
    print(f"{1000 * (time.process_time() - began):7.1f} ms to record a window of {chars:,} characters")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers()
    one = parts.add_parser("http")
    one.add_argument("--chunks", type=int, default=20_000)
    one.add_argument("--requests", type=int, default=600)
    one.add_argument("--connections", type=int, default=16)
    one.add_argument("--window", type=int, default=8_000, help="tokens of each window")
    one.add_argument("--library", type=int, default=60, help="requests to the library itself")
    one.set_defaults(run=http)
    one = parts.add_parser("mcp")
    one.add_argument("--chunks", type=int, default=10_000)
    one.add_argument("--data", help="a folder of labeled sets")
    one.set_defaults(run=mcp)
    one = parts.add_parser("dashboard")
    one.add_argument("--chunks", type=int, default=100_000)
    one.add_argument("--traces", type=int, default=10_000)
    one.set_defaults(run=dashboard)
    given = parser.parse_args(sys.argv[1:] or ["http"])
    given.run(given)


if __name__ == "__main__":
    main()
