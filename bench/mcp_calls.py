"""Warm tool calls over MCP: `make bench-mcp DATA=DIR [SIZE=10000]`.

A server over stdio, on a store of SIZE chunks of synthetic text (bench/synthetic.py), asked with the questions of the
labeled sets in DIR. Each call is timed at the client, so that transport, JSON and schemas count. For each question the
fastest of three calls counts, since other work on the machine only ever adds. Beside it stands the CPU time that the
server spent on a call. `ping` is what the protocol alone takes.
"""

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path

import synthetic
from mcp import Client, StdioServerParameters

from headgate.gateway import Headgate

warnings.filterwarnings("ignore", message="ping is removed")
QUESTIONS = 60
RUNS = 3


async def fastest_ms(call):
    times = []
    for _ in range(RUNS):
        begun = time.perf_counter()
        await call()
        times.append(time.perf_counter() - begun)
    return 1000 * min(times)


def server_cpu_ms():
    """CPU time of the processes that this one started."""
    ticks = 0
    for pid in Path("/proc/self/task", str(os.getpid()), "children").read_text().split():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return 1000 * ticks / os.sysconf("SC_CLK_TCK")


async def measure(store, questions):
    """Milliseconds of each call, by tool, and the server's CPU time a call."""
    arguments = ["-m", "headgate", "mcp", "--store", store]
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
            found[name] = times, (server_cpu_ms() - before) / (RUNS * len(questions))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("size", type=int, nargs="?", default=10_000)
    options = parser.parse_args()
    questions = sorted(set().union(*synthetic.queries(options.data)))
    random.Random(7).shuffle(questions)
    with tempfile.TemporaryDirectory() as store:
        with Headgate.open(store) as hg:
            chunks = synthetic.chunks(options.data, options.size)
            hg.add({"id": c.id, "title": c.title, "text": c.text} for c in chunks)
            hg.index()
        found = asyncio.run(measure(store, questions[:QUESTIONS]))
    print(f"{options.size:,} chunks, {QUESTIONS} questions, ms a call")
    for name, (times, cpu) in found.items():
        p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(f"{name:<18} p50 {p50:6.1f}   p95 {p95:6.1f}   CPU {cpu:5.1f}")


main()
