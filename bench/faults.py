"""What is left after a kill, a stalled writer and a deleted index: nothing lost, nothing delayed.

    make bench-faults [ARGS="kills --kills 200 --seed 1"]      a worker killed over seven kinds of work: 10 minutes
    make bench-faults ARGS="stalled"                           a writer stopped inside its transaction: 1 minute
    make bench-faults ARGS="rebuild FOLDER"                    a large index made anew: 10 minutes

kills: after each kill the store is opened and checked (database, counts, fingerprints, indexes), every acknowledged
write is looked up, and the rankings are compared with those of an index built anew: ids and scores, bit for bit.
stalled: a service answers over 2 000 documents, by turns without and with a process that holds the write lock and is
stopped by SIGSTOP. It fails if the median with that process is above 1.5 times the usual one.
rebuild: FOLDER is a copy of a store with a large collection (`make bench-stores ARGS="large"` makes one); its index is
deleted. A service is asked for a small collection before and while it makes the large index anew. Halfway it is
killed, and a second one goes on. It fails if p99 is above 3 times that before, or if the second one starts over.
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
from bench.fixtures.services import WORDS, serve, stopped_writer, text

from millgate.gateway import Millgate
from millgate.index.folder import folder_of, manifest_seen
from millgate.index.indexes import Indexes
from millgate.operations.check import check
from millgate.pipeline.stages.retrieve import RetrievePolicy, retrieve

STORE_KILLS = 28  # kills of one store, then a new one
ROUNDS = 5
STALLED_RATIO, LONGEST_S = 1.5, 10.0
SMALL, DOCUMENTS = "small", 2_000
REBUILD_RATIO = 3.0
QUIET = {"MILLGATE_SERVICE__RATE": "1000000", "MILLGATE_TRACE__KEEP": "50"}
QUERIES = [f"{a} {b}" for a, b in zip(WORDS, WORDS[3:] + WORDS[:3], strict=True)]


def acknowledge(*words):
    print(*words, flush=True)


# What a worker does until it is killed


def add(gate, rng):
    for n in range(10**6):
        rows = [{"id": f"a{n}-{i}", "text": text(rng)} for i in range(40)]
        gate.add(rows)
        acknowledge("document", *(row["id"] for row in rows))


def update(gate, rng):
    while True:
        id = f"u{rng.randrange(20)}"
        gate.add([{"id": id, "text": text(rng, 600)}])
        acknowledge("document", id)


def remember(gate, rng):
    for n in range(10**6):
        fact = gate.remember(f"Fact {rng.randrange(10**9)} of {rng.choice(WORDS)}").fact
        acknowledge("fact", fact.id)
        gate.feedback(fact.id, helpful=bool(n % 2))


def answer(gate, rng):
    for n in range(10**6):
        review = gate.reviews.ask(f"question {n} {rng.random()}", collection="main", grades={}, reason="?")  # fmt: skip
        gate.reviews.answer(review.id, f"answer {n} of {rng.random()}")
        acknowledge("review", review.id)


def ask(gate, rng):
    while True:
        gate.context(rng.choice(QUERIES))


def remove(gate, rng):
    for n in range(10**6):
        gate.add([{"id": f"r{n}-{i}", "text": text(rng), "collection": "other"} for i in range(60)])
        gate.remove(collection="other", documents=[f"r{n}-{i}" for i in range(0, 60, 2)])
        if n % 4 == 3:
            gate.remove(collection="other", everything=True)
        gate.reindex("other")


def save(gate, rng):
    for n in range(10**6):
        gate.add([{"id": f"s{n}-{i}", "text": text(rng, 12)} for i in range(1100)])
        acknowledge("document", f"s{n}-0", f"s{n}-1099")
        gate.context(rng.choice(QUERIES))


KINDS = {f.__name__: f for f in (add, update, remember, answer, ask, remove, save)}


def work(kind, folder, seed):
    rng = random.Random(seed)
    with Millgate.open(folder, trace={"keep": 40}) as gate:
        acknowledge("open")
        KINDS[kind](gate, rng)


# What is left after a kill


def kill_once(kind, folder, rng):
    """Run a worker, kill it at a random moment; what it acknowledged."""
    line = [
        sys.executable,
        "-m",
        "bench.faults",
        "work",
        kind,
        str(folder),
        str(rng.randrange(10**9)),
    ]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(rng.uniform(0.0, 1.5))
    os.kill(process.pid, signal.SIGKILL)
    printed = process.communicate()[0].rpartition("\n")[0]  # a line cut short was not acknowledged
    return [line.split() for line in printed.splitlines()]


def lost(gate, acknowledged):
    """Acknowledged writes that are not there."""
    missing = 0
    for kind, *ids in acknowledged:
        if kind == "document":
            missing += sum(not list(gate.store.scan("default", "main", document=id)) for id in ids)
        elif kind == "fact":
            missing += gate.store.fact("default", ids[0]) is None
        elif kind == "review":
            held = gate.store.review("default", ids[0])
            known = {f"review:{ids[0]}"} <= {tag for f in gate.facts.all() for tag in f.tags}
            missing += held is None or held.status != "answered" or not known
    return missing


def undecided_without_fact(gate):
    tags = {tag for fact in gate.facts.all() for tag in fact.tags}
    return sum(f"review:{r.id}" not in tags for r in gate.reviews.reviews("answered"))


def ranking(view):
    policy = RetrievePolicy()
    return [
        [(c.chunk.id, c.score) for c in retrieve(query, view, policy).kept[:30]]
        for query in QUERIES
    ]


def rankings_differ(gate):
    rebuilt = Indexes(gate.store)
    differ = 0
    for name in gate.collections():
        differ += ranking(gate.index(name)) != ranking(rebuilt.snapshot("default", name))
    rebuilt.close()
    return differ


def run_kills(kills, seed):
    rng, kinds = random.Random(seed), list(KINDS)
    totals = {kind: [0] * 6 for kind in kinds}
    for n in range(kills):
        kind = kinds[n % len(kinds)]
        if n % STORE_KILLS == 0:
            folder = Path(tempfile.mkdtemp())
        acknowledged = kill_once(kind, folder, rng)
        findings = check(folder)
        began = time.perf_counter()
        with Millgate.open(folder) as gate:
            opened = time.perf_counter() - began
            found = (1, len(acknowledged), lost(gate, acknowledged), len(findings),
                     rankings_differ(gate), undecided_without_fact(gate))  # fmt: skip
        print(f"{n + 1:4} {kind:10}", *found[1:], *(f.what for f in findings), file=sys.stderr)
        totals[kind] = [a + b for a, b in zip(totals[kind], found, strict=True)]
        assert opened < 30
        if n % STORE_KILLS == STORE_KILLS - 1 or n == kills - 1:
            shutil.rmtree(folder)
    print(f"{'kind':10} kills acked lost findings rankings half-decided")
    for kind, row in totals.items():
        print(f"{kind:10} {row[0]:5} {row[1]:5} {row[2]:4} {row[3]:8} {row[4]:8} {row[5]:12}")
    bad = sum(sum(row[2:]) for row in totals.values())
    print("nothing was lost" if not bad else f"{bad} FAILURES")
    return bad


# A stalled writer


def ask_some(client, rng, count):
    """The seconds of some contexts."""
    found = []
    for _ in range(count):
        began = time.perf_counter()
        client.post("/v1/context", json={"query": text(rng, 3)}).raise_for_status()
        found.append(time.perf_counter() - began)
    return found


def run_stalled(requests):
    count = requests // ROUNDS
    rng, folder = random.Random(1), Path(tempfile.mkdtemp()) / "kb"
    with Millgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": text(rng)} for n in range(DOCUMENTS)])
    server, url = serve(folder)
    usual, beside = [], []
    try:
        with httpx2.Client(base_url=url, timeout=90) as client:
            ask_some(client, rng, 20)
            for _ in range(ROUNDS):
                usual += ask_some(client, rng, count)
                with stopped_writer(folder):
                    beside += ask_some(client, rng, count)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        shutil.rmtree(folder.parent)
    for name, times in (("usual", usual), ("with a stopped writer", beside)):
        print(f"{name:24} p50 {1000 * statistics.median(times):6.1f} ms, at most {1000 * max(times):7.1f} ms of {len(times)}")  # fmt: skip
    ratio = statistics.median(beside) / statistics.median(usual)
    print(f"ratio of the medians {ratio:.2f}")
    return ratio > STALLED_RATIO or max(beside) > LONGEST_S


# An index that is made anew


def prepare(folder):
    """Add a small collection; a key, the large collection and its tenant."""
    rng = random.Random(3)
    with Millgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": text(rng)} for n in range(DOCUMENTS)], collection=SMALL)
        gate.context(text(rng, 3), collection=SMALL)
        held = gate.collections()
        large = max(held, key=lambda name: held[name].chunks)
        print(f"{large}: {held[large].chunks} chunks")
        return gate.keys.create().token, large, gate.tenant


def ask_small(url, key, seconds, until=lambda: True):
    """Ask for the small collection for some seconds, and until a condition holds: milliseconds, and status codes."""
    rng, took, codes = random.Random(4), [], set()
    last = time.monotonic() + seconds
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=90) as client:  # fmt: skip
        while time.monotonic() < last or not until():
            began = time.perf_counter()
            codes.add(client.post("/v1/context", json={"query": text(rng, 3), "collection": SMALL}).status_code)  # fmt: skip
            took.append(1e3 * (time.perf_counter() - began))
    return sorted(took), codes


def start_building(url, key, collection):
    """Ask once for a collection whose index is missing: the service then builds it."""
    headers = {"authorization": f"Bearer {key}"}
    body = {"query": "anything", "collection": collection}
    httpx2.post(f"{url}/v1/context", json=body, headers=headers, timeout=90)


def is_complete(index):
    try:
        return json.loads((index / "manifest.json").read_text())["complete"]
    except OSError:
        return False


def p99(took):
    return took[int(0.99 * len(took))]


def show(what, took):
    print(f"{what}: {len(took)} requests, p50 {took[len(took) // 2]:.0f} ms, p99 {p99(took):.0f} ms", flush=True)  # fmt: skip


def run_rebuild(folder, seconds):
    key, large, tenant = prepare(folder)
    index = folder_of(folder / "index", tenant, large)
    server, url = serve(folder, **QUIET)
    try:
        ask_small(url, key, 5)
        before, codes = ask_small(url, key, seconds)
        show("before", before)
        server.kill()
        server.wait()
        shutil.rmtree(index, ignore_errors=True)
        server, url = serve(folder, **QUIET)
        ask_small(url, key, 5)
        start_building(url, key, large)
        during, more = ask_small(url, key, seconds, until=lambda: manifest_seen(index))
        show("while the index is made", during)
        server.kill()
        server.wait()
        seen = manifest_seen(index) or 0
        server, url = serve(folder, **QUIET)
        start_building(url, key, large)
        began = time.monotonic()
        time.sleep(5)
        after = manifest_seen(index) or 0
        print(f"killed after {seen} changes; five seconds later {after}")
        rest, last = ask_small(url, key, 1, until=lambda: is_complete(index))
        show(f"while the rest is made, {time.monotonic() - began:.0f} s", rest)
    finally:
        server.kill()
        server.wait()
    ratios = [p99(took) / p99(before) for took in (during, rest)]
    wrong = [f"p99 is {ratio:.1f} times that before" for ratio in ratios if ratio > REBUILD_RATIO]
    wrong += [f"answered {codes | more | last}"] if codes | more | last != {200} else []
    wrong += ["the second service started over"] if after < seen or not seen else []
    print("\n".join(["NOT UNNOTICED", *wrong]) if wrong else "unnoticed")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    faults = parser.add_subparsers(dest="fault")
    kills = faults.add_parser("kills")
    kills.add_argument("--kills", type=int, default=200)
    kills.add_argument("--seed", type=int, default=1)
    stalled = faults.add_parser("stalled")
    stalled.add_argument("--requests", type=int, default=100)
    rebuild = faults.add_parser("rebuild")
    rebuild.add_argument("folder", type=Path)
    rebuild.add_argument("--seconds", type=float, default=30, help="of asking before, and until the kill")  # fmt: skip
    worker = faults.add_parser("work")
    worker.add_argument("kind")
    worker.add_argument("folder", type=Path)
    worker.add_argument("seed", type=int)
    given = parser.parse_args(sys.argv[1:] or ["kills"])
    if given.fault == "work":
        work(given.kind, given.folder, given.seed)
    elif given.fault == "kills":
        sys.exit(bool(run_kills(given.kills, given.seed)))
    elif given.fault == "stalled":
        sys.exit(run_stalled(given.requests))
    else:
        sys.exit(bool(run_rebuild(given.folder, given.seconds)))


if __name__ == "__main__":
    main()
