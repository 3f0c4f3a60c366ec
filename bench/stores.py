"""What stored things cost as they grow: chunks, collections, facts and edges.

    make bench-stores ARGS="large [--chunks 500000] [--store .bench/large] [--data DIR]"     10 minutes the first time
    make bench-stores ARGS="collections [--collections 5000]"                                3 minutes
    make bench-stores ARGS="facts [--facts 10000]"                                           1 minute
    make bench-stores ARGS="graph [--edges 200000]"                                          1 minute

large: a request over a large store as the service asks it, alone and while another process adds 10 000 chunks, and a
backup during writes. The store is made in the folder if it is missing. CPU is that of this process without the thread
that follows the change feed; a query counts with its fastest of three runs.
collections: two chunks in each of 5 000 collections, all asked in random order through a service that may open 1 024
files. It fails if a request fails.
facts: CPU of adding and recalling facts, and how far recall overruns its deadline of 0.2 s with one provider that
hangs, one that raises and three that answer.
graph: CPU of following three hops, by store. "hubs" draws nodes by a Zipf-like law, "sparse" evenly, "star" hangs all
edges on one node.
"""

import argparse
import asyncio
import gc
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import httpx2
import numpy as np
from bench.fixtures import texts
from bench.fixtures.services import count_descriptors, serve, status

from millgate.gateway import Millgate
from millgate.knowledge.facts import Facts
from millgate.knowledge.paths import GraphPolicy, traverse
from millgate.knowledge.providers import ProviderPool, RecallPolicy, prefetch_all
from millgate.operations.backup import backup
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.temporary import TemporaryStore
from millgate.types import Edge

QUIET = {"trace": {"keep": 0}, "log": {"enabled": False}}
QUERIES, RUNS = 30, 3
ADDED = 10_000
SAMPLED = 100  # requests between two looks at the descriptors of the service
DEADLINE_S = 0.2
PREDICATES = ("depends_on", "uses", "part_of", "mentions", "links_to", "author")
WRITER = """
import os, sys
from bench.fixtures import texts
from millgate.gateway import Millgate
rows = [{{**row, "id": f"{{os.getpid()}}-{{row['id']}}"}} for row in texts.rows({data!r}, {count}, seed=11)]
with Millgate.open({folder!r}, **{quiet!r}) as gate:
    print("ready", flush=True)
    sys.stdin.readline()
    gate.add(rows)
"""


# A large store


def make(folder, data, count):
    with Millgate.open(folder, **QUIET) as gate:
        held = gate.collections().get("main")
        if held is None or held.chunks < count:
            gate.add(texts.rows(data, count))


def following_cpu():
    """CPU seconds of the threads that follow the change feed."""
    mine = [t for t in threading.enumerate() if t.name == "millgate-indexes"]
    return sum(time.clock_gettime(time.pthread_getcpuclockid(t.ident)) for t in mine)


def ask(gate, query):
    """CPU milliseconds of one request."""
    began, other = time.process_time(), following_cpu()
    gate.context(query)
    return 1e3 * (time.process_time() - began - (following_cpu() - other))


def start_writer(folder, data, count):
    code = WRITER.format(data=data, count=count, folder=folder, quiet=QUIET)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    process.stdout.readline()
    return process


def let_write(process):
    process.stdin.write("\n")
    process.stdin.flush()


def measure_requests(folder, data):
    dice = random.Random(1)
    queries = texts.questions(None, QUERIES)
    other = start_writer(folder, data, ADDED)
    with Millgate.open(folder, wait_for_index=False, **QUIET) as gate:
        gate.index()
        gc.freeze()  # as in the service: imported modules are not searched for garbage
        held = gate.collections()["main"].chunks
        alone = np.min([[ask(gate, query) for query in queries] for _ in range(RUNS)], axis=0)
        print(f"{held:,} chunks: a request takes {np.median(alone):.1f} ms CPU (p50), {np.percentile(alone, 95):.1f} (p95)")  # fmt: skip
        usual = dict(zip(queries, alone, strict=True))
        let_write(other)
        more = []
        while other.poll() is None or len(more) < QUERIES:
            query = dice.choice(queries)
            more.append(ask(gate, query) - usual[query])
        print(f"while another process adds {ADDED:,} chunks: {len(more)} requests, {np.median(more):+.1f} ms at the median, {max(more):+.1f} ms at most")  # fmt: skip
    other.communicate()


