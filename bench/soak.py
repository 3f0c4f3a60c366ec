"""The service under mixed traffic and faults for half an hour: whether memory, files or threads grow.

    make bench-soak [ARGS="--minutes 30 --tenants 1000"]      45 minutes, the warm-up included

Clients ask, add, remember and read traces, one collection keeps growing, and each request comes from one of many
tenants. Every minute a fault is injected in turn: a writer that is stopped inside its transaction, an index folder
deleted, a client that goes away. Memory, descriptors, threads, latency and file sizes are sampled and plotted to
.bench/soak.png. It fails if memory or descriptors grow after the warm-up, if a request fails, or if p99 is above 5
times p50.

The warm-up fills the bounded caches, which would take mixed traffic an hour and look like growth: questions about
12 000 texts, 240 000 words that no text had before, and one request of each kind from each tenant.
"""

import argparse
import asyncio
import json
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from string import ascii_lowercase

import httpx2
from bench.fixtures.services import count_descriptors, serve, status, stopped_writer, text

from millgate.gateway import Millgate

PLOT = Path(".bench/soak.png")
WARM_TEXTS = 12_000  # more than any cache remembers
WARM_WORDS, WORDS_TOGETHER = 240_000, 5_000  # more than two tables of words remember
ASKED_TOGETHER = 20  # texts that one question of the warm-up is about
FACTS = 10  # of each tenant, remembered again and again
DOCUMENTS = 20  # of each tenant, replaced again and again
SETTLING = 0.2  # share of the run in which the traffic is still new


class Soak:
    def __init__(self, url, pid, folder, keys, rng):
        self.url, self.pid, self.folder, self.keys, self.rng = url, pid, folder, keys, rng
        self.samples, self.times, self.failures, self.recent = [], [], [], []
        self.grown = 0

    async def client(self, until):
        async with httpx2.AsyncClient(base_url=self.url, timeout=90) as client:
            while time.monotonic() < until:
                await self.request(client)

    async def request(self, client):
        rng, began = self.rng, time.perf_counter()
        headers = {"authorization": f"Bearer {rng.choice(self.keys)}"}
        kind = rng.choices(["context", "grow", "ask", "remember", "add", "traces"], [40, 10, 15, 5, 15, 15])[0]  # fmt: skip
        if kind == "context":
            call = client.post("/v1/context", json={"query": text(rng, 3)}, headers=headers)
        elif kind == "ask":
            own = {"authorization": f"Bearer {self.keys[0]}"}
            call = client.post("/v1/context", json={"query": text(rng, 3), "collection": "growing"}, headers=own)  # fmt: skip
        elif kind == "grow":
            self.grown += 5
            rows = [{"id": f"g{self.grown + n}", "text": text(rng)} for n in range(5)]  # fmt: skip
            own = {"authorization": f"Bearer {self.keys[0]}"}
            call = client.post(
                "/v1/documents", json={"documents": rows, "collection": "growing"}, headers=own
            )
        elif kind == "add":
            row = {"id": f"d{rng.randrange(DOCUMENTS)}", "text": text(rng)}
            call = client.post("/v1/documents", json={"documents": [row]}, headers=headers)
        elif kind == "remember":
            call = client.post("/v1/facts", json={"content": fact(rng.randrange(FACTS))}, headers=headers)  # fmt: skip
        else:
            call = client.get("/v1/traces", params={"limit": 20}, headers=headers)
        answer = await call
        self.recent.append((kind, time.perf_counter() - began))
        if answer.status_code >= 400 and answer.status_code != 503:
            self.failures.append((kind, answer.status_code, answer.text[:200]))

    async def watch(self, until, every_s=5.0):
        began = time.monotonic()
        while time.monotonic() < until:
            await asyncio.sleep(every_s)
            recent, self.recent = self.recent, []
            asked = sorted(s for kind, s in recent if kind == "context")
            self.times += asked
            sizes = {p.name: p.stat().st_size for p in self.folder.glob("millgate.db*")}
            self.samples.append({
                "minute": (time.monotonic() - began) / 60,
                "rss": status(self.pid, "VmRSS") / 1024,
                "anonymous": status(self.pid, "RssAnon") / 1024,
                "threads": status(self.pid, "Threads"),
                "descriptors": count_descriptors(self.pid),
                "p50": 1000 * asked[len(asked) // 2] if asked else 0,
                "p99": 1000 * asked[int(len(asked) * 0.99)] if asked else 0,
                "requests": len(recent),
                "database": sizes.get("millgate.db", 0) / 1e6,
                "log": sizes.get("millgate.db-wal", 0) / 1e6,
            })  # fmt: skip
            print(json.dumps({k: round(v, 2) for k, v in self.samples[-1].items()}), flush=True)

    async def inject(self, until, every_s=60.0):
        faults = [self.stop_a_writer, self.delete_an_index, self.leave]
        for n in range(10**6):
            await asyncio.sleep(every_s)
            if time.monotonic() >= until - 10:
                return
            await faults[n % len(faults)]()

    async def stop_a_writer(self):
        def hold():
            with stopped_writer(self.folder):
                time.sleep(3)

        await asyncio.to_thread(hold)

    async def delete_an_index(self):
        folders = sorted((self.folder / "index").glob("*"))
        if folders:  # those of small collections are in memory alone
            shutil.rmtree(self.rng.choice(folders), ignore_errors=True)

    async def leave(self):
        _, writer = await asyncio.open_connection("127.0.0.1", int(self.url.rsplit(":", 1)[1]))
        writer.write(
            b"POST /v1/context HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{"
        )
        await writer.drain()
        writer.close()


def prepare(folder, tenants):
    """A store with some documents for each tenant, and a key for each."""
    rng, keys = random.Random(0), []
    with Millgate.open(folder) as gate:
        for n in range(tenants):
            own = gate.for_tenant(f"tenant{n}")
            own.add([{"id": f"d{i}", "text": text(rng)} for i in range(DOCUMENTS)])
            for number in range(FACTS):
                own.remember(fact(number))
            keys.append(own.keys.create().token)
        gate.for_tenant("tenant0").add(warm_rows(), collection="growing")
    return keys


def fact(number):
    return f"Fact {number} of the ferry"


def warm_rows():
    rng = random.Random(2)
    return [{"id": f"w{n}", "text": text(rng)} for n in range(WARM_TEXTS)]


def warm_up(url, keys):
    """Ask for every text of a large collection, and as every tenant, so that caches are full."""
    rows = [row["text"].split() for row in warm_rows()]
    headers = {"authorization": f"Bearer {keys[0]}"}
    with httpx2.Client(base_url=url, headers=headers, timeout=90) as client:
        for at in range(0, WARM_TEXTS, ASKED_TOGETHER):
            # by their numbers, so that each is read; by the words of one, so that many are shown
            numbers = [words[-1] for words in rows[at : at + ASKED_TOGETHER]]
            for query in (numbers, rows[at][-4:]):
                ask_until_ready(client, " ".join(query))
        fill_words(client)
        for number, key in enumerate(keys):
            use_all(client, {"authorization": f"Bearer {key}"}, random.Random(number))


def fill_words(client):
    """Add and ask for words that were never met, until the tables of words are full."""
    rng = random.Random(3)
    for n in range(0, WARM_WORDS, WORDS_TOGETHER):
        words = " ".join("".join(rng.choices(ascii_lowercase, k=9)) for _ in range(WORDS_TOGETHER))
        row = {"id": f"words{n}", "text": words}
        client.post("/v1/documents", json={"documents": [row], "collection": "words"})
        ask_until_ready(client, words)
        ask_until_ready(client, words, collection="words")


def use_all(client, headers, rng):
    for path, body in (
        ("/v1/context", {"query": text(rng, 3)}),
        ("/v1/documents", {"documents": [{"id": "d0", "text": text(rng)}]}),
        ("/v1/facts", {"content": fact(0)}),
        ("/v1/context", {"query": text(rng, 3)}),
    ):
        client.post(path, json=body, headers=headers)  # 503 while an index is still being made
    client.get("/v1/traces", params={"limit": 20}, headers=headers).raise_for_status()


def ask_until_ready(client, query, *, collection="growing"):
    body = {"query": query, "collection": collection, "budget": 5_000}
    answer = client.post("/v1/context", json=body)
    while answer.status_code == 503:  # the index is still being made
        time.sleep(1)
        answer = client.post("/v1/context", json=body)
    answer.raise_for_status()


def plot(samples, path):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    path.parent.mkdir(exist_ok=True)
    groups = [("rss", "anonymous"), ("descriptors", "threads"), ("p50", "p99"), ("database", "log")]
    figure, axes = plt.subplots(4, 1, figsize=(9, 11), sharex=True)
    for axis, names in zip(axes, groups, strict=True):
        for name in names:
            axis.plot([s["minute"] for s in samples], [s[name] for s in samples], label=name)
        axis.legend()
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=110)


