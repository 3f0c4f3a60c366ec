"""The dashboard on a full store: CPU time and size of each page, and what recording a window costs.

python bench/dashboard.py [--chunks 100000] [--traces 10000]
"""

import argparse
import asyncio
import random
import tempfile
import time
from dataclasses import replace

import httpx2
import orjson

from headgate.gateway import Headgate
from headgate.service.app import create
from headgate.service.proxy.call_trace import call_trace
from headgate.service.proxy.call_window import window_step
from headgate.service.proxy.model_call import ModelCall
from headgate.settings import Settings
from headgate.types import Edge

PATHS = (
    "/dashboard/", "/dashboard/requests", "/dashboard/requests?q=word", "/dashboard/requests?q=nothing", "/dashboard/requests/c7",
    "/dashboard/requests/big", "/dashboard/requests/big/chunk?chunk=x7", "/dashboard/requests/c7/context",
    "/dashboard/requests/c7/replay?budget=300", "/dashboard/requests/compare?id=c1&id=c2", "/dashboard/streams", "/dashboard/streams/m7",
    "/dashboard/store", "/dashboard/store/collection?name=main", "/dashboard/store/collection?name=main&page=39", "/dashboard/store/collection?name=main&page=LAST",
    "/dashboard/store/collection?name=main&q=word1+word2+word3", "/dashboard/store/document?collection=main&id=d7",
    "/dashboard/store/remove?collection=main&chunk=d7", "/dashboard/store/facts", "/dashboard/store/facts?q=word7", "/dashboard/store/facts/FACT",
    "/dashboard/store/graph", "/dashboard/store/graph?node=hub", "/dashboard/store/graph?node=hub&hops=2", "/dashboard/store/reviews",
    "/dashboard/health",
)  # fmt: skip
SESSIONS = 40
ROWS = 50  # chunks on a page of a collection
FACTS = 1000
EDGES = 5000


def words(chance, count):
    return " ".join(f"word{chance.randrange(3000)}" for _ in range(count))


def fill(gate, chunks, traces):
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


def fill_memory(gate):
    """Facts, a hub of edges, and reviews; the id of a fact."""
    chance = random.Random(2)
    facts = [gate.remember(f"Fact {n} is that {words(chance, 12)}.").fact for n in range(FACTS)]
    gate.graph.link(Edge("hub", "knows", f"d{n}", 1 - n / EDGES) for n in range(EDGES // 2))
    gate.graph.link(Edge(f"d{n}", "knows", f"d{n + 1}") for n in range(EDGES // 2))
    for n in range(200):
        gate.reviews.ask(f"{n} {words(chance, 8)}?", collection="main", grades={"d7": 0.4}, reason="unsure")  # fmt: skip
    return facts[0].id


async def measure(gate, chunks, fact):
    transport = httpx2.ASGITransport(create(gate), client=("127.0.0.1", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for pattern in PATHS:
            path = pattern.replace("LAST", str(chunks // ROWS)).replace("FACT", fact)
            times = []
            for _ in range(4):
                began = time.process_time()
                reply = await client.get(path)
                times.append(time.process_time() - began)
            print(f"{1000 * min(times[1:]):7.1f} ms {len(reply.content):9,} bytes  {reply.status_code}  {path}")  # fmt: skip


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--chunks", type=int, default=100_000)
    options.add_argument("--traces", type=int, default=10_000)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(store=folder, service={"log": False})
        with Headgate.open(settings=settings) as gate:
            messages = fill(gate, given.chunks, given.traces)
            asyncio.run(measure(gate, given.chunks, fill_memory(gate)))
    chars = sum(len(message["content"]) for message in messages)
    began = time.process_time()
    window_step({"messages": messages}, 0)
    print(f"{1000 * (time.process_time() - began):7.1f} ms to record a window of {chars:,} characters")  # fmt: skip


if __name__ == "__main__":
    main()