def measure_backup(folder, data):
    other = start_writer(folder, data, 100_000)
    let_write(other)
    try:
        with tempfile.TemporaryDirectory() as target:
            began = time.monotonic()
            made = backup(Path(folder), Path(target) / "copy")
            print(f"backup of {made.bytes / 1e9:.2f} GB during writes: {time.monotonic() - began:.1f} s, checked")  # fmt: skip
    finally:
        other.kill()
        other.communicate()


def large(given):
    make(given.store, given.data, given.chunks)
    measure_requests(given.store, given.data)
    measure_backup(given.store, given.data)


# Many collections


def fill_collections(folder, count):
    rows = (
        {"id": f"{n}-{part}", "text": f"note{n} tells of tide{n * part} at the pier", "collection": f"c{n}"}
        for n in range(count)
        for part in (1, 2)
    )  # fmt: skip
    began = time.process_time()
    with Millgate.open(folder) as gate:
        gate.add(rows)
    print(f"{count:,} collections made in {time.process_time() - began:.0f} s CPU", flush=True)


def ask_all(url, pid, count):
    """How many requests failed, and the most descriptors that the service had."""
    order = random.Random(3).sample(range(count), count)
    failed, most = 0, 0
    with httpx2.Client(base_url=url, timeout=90) as client:
        for at, n in enumerate(order):
            body = {"query": f"what does note{n} tell", "collection": f"c{n}"}
            answer = client.post("/v1/context", json=body)
            failed += answer.status_code != 200 or f"note{n} " not in answer.text
            if at % SAMPLED == 0:
                most = max(most, count_descriptors(pid))
    return failed, most


def collections(given):
    count, descriptors = given.collections, given.descriptors
    with tempfile.TemporaryDirectory() as folder:
        fill_collections(folder, count)
        # the service inherits the limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        server, url = serve(Path(folder))
        try:
            failed, most = ask_all(url, server.pid, count)
            memory = status(server.pid, "VmRSS") / 1024
        finally:
            server.terminate()
            server.communicate()
    print(f"{count:,} requests, {failed} failed; at most {most} of {descriptors:,} descriptors; {memory:.0f} MB")  # fmt: skip
    sys.exit(failed > 0)


# Facts and providers


class Provider:
    def __init__(self, name, answer):
        self.name = name
        self.answer = answer

    def prefetch(self, query):
        return self.answer()


async def overrun(rounds):
    """Milliseconds beyond the deadline, sorted."""
    release = threading.Event()
    times = []
    for _ in range(rounds):
        pool = ProviderPool(
            [
                Provider("hangs", lambda: release.wait(60) and ""),
                Provider("raises", lambda: 1 / 0),
                *(Provider(f"answers{n}", lambda: "text") for n in range(3)),
            ],
            RecallPolicy(deadline_s=DEADLINE_S),
        )
        began = time.monotonic()
        recalled = await prefetch_all("what did we decide?", pool)
        times.append(1000 * (time.monotonic() - began - DEADLINE_S))
        assert len(recalled.degraded) == 2
        assert recalled.text.count("text") == 3
    release.set()
    return sorted(times)