def verdict(soak):
    """What was not flat."""
    wrong = [f"{len(soak.failures)} requests failed: {soak.failures[0]}"] if soak.failures else []
    steady = soak.samples[int(len(soak.samples) * SETTLING) :]
    if len(steady) < 4:
        return [*wrong, "the run was too short to judge growth"]
    third = max(1, len(steady) // 3)
    for name, share, spare in (
        ("anonymous", 0.02, 0),
        ("descriptors", 0.1, 2),
        ("threads", 0.1, 2),
    ):
        first = sum(s[name] for s in steady[:third]) / third
        last = sum(s[name] for s in steady[-third:]) / third
        print(f"{name}: {first:.1f} -> {last:.1f} ({last / first - 1:+.1%})")
        if last > first * (1 + share) + spare:
            wrong.append(f"{name} grew from {first:.1f} to {last:.1f}")
    print(f"the growing collection: {soak.grown} chunks")
    times = sorted(soak.times)
    p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
    print(f"contexts: {len(times)}, p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.1f} ms")
    if p99 > 5 * p50:
        wrong.append(f"p99 is {p99 / p50:.1f} times p50")
    return wrong


async def run(soak, minutes, clients):
    until = time.monotonic() + 60 * minutes
    every = max(10.0, min(60.0, 60 * minutes / 8))
    await asyncio.gather(
        *(soak.client(until) for _ in range(clients)), soak.watch(until), soak.inject(until, every)
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=3)
    args = parser.parse_args()
    folder = Path(tempfile.mkdtemp()) / "kb"
    keys = prepare(folder, args.tenants)
    server, url = serve(folder, MILLGATE_SERVICE__RATE="1000000", MILLGATE_TRACE__KEEP="50")
    soak = Soak(url, server.pid, folder, keys, random.Random(1))
    try:
        warm_up(url, keys)
        asyncio.run(run(soak, args.minutes, args.clients))
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    raw = sqlite3.connect(folder / "millgate.db")
    sound = raw.execute("PRAGMA integrity_check").fetchone()[0]
    raw.close()
    plot(soak.samples, PLOT)
    wrong = verdict(soak)
    wrong += [f"the database: {sound}"] if sound != "ok" else []
    wrong += [f"the service ended with {code}"] if code else []
    shutil.rmtree(folder.parent)
    print("flat" if not wrong else "\n".join(["NOT FLAT", *wrong]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
