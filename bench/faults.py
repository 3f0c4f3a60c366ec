"""Kill a worker at random moments, over all kinds of work, and see what is left.

    python bench/faults.py --kills 200

After each kill the store is opened and checked (database, counts, fingerprints, indexes), every acknowledged write is
looked up, and the rankings of its index are compared with those of an index built anew: ids and scores, bit for bit.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workload import WORDS, text

from headgate.gateway import Headgate
from headgate.index.indexes import Indexes
from headgate.operations.check import check
from headgate.stages.retrieve import RetrievePolicy, retrieve

QUERIES = [f"{a} {b}" for a, b in zip(WORDS, WORDS[3:] + WORDS[:3], strict=True)]


def say(*words):
    print(*words, flush=True)


def add(gate, rng):
    for n in range(10**6):
        rows = [{"id": f"a{n}-{i}", "text": text(rng)} for i in range(40)]
        gate.add(rows)
        say("document", *(row["id"] for row in rows))


def update(gate, rng):
    while True:
        id = f"u{rng.randrange(20)}"
        gate.add([{"id": id, "text": text(rng, 600)}])
        say("document", id)


def remember(gate, rng):
    for n in range(10**6):
        fact = gate.remember(f"Fact {rng.randrange(10**9)} of {rng.choice(WORDS)}").fact
        say("fact", fact.id)
        gate.feedback(fact.id, helpful=bool(n % 2))


def answer(gate, rng):
    for n in range(10**6):
        review = gate.reviews.ask(f"question {n} {rng.random()}", collection="main", grades={}, reason="?")  # fmt: skip
        gate.reviews.answer(review.id, f"answer {n} of {rng.random()}")
        say("review", review.id)


def ask(gate, rng):
    while True:
        gate.context(rng.choice(QUERIES))


def remove(gate, rng):
    for n in range(10**6):
        gate.add([{"id": f"r{n}-{i}", "text": text(rng), "collection": "other"} for i in range(60)])
        gate.remove(collection="other", documents=[f"r{n}-{i}" for i in range(0, 60, 2)])
        if n % 4 == 3:
            gate.remove(collection="other")
        gate.reindex("other")


def save(gate, rng):
    for n in range(10**6):
        gate.add([{"id": f"s{n}-{i}", "text": text(rng, 12)} for i in range(1100)])
        say("document", f"s{n}-0", f"s{n}-1099")
        gate.context(rng.choice(QUERIES))


KINDS = {f.__name__: f for f in (add, update, remember, answer, ask, remove, save)}


def work(kind, folder, seed):
    rng = random.Random(seed)
    with Headgate.open(folder, trace={"keep": 40}) as gate:
        say("open")
        KINDS[kind](gate, rng)


def kill_once(kind, folder, rng):
    """Run a worker, kill it at a random moment; what it acknowledged."""
    line = [sys.executable, __file__, "--work", kind, str(folder), str(rng.randrange(10**9))]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(rng.uniform(0.0, 1.5))
    os.kill(process.pid, signal.SIGKILL)
    said = process.communicate()[0].rpartition("\n")[0]  # a line cut short was not acknowledged
    return [line.split() for line in said.splitlines()]


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", nargs=3)
    args = parser.parse_args()
    if args.work:
        work(args.work[0], Path(args.work[1]), int(args.work[2]))
        return
    rng, kinds = random.Random(args.seed), list(KINDS)
    totals = {kind: [0] * 6 for kind in kinds}
    for n in range(args.kills):
        kind = kinds[n % len(kinds)]
        if n % 28 == 0:
            folder = Path(tempfile.mkdtemp())
            former = folder
        acknowledged = kill_once(kind, folder, rng)
        findings = check(folder)
        began = time.perf_counter()
        with Headgate.open(folder) as gate:
            opened = time.perf_counter() - began
            found = (1, len(acknowledged), lost(gate, acknowledged), len(findings),
                     rankings_differ(gate), undecided_without_fact(gate))  # fmt: skip
        print(f"{n + 1:4} {kind:10}", *found[1:], *(f.what for f in findings), file=sys.stderr)
        totals[kind] = [a + b for a, b in zip(totals[kind], found, strict=True)]
        assert opened < 30
        if n % 28 == 27 or n == args.kills - 1:
            shutil.rmtree(former)
    print(f"{'kind':10} kills acked lost findings rankings half-decided")
    for kind, row in totals.items():
        print(f"{kind:10} {row[0]:5} {row[1]:5} {row[2]:4} {row[3]:8} {row[4]:8} {row[5]:12}")
    bad = sum(sum(row[2:]) for row in totals.values())
    print("nothing was lost" if not bad else f"{bad} FAILURES")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
