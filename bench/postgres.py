"""The PostgreSQL store against SQLite, and what survives kills and restarts.

    make bench-postgres ARGS="ranking DIR"              every score over both stores, compared one by one
    make bench-postgres ARGS="ingest"                   chunks a second, with the server on this machine: 1 minute
    make bench-postgres ARGS="freshness"                from a commit to the answer of another gateway: 1 minute
    make bench-postgres ARGS="gateways"                 two gateways, one killed again and again: 1 minute
    make bench-postgres ARGS="restart"                  the server restarted under load: 1 minute

DIR is a labeled set or a folder of them. Each run starts a server of its own from the packages of the tests, with the
settings of a server that keeps what it acknowledges.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import psycopg
from bench.fixtures.services import tree_cpu_seconds
from tests.postgres_server import running_server

from millgate.errors import MillgateError
from millgate.evaluate.labeled import sets
from millgate.gateway import Millgate

DURABLE = {"fsync": "on", "full_page_writes": "on", "shared_buffers": "256MB", "autovacuum": "on"}
WORDS = ["".join(random.Random(n).choices("abcdefghilmnoprstuv", k=2 + n % 8)) for n in range(5000)]


def text(rng, number):
    return f"{' '.join(rng.choices(WORDS, k=80))} {number}"


def compare_rankings(server, folder, most):
    worst = 0.0
    for number, labeled in enumerate(sets(Path(folder))):
        with tempfile.TemporaryDirectory() as temporary:
            one = Millgate.open(f"{temporary}/sqlite", tenant=f"t{number}")
            two = Millgate.open(f"{server.url}?cache={temporary}/cache", tenant=f"t{number}")
            for gate in (one, two):
                gate.add(labeled.rows)
            differ, step = 0, max(1, len(labeled.queries) // most)
            asked = labeled.queries[::step][:most]
            for query in asked:
                found = []
                for gate in (one, two):
                    context = gate.context(
                        query["text"], budget=1000, collection=query["collection"]
                    )
                    found.append([(c.chunk.id, c.score) for c in context.trace.candidates])
                differ += found[0] != found[1]
                worst = max([worst, *(abs(a[1] - b[1]) for a, b in zip(*found, strict=False))])
            one.close(), two.close()
        print(f"{labeled.name:16} {len(labeled.rows):7,} passages  {len(asked):4} queries  {differ} differ")  # fmt: skip
    print(f"largest difference of two scores: {worst}")


def measure_ingest(server, count):
    rng = random.Random(7)
    rows = [{"id": f"r{n}", "text": text(rng, n)} for n in range(count)]
    with tempfile.TemporaryDirectory() as temporary:
        for name, store in (("SQLite", f"{temporary}/kb"), ("PostgreSQL", f"{server.url}?cache={temporary}/cache")):  # fmt: skip
            with Millgate.open(store) as gate:
                began, spent, before = time.monotonic(), time.process_time(), server_cpu(server)
                added = gate.add(rows)
                wall, client = time.monotonic() - began, time.process_time() - spent
                there = server_cpu(server) - before
                total = client + (there if name == "PostgreSQL" else 0)
                print(f"{name:11} {added.chunks:,} chunks with their index: {added.chunks / wall:7,.0f}/s by the clock, "
                      f"{added.chunks / total:7,.0f}/s of CPU (client {client:.1f} s, server {there:.1f} s)")  # fmt: skip


def measure_freshness(server, times):
    """Seconds from the commit of one gateway until another answers with the new document."""
    rng = random.Random(7)
    rows = [{"id": f"r{n}", "text": text(rng, n)} for n in range(2000)]
    kinds = {
        "waits for its index": {},
        "never waits": {"wait_for_index": False},
    }
    with tempfile.TemporaryDirectory() as temporary:
        writer = Millgate.open(f"{server.url}?cache={temporary}/writer")
        writer.add(rows)
        for name, settings in kinds.items():
            with Millgate.open(f"{server.url}?cache={temporary}/{name[:5]}", **settings) as reader:
                reader.reindex()
                waits = sorted(
                    wait_for_new(writer, reader, f"{name[:5]}-{n}") for n in range(times)
                )
            print(
                f"{name:20} {times} documents: median {waits[times // 2]:.3f} s, slowest {waits[-1]:.3f} s"
            )
        writer.close()


def wait_for_new(writer, reader, name):
    writer.add([{"id": name, "text": f"The code of {name} is {name}."}])
    began = time.monotonic()
    while name not in reader.context(f"what is the code of {name}?", k=3).text:
        time.sleep(0.005)
    return time.monotonic() - began


def server_cpu(server):
    """CPU seconds of the server and all its processes, those that ended included."""
    return tree_cpu_seconds(int((server.data / "postmaster.pid").read_text().split()[0]))


GATEWAY = """
import random, sys
from millgate import Millgate
gate = Millgate.open(sys.argv[1])
rng = random.Random(sys.argv[2])
step = 0
while True:
    name = f"{sys.argv[2]}-{step}"
    gate.add([{"id": name, "text": f"The code of {name} is {name}."}])
    print("added", name, flush=True)
    if step % 3 == 0:
        found = gate.context(f"what is the code of {name}?", k=3)
        print("found" if name in found.text else "missed", name, flush=True)
    step += 1
