"""64 attacks on a live service: what others feel meanwhile, how much memory it takes, and whether it still ends.

    make bench-attacks [ARGS="--seconds 5"]              all of them: 10 minutes
    make bench-attacks ARGS="--only many_turns"          one; --help lists the names

A hostile client, reader, writer or upstream attacks for some seconds. Meanwhile three other processes ask again and
again: /healthz, a context of another tenant, and a stream of another tenant from an honest model. The service has the
memory budget of a machine with 1 GB. An attack fails the run if /healthz took longer than a second, another tenant's
context or stream longer than three, if the service grew by more than its budget and 100 MB, if it answered 500, or if
the attack succeeded. In the end the service is told to stop under attack, and must be gone within its grace time.
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
    fields,
    files,
    routes,
    windows,
)
from bench.attacks.target import ATTACKS, Target
from bench.attacks.upstreams import answer_badly
from bench.fixtures.services import serve, status

from headgate.gateway import Headgate

BUDGET_MB = 256
MOST_S = {"health": 1.0, "context": 3.0, "stream": 3.0}  # that others may wait
END_S = 20.0  # the service's own: 10 s for running requests, 2 to send them, 5 for threads, and some for a slow machine
MEMORY_MB = (
    BUDGET_MB + 100.0
)  # what is held in the budget, and what one large request takes while it is worked on
WATCHER = Path(__file__).with_name("watcher.py")


def watcher(*arguments):
    """A process of watcher.py."""
    line = [sys.executable, str(WATCHER), *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


@contextmanager
def watched(target, pid, found):
    """Ask as others do, from processes of their own; the seconds that each answer took, by kind."""
    watchers = {kind: watcher(kind, target.port, pid, "" if kind == "health" else target.other) for kind in MOST_S}  # fmt: skip
    try:
        yield
    finally:
        for kind, process in watchers.items():
            process.terminate()
            found[kind] = [float(line) for line in process.communicate()[0].splitlines()]


async def run(name, target, pid):
    """One attack; what was wrong."""
    before, seconds, peak = status(pid, "VmRSS") / 1024, {}, []
    target.statuses, target.won = [], []

    async def watch_memory():
        while True:
            peak.append(status(pid, "VmRSS") / 1024)
            await asyncio.sleep(0.05)

    memory = asyncio.ensure_future(watch_memory())
    with watched(target, pid, seconds):
        await asyncio.sleep(0.5)
        began = time.perf_counter()
        await ATTACKS[name](target)
        took = time.perf_counter() - began
        await asyncio.sleep(0.5)
    memory.cancel()
    grown, slowest = max(peak) - before, {kind: max(s, default=0.0) for kind, s in seconds.items()}
    codes = sorted(set(target.statuses))
    felt = "  ".join(f"{kind} {s:5.2f} s of {len(seconds[kind]):3}" for kind, s in slowest.items())
    print(f"{name:24} {took:6.1f} s   {felt}   memory {grown:+7.1f} MB   {codes}", flush=True)
    wrong = list(target.won)
    wrong += [f"{name}: {kind} took {s:.2f} s" for kind, s in slowest.items() if s > MOST_S[kind]]
    wrong += [f"{name}: {grown:.0f} MB more"] if grown > MEMORY_MB else []
    wrong += [f"{name}: answered 500"] if 500 in codes else []
    return wrong


async def end_under_attack(server, target):
    """Tell the service to stop while it is attacked; what was wrong."""
    attacks = [asyncio.ensure_future(ATTACKS[name](target)) for name in ("one_tenants_crowd", "deep_folders")]  # fmt: skip
    await asyncio.sleep(1.0)
    began = time.perf_counter()
    server.send_signal(signal.SIGTERM)
    await asyncio.to_thread(server.wait, 120)
    took = time.perf_counter() - began
    for attack in attacks:
        attack.cancel()
    await asyncio.gather(*attacks, return_exceptions=True)
    print(f"{'SIGTERM under attack':24} {took:6.1f} s   exit code {server.returncode}", flush=True)
    return [f"the service ended {took:.1f} s after SIGTERM"] if took > END_S else []


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
        beta = gate.for_tenant("beta")
        beta.add([{"id": f"d{n}", "text": f"Parcel {n} leaves the harbor at {n % 24}."} for n in range(100)])  # fmt: skip
        other = beta.keys.create(scopes=("read",)).token
    model = watcher("model")
    honest = f"http://127.0.0.1:{model.stdout.readline().strip()}/v1"
    upstreams = {
        "hostile": {"url": f"http://127.0.0.1:{port}/v1", "idle_s": 5, "answer_s": 20},
        "honest": {"url": honest, "models": ["honest"]},
    }
    server, url = serve(
        folder,
        HEADGATE_PROXY__UPSTREAMS=json.dumps(upstreams),
        HEADGATE_SERVICE__MEMORY_BYTES=str(BUDGET_MB << 20),
    )
    target = Target(url, read, write, other, seconds)
    wrong = []
    try:
        for key in (read, other):  # until the index of each tenant is built
            for _ in range(100):
                if (await target.post("/v1/context", {"query": "refunds"}, key)).status_code != 503:
                    break
                await asyncio.sleep(0.1)
        for name in names:
            began[0] = time.monotonic()
            wrong += await run(name, target, server.pid)
        began[0] = time.monotonic()
        wrong += await end_under_attack(server, target)
    finally:
        server.kill()
        server.wait(60)
        model.kill()
        model.wait(60)
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
