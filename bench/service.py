"""The service under load: what HTTP costs beside the library, whether anything fails, and whether memory stays flat.

    python bench/service.py --chunks 100000 --requests 20000 --connections 64

A store of made-up text is served by `headgate serve` on a loopback port; lean clients over plain sockets ask for
context with a window of 8 k tokens each. CPU is the server process's own, from the system's account of it; the
library's is measured before and after, in this process, on the same store, questions and windows.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import accumulate
from pathlib import Path
from urllib.request import urlopen

from headgate.gateway import Headgate

PARTS = ("ka", "mo", "ri", "tel", "sun", "ver", "pol", "dra", "fin", "gor", "lin", "mer", "dok", "sa", "vel",
         "nor", "pi", "zu", "chen", "bra", "qui", "stam", "lor", "net", "fex", "gul", "hom", "jad", "wex", "ost")  # fmt: skip
WORDS = [a + b + c for a in PARTS for b in PARTS for c in PARTS]
random.Random(0).shuffle(WORDS)
WEIGHTS = list(
    accumulate(1 / (rank + 10) for rank in range(len(WORDS)))
)  # as in language, by Zipf's law


def text(rng, words):
    chosen = rng.choices(WORDS, cum_weights=WEIGHTS, k=words)
    return " ".join(w.capitalize() if rng.random() < 0.05 else w for w in chosen) + "."


def fill(folder, chunks):
    rng = random.Random(1)
    with Headgate.open(folder) as gate:
        gate.add({"id": f"d{n}", "text": text(rng, 60)} for n in range(chunks))
        gate.index()


def questions(folder, connections, tokens):
    """Questions in the words of some chunk, and windows of other text."""
    rng = random.Random(2)
    windows = [text(rng, int(tokens * 0.5)) for _ in range(connections)]
    with Headgate.open(folder) as gate:
        names = [f"d{rng.randrange(gate.index().count)}" for _ in range(200)]
        chunks = [gate.document(name)[0] for name in names]
    return [" ".join(rng.sample(chunk.text.split(), 5)) for chunk in chunks], windows


async def library(folder, asked, windows, requests):
    with Headgate.open(folder) as gate:
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


def cpu(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def wait_for_traces(port):
    """Traces are written behind the answers, and a list of them waits for those."""
    with urlopen(f"http://127.0.0.1:{port}/v1/traces?limit=1") as answer:
        answer.read()


def served(folder, asked, windows, requests, rounds):
    line = [
        sys.executable,
        "-m",
        "headgate",
        "serve",
        "--port",
        "0",
        "--store",
        folder,
        "--json",
    ]
    log = subprocess.DEVNULL
    server = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        port = int(json.loads(server.stdout.readline())["url"].rsplit(":", 1)[1])
        load = Load(port, asked, windows)
        asyncio.run(load.run(max(256, requests // 20)))
        wait_for_traces(port)
        marks = [resident(server.pid)]
        began, seconds, errors = cpu(server.pid), [], 0
        for _ in range(rounds):
            asyncio.run(load.run(requests // rounds))
            seconds += load.seconds
            errors += load.errors
            marks.append(resident(server.pid))
        wait_for_traces(port)
        spent = (cpu(server.pid) - began) / len(seconds)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
    return spent, sorted(seconds), errors, marks


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--chunks", type=int, default=100_000)
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--window", type=int, default=8_000, help="tokens of each window")
    options.add_argument("--library", type=int, default=300, help="requests to the library itself")
    options.add_argument("--store", help="a store made before, to save time")
    args = options.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = args.store or made
        if not (Path(folder) / "headgate.db").exists():
            fill(folder, args.chunks)
        asked, windows = questions(folder, args.connections, args.window)
        before = asyncio.run(library(folder, asked, windows, args.library))
        spent, seconds, errors, marks = served(folder, asked, windows, args.requests, rounds=10)
        after = asyncio.run(library(folder, asked, windows, args.library))
        own = (before + after) / 2
    p50, p99 = seconds[len(seconds) // 2], seconds[int(len(seconds) * 0.99)]
    print(f"chunks {args.chunks:,}  connections {args.connections}  window {args.window:,} tokens")
    print(f"requests {len(seconds):,}  errors {errors}")
    print(
        f"CPU a request: library {1000 * before:.2f} ms before and {1000 * after:.2f} after, service {1000 * spent:.2f} ms, ratio {spent / own:.2f}"
    )
    print(f"p50 {1000 * p50:.0f} ms  p99 {1000 * p99:.0f} ms  p99/p50 {p99 / p50:.2f}")
    print("memory of the server in MB: " + " ".join(f"{mark:.0f}" for mark in marks))
    print(
        f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


if __name__ == "__main__":
    main()