def word(number):
    """A made-up word of syllables; one with digits would be read as an identifier, and in parts."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    found = ""
    while number or not found:
        number, at = divmod(number, len(syllables))
        found += syllables[at]
    return found + "x"


def facts(given):
    times = asyncio.run(overrun(given.rounds))
    print(f"overrun of the deadline, ms: p50 {times[len(times) // 2]:.1f}, max {times[-1]:.1f}")
    dice = random.Random(7)

    def sentence():
        """6 to 14 words of a Zipf-like vocabulary of 5 000."""
        return " ".join(word(int(5_000 ** dice.random())) for _ in range(dice.randint(6, 14)))

    held = Facts(TemporaryStore(), "bench")
    began = time.process_time()
    for _ in range(given.facts):
        held.add(sentence())
    add = 1000 * (time.process_time() - began) / given.facts
    times = []
    for _ in range(200):
        query = sentence()
        began = time.process_time()
        held.recall(query)
        times.append(1000 * (time.process_time() - began))
    p50, p95 = np.percentile(times, (50, 95))
    print(f"{given.facts} facts, CPU ms: add {add:.3f}, recall p50 {p50:.2f}, p95 {p95:.2f}")


# Knowledge edges


def draw_graph(kind, count, queries):
    """Edges, and the nodes from which to start."""
    dice = random.Random(7)
    size = {"hubs": count // 4, "sparse": count, "star": count}[kind]

    def node():
        place = size ** dice.random() if kind == "hubs" else dice.randrange(size)
        return f"n{int(place)}"

    edges = [
        Edge("hub" if kind == "star" else node(), dice.choice(PREDICATES), node(), dice.random())
        for _ in range(count)
    ]
    if kind == "star":
        return edges, ["hub"] * queries
    return edges, [dice.choice(edges).source for _ in range(queries)]


def follow(store, starts, policy):
    """Sorted CPU milliseconds a traversal, paths found in the mean, and the longest of them."""
    for start in starts:  # the in-memory store sorts a node's edges when it is first asked
        traverse(store, start, policy, tenant="bench")
    times, found, longest = [], 0, 0
    for start in starts:
        began = time.process_time()
        paths = traverse(store, start, policy, tenant="bench")
        times.append((time.process_time() - began) * 1000)
        found += len(paths)
        longest = max(longest, *(len(path.edges) for path in paths), 0)
    return sorted(times), found / len(starts), longest


def graph(given):
    policy = GraphPolicy(max_hops=given.hops)
    print(f"{given.edges} edges, {given.hops} hops, {given.queries} starts, CPU ms a traversal")
    print(f"{'store':8} {'graph':7} {'p50':>7} {'p95':>7} {'max':>7} {'paths':>6} {'longest':>8}")
    for kind in ("hubs", "sparse", "star"):
        edges, starts = draw_graph(kind, given.edges, given.queries)
        with tempfile.TemporaryDirectory() as folder:
            for name, store in (
                ("memory", TemporaryStore()),
                ("sqlite", SqliteStore(Path(folder))),
            ):
                for at in range(0, len(edges), 10_000):
                    store.link("bench", edges[at : at + 10_000])
                times, paths, longest = follow(store, starts, policy)
                store.close()
                p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
                print(f"{name:8} {kind:7} {p50:7.3f} {p95:7.3f} {times[-1]:7.3f} {paths:6.1f} {longest:8}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("large")
    one.add_argument("--chunks", type=int, default=500_000)
    one.add_argument("--store", default=".bench/large")
    one.add_argument("--data", help="a folder of labeled sets")
    one.set_defaults(run=large)
    one = parts.add_parser("collections")
    one.add_argument("--collections", type=int, default=5_000)
    one.add_argument("--descriptors", type=int, default=1_024)
    one.set_defaults(run=collections)
    one = parts.add_parser("facts")
    one.add_argument("--facts", type=int, default=10_000)
    one.add_argument("--rounds", type=int, default=20)
    one.set_defaults(run=facts)
    one = parts.add_parser("graph")
    one.add_argument("--edges", type=int, default=200_000)
    one.add_argument("--hops", type=int, default=3)
    one.add_argument("--queries", type=int, default=400)
    one.set_defaults(run=graph)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