"""


class Gateway(threading.Thread):
    """A gateway as a process of its own, and what it has printed."""

    def __init__(self, url, name):
        super().__init__()
        self.added, self.missed, self.answers = set(), [], 0
        self.process = subprocess.Popen(
            [sys.executable, "-c", GATEWAY, url, name], stdout=subprocess.PIPE, text=True
        )
        self.start()

    def run(self):
        for line in self.process.stdout:
            what, _, name = line.strip().partition(" ")
            if what == "added" and line.endswith("\n"):
                self.added.add(name)
            self.answers += what == "found"
            if what == "missed":
                self.missed.append(name)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.join()


def kill_gateways(server, kills):
    with tempfile.TemporaryDirectory() as temporary:
        steady = Gateway(f"{server.url}?cache={temporary}/steady", "steady")
        added, missed = set(), []
        for n in range(kills):
            victim = Gateway(f"{server.url}?cache={temporary}/victim", f"victim{n}")
            while len(victim.added) < 5:
                time.sleep(0.01)
            time.sleep(random.Random(n).random())
            before = len(steady.added)
            victim.end()
            while len(steady.added) < before + 3:
                time.sleep(0.01)  # the other goes on
            added |= victim.added
            missed += victim.missed
        steady.end()
        added |= steady.added
        missed += steady.missed
        with Millgate.open(f"{server.url}?cache={temporary}/last") as gate:
            held = gate.store.digests("default", "main")
            lost = added - held.keys()
            print(f"{kills} kills: {len(added):,} acknowledged writes, {len(lost)} lost; "
                  f"{steady.answers:,} answers of the other gateway, {len(missed)} wrong")  # fmt: skip


def restart_server(server, times):
    with tempfile.TemporaryDirectory() as temporary:
        gate = Millgate.open(f"{server.url}?cache={temporary}/a&timeout_s=20")
        done, counts, slowest, added = threading.Event(), {}, [0.0], []

        def work(number):
            step = 0
            while not done.is_set():
                began, outcome = time.monotonic(), "ok"
                try:
                    name = f"{number}-{step}"
                    gate.add([{"id": name, "text": f"The code of {name} is {name}."}])
                    added.append(name)
                    context = gate.context(f"what is the code of {name}?", k=3)
                    outcome = "degraded" if context.degraded else "ok"
                except MillgateError as error:
                    outcome = type(error).__name__
                counts[outcome] = counts.get(outcome, 0) + 1
                slowest[0] = max(slowest[0], time.monotonic() - began)
                step += 1

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(times):
            time.sleep(2)
            server.stop()
            time.sleep(1)
            server.start()
        time.sleep(2)
        done.set()
        for thread in threads:
            thread.join()
        lost = set(added) - gate.store.digests("default", "main").keys()
        with psycopg.connect(server.admin, autocommit=True) as admin:
            (open_now,) = admin.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'millgate'").fetchone()  # fmt: skip
        gate.close()
    print(f"{times} restarts: {counts}, slowest {slowest[0]:.1f} s, {len(added):,} acknowledged, {len(lost)} lost, {open_now} connections")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("ranking")
    one.add_argument("folder")
    one.add_argument("--queries", type=int, default=50)
    one.set_defaults(run=lambda server, given: compare_rankings(server, given.folder, given.queries))  # fmt: skip
    one = parts.add_parser("ingest")
    one.add_argument("--rows", type=int, default=20_000)
    one.set_defaults(run=lambda server, given: measure_ingest(server, given.rows))
    one = parts.add_parser("freshness")
    one.add_argument("--times", type=int, default=30)
    one.set_defaults(run=lambda server, given: measure_freshness(server, given.times))
    one = parts.add_parser("gateways")
    one.add_argument("--kills", type=int, default=10)
    one.set_defaults(run=lambda server, given: kill_gateways(server, given.kills))
    one = parts.add_parser("restart")
    one.add_argument("--times", type=int, default=3)
    one.set_defaults(run=lambda server, given: restart_server(server, given.times))
    given = parser.parse_args()
    with running_server(options=DURABLE) as server:
        given.run(server, given)


if __name__ == "__main__":
    main()
