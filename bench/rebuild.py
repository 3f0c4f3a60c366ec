"""A large index that is made anew: whether requests for other collections notice, and whether it goes on after a kill.

    python bench/rebuild.py FOLDER [--seconds 30]

FOLDER is a store with a large collection (bench/large_store.py makes one); use a copy, since its index is deleted. A
service over it is asked for a small collection, first while nothing else happens and then while it makes the large
index anew. Halfway the service is killed, and a second one goes on. It fails where p99 is more than 3 times what it was
before, or where the second service begins from the start.
"""

import argparse
import json
import random
import shutil
import sys
import time
from pathlib import Path

import httpx2
from workload import serve, text

from headgate.gateway import Headgate
from headgate.index.folder import folder_of, manifest_seen

SMALL, DOCUMENTS = "small", 2_000
MOST = 3.0  # times the p99 of before
QUIET = {"HEADGATE_SERVICE__RATE": "1000000", "HEADGATE_TRACE__KEEP": "50"}


def prepare(folder):
    """A small collection beside the large one, a key, and how many changes the large one has."""
    rng = random.Random(3)
    with Headgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": text(rng)} for n in range(DOCUMENTS)], collection=SMALL)
        gate.context(text(rng, 3), collection=SMALL)
        held = gate.collections()
        large = max(held, key=lambda name: held[name].chunks)
        print(f"{large}: {held[large].chunks} chunks")
        return gate.keys.create().token, large, gate.tenant


def ask(url, key, seconds, until=lambda: True):
    """Ask for the small collection for some seconds, and until something is so: the milliseconds each time, and all
    status codes.
    """
    rng, took, codes = random.Random(4), [], set()
    last = time.monotonic() + seconds
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {key}"}, timeout=90) as client:  # fmt: skip
        while time.monotonic() < last or not until():
            began = time.perf_counter()
            codes.add(client.post("/v1/context", json={"query": text(rng, 3), "collection": SMALL}).status_code)  # fmt: skip
            took.append(1e3 * (time.perf_counter() - began))
    return sorted(took), codes


def begin(url, key, collection):
    """Ask once for a collection whose index is not there: from then on it is made."""
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=30, help="of asking before, and until the kill")  # fmt: skip
    args = parser.parse_args()
    key, large, tenant = prepare(args.folder)
    index = folder_of(args.folder / "index", tenant, large)
    wrong = []
    server, url = serve(args.folder, **QUIET)
    try:
        ask(url, key, 5)
        before, codes = ask(url, key, args.seconds)
        show("before", before)
        server.kill()
        server.wait()
        shutil.rmtree(index, ignore_errors=True)
        server, url = serve(args.folder, **QUIET)
        ask(url, key, 5)
        begin(url, key, large)
        during, more = ask(url, key, args.seconds, until=lambda: manifest_seen(index))
        show("while the index is made", during)
        server.kill()
        server.wait()
        seen = manifest_seen(index) or 0
        server, url = serve(args.folder, **QUIET)
        begin(url, key, large)
        began = time.monotonic()
        time.sleep(5)
        after = manifest_seen(index) or 0
        print(f"killed after {seen} changes; five seconds later {after}")
        rest, last = ask(url, key, 0, until=lambda: is_complete(index))
        show(f"while the rest is made, {time.monotonic() - began:.0f} s", rest)
    finally:
        server.kill()
        server.wait()
    ratios = [p99(took) / p99(before) for took in (during, rest)]
    wrong += [f"p99 was {ratio:.1f} times what it was before" for ratio in ratios if ratio > MOST]
    wrong += [f"answered {codes | more | last}"] if codes | more | last != {200} else []
    wrong += ["the index began from the start"] if after < seen or not seen else []
    print("\n".join(["NOT UNNOTICED", *wrong]) if wrong else "unnoticed")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
