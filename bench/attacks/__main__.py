"""56 attacks on a live service: whether it still serves others, and how much memory it takes.

    make bench-attacks [ARGS="--seconds 5"]              all of them: 10 minutes
    make bench-attacks ARGS="--only many_turns"          one; --help lists the names

A hostile client, reader, writer or upstream attacks for some seconds, while a second client asks /healthz ten times a
second. The service has the memory budget of a machine with 1 GB. An attack fails the run if /healthz took longer than
a second, if the service grew by more than its budget and 100 MB, if it answered 500, or if the attack succeeded.
"""

import argparse
import asyncio
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from bench.attacks import (  # noqa: F401  (importing a file registers its attacks)
    callers,
    connections,
    crowds,
    files,
    routes,
    windows,
)
from bench.attacks.target import ATTACKS, Target
from bench.attacks.upstreams import answer_badly
from bench.fixtures.services import serve, status

from headgate.gateway import Headgate

HEALTH_S, BUDGET_MB = 1.0, 256
MEMORY_MB = (
    BUDGET_MB + 100.0
)  # what is held in the budget, and what one large request takes while it is worked on

WATCHER = """
import http.client, sys, time
worst, port = 0.0, int(sys.argv[1])
while True:
    began = time.perf_counter()
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        link.request("GET", "/healthz")
        good = link.getresponse().status == 200
        link.close()
    except OSError:
        good = False
    print(time.perf_counter() - began if good else 999.0, flush=True)
    time.sleep(0.1)
"""


@contextmanager
def watched_health(port, found):
    """Ask /healthz again and again, from a process of its own, over a new connection each time; the seconds it took."""
    watcher = subprocess.Popen(
        [sys.executable, "-c", WATCHER, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        yield
    finally:
        watcher.terminate()
        found += [float(line) for line in watcher.communicate()[0].splitlines()]


async def run(name, target, pid):
    """One attack; what was wrong."""
    before, seconds, peak = status(pid, "VmRSS") / 1024, [], []
    target.statuses, target.won = [], []

    async def watch_memory():
        while True:
            peak.append(status(pid, "VmRSS") / 1024)
            await asyncio.sleep(0.05)

    memory = asyncio.ensure_future(watch_memory())
    with watched_health(target.port, seconds):
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await ATTACKS[name](target)
        took = time.perf_counter() - began
        await asyncio.sleep(0.5)
    memory.cancel()
    grown, slowest = max(peak) - before, max(seconds)
    codes = sorted(set(target.statuses))
    print(f"{name:20} {took:6.1f} s   /healthz {slowest:6.2f} s of {len(seconds):3}   memory {grown:+7.1f} MB   {codes}", flush=True)  # fmt: skip
    wrong = list(target.won)
    wrong += [f"{name}: /healthz took {slowest:.2f} s"] if slowest > HEALTH_S else []
    wrong += [f"{name}: {grown:.0f} MB more"] if grown > MEMORY_MB else []
    wrong += [f"{name}: answered 500"] if 500 in codes else []
    return wrong


async def attack_all(names, seconds):
    upstream = await asyncio.start_server(
        lambda r, w: answer_badly(r, w, lambda: began[0] + seconds), "127.0.0.1", 0
    )
    began = [time.monotonic()]
    port = upstream.sockets[0].getsockname()[1]
    folder = Path(tempfile.mkdtemp()) / "kb"
    with Headgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": f"Refunds of kind {n} are paid within {n} days."} for n in range(200)])  # fmt: skip
        read = gate.keys.create(scopes=("read",)).token
        write = gate.keys.create(scopes=("read", "write")).token
    upstreams = {"hostile": {"url": f"http://127.0.0.1:{port}/v1", "idle_s": 5, "answer_s": 20}}
    server, url = serve(
        folder,
        HEADGATE_PROXY__UPSTREAMS=json.dumps(upstreams),
        HEADGATE_SERVICE__MEMORY_BYTES=str(BUDGET_MB << 20),
    )
    target = Target(url, read, write, seconds)
    wrong = []
    try:
        await target.post("/v1/context", {"query": "refunds"})
        for name in names:
            began[0] = time.monotonic()
            wrong += await run(name, target, server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        upstream.close()
        shutil.rmtree(folder.parent)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(ATTACKS))
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    wrong = asyncio.run(attack_all(args.only or list(ATTACKS), args.seconds))
    print("every attack failed" if not wrong else "\n".join(["SOMETHING GOT THROUGH", *wrong]))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
