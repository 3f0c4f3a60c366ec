"""A writer, and a series of kills: run as a script so that a kill never touches the test process.

crash.py write FOLDER NAME COUNT     put COUNT batches, acknowledging each on standard output
crash.py kill FOLDER SEED ROUNDS     fork a writer, kill it at a random moment, check; again
"""

import os
import random
import shutil
import signal
import sqlite3
import sys
import time
from pathlib import Path

from millgate.stores.sqlite.store import FILE, SqliteStore
from millgate.testing.samples import document, follow

PARTS = 20


def write(folder, name, count, say):
    """Each batch: new documents, one that changes its length every time, and attachments."""
    store = SqliteStore(folder)
    say(-1)
    for n in range(count):
        batch = [document(f"{name}-{n}-{i}", f"text {n} {i} " * 20, "end") for i in range(PARTS)]
        batch.append(document(f"{name}-turning", *(f"version {n} {p}" for p in range(n % 4 + 1))))
        store.put("t", batch)
        store.attach("t", "main", "print/1", {f"{name}-{n}-{i}#0": b"x" * 50 for i in range(PARTS)})
        say(n)
    store.close()


def check(folder, acknowledged):
    """The store opens, is sound, holds all that was acknowledged, and its feed and sizes agree."""
    store = SqliteStore(folder)
    raw = sqlite3.connect(folder / FILE)
    assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    raw.close()
    held = {chunk.id: chunk for chunk in store.scan("t", "main")}
    missing = {
        f"{name}-{n}-{i}#{part}"
        for name, last in acknowledged.items()
        for n in range(last + 1)
        for i in range(PARTS)
        for part in (0, 1)
    } - held.keys()
    assert not missing, sorted(missing)[:5]
    assert follow(store, "t", "main", limit=5000) == held
    size = store.collections("t").get("main")
    assert (size.chunks if size else 0) == len(held)
    assert (size.chars if size else 0) == sum(len(chunk.text) for chunk in held.values())
    assert (size.documents if size else 0) == len(store.digests("t", "main"))
    store.close()


def kill(folder, seed, rounds):
    """How many batches were acknowledged before the kills, in all."""
    rng = random.Random(seed)
    total = 0
    for series in range(0, rounds, 5):
        home = folder / f"{seed}-{series}"
        acknowledged = {}
        for n in range(series, min(series + 5, rounds)):
            acknowledged[f"w{n}"] = killed(home, f"w{n}", rng)
            check(home, acknowledged)
        total += sum(last + 1 for last in acknowledged.values())
        shutil.rmtree(home)
    return total


def killed(home, name, rng):
    """Fork a writer and kill it; the last batch it acknowledged."""
    inlet, outlet = os.pipe()
    child = os.fork()
    if child == 0:
        write(home, name, 100_000, lambda n: os.write(outlet, b"%d\n" % n))
    os.close(outlet)
    with os.fdopen(inlet) as said:
        last = 0
        # as many as are waited for, not as the machine is quick enough to write
        for _ in range(1 + rng.randrange(4)):
            last = int(said.readline())
        time.sleep(rng.uniform(0.0, 0.05))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return max(map(int, said.read().split()), default=last)


if __name__ == "__main__":
    what, folder, *rest = sys.argv[1:]
    if what == "write":
        write(Path(folder), rest[0], int(rest[1]), lambda n: print(n, flush=True))
    else:
        print(kill(Path(folder), int(rest[0]), int(rest[1])))
