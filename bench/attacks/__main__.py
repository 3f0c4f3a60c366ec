"""64 attacks on a live service: what others feel meanwhile, how much memory it takes, and whether it still ends.

    make bench-attacks [ARGS="--seconds 5"]              all of them: 9 minutes on a quiet machine
    make bench-attacks ARGS="--only many_turns"          one; --help lists the names

A hostile client, reader, writer or upstream attacks for some seconds. Meanwhile three other processes ask again and
again: /healthz, a context of another tenant, and a stream of another tenant from an honest model. The service has the
memory budget of a machine with 1 GB. An attack fails the run if /healthz took longer than a second, another tenant's
context or stream longer than three, if the service grew by more than its budget and 100 MB, if it answered 500, or if
the attack succeeded. In the end the service is told to stop under attack, and must be gone within its grace time.

The last lines name the worst of everything beside its bound. The exit code is 0 if nothing got through, 1 if something
did, 130 if the run was stopped before its end.
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
from contextlib import asynccontextmanager
from dataclasses import dataclass
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

from millgate.gateway import Millgate

BUDGET_MB = 256
MOST_S = {"health": 1.0, "context": 3.0, "stream": 3.0}  # that others may wait
END_S = 20.0  # the service's own: 10 s for running requests, 2 to send them, 5 for threads, and some for a slow machine
MEMORY_MB = (
    BUDGET_MB + 100.0
)  # what is held in the budget, and what one large request takes while it is worked on
WATCHER = Path(__file__).with_name("watcher.py")


def serve_honest_model():
    """Its process and address."""
    line = [sys.executable, str(WATCHER), "model"]
    model = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    return model, f"http://127.0.0.1:{model.stdout.readline().strip()}/v1"


@dataclass
class Row:
    """What one attack did: how long it went on, the slowest answers to others, the memory, the statuses that it got."""

    name: str
    took: float
    slowest: dict[str, float]
    asked: dict[str, int]
    grown: float
    codes: list[int]
    wrong: list[str]

    def __str__(self):
        felt = "  ".join(f"{kind} {s:5.2f} s of {self.asked[kind]:3}" for kind, s in self.slowest.items())  # fmt: skip
        verdict = "   GOT THROUGH" if self.wrong else ""
        return f"{self.name:24} {self.took:6.1f} s   {felt}   memory {self.grown:+7.1f} MB   {self.codes}{verdict}"


@asynccontextmanager
async def watched(target, pid):
    """Ask as others do, from processes of their own; the moment and the seconds of each answer, by kind."""
    found = {kind: [] for kind in MOST_S}

    async def read(lines, answers):
        async for line in lines:
            answers.append(tuple(map(float, line.split())))

    watchers, readers = [], []
    for kind, answers in found.items():
        line = (kind, target.port, pid, "" if kind == "health" else target.other)
        process = await asyncio.create_subprocess_exec(
            sys.executable, WATCHER, *map(str, line), stdout=subprocess.PIPE
        )
        watchers.append(process)
        readers.append(asyncio.ensure_future(read(process.stdout, answers)))
    try:
        await asked_again(found)
        yield found
    finally:
        for process in watchers:
            process.terminate()
            await process.wait()
        await asyncio.gather(*readers)


async def asked_again(found):
    """Wait until everybody has asked once more and has the answer."""
    now = time.monotonic()
    async with asyncio.timeout(200):  # a watcher gives an answer up after 90 s
        while not all(answers and answers[-1][0] > now for answers in found.values()):  # noqa: ASYNC110  (other programs are waited for)
            await asyncio.sleep(0.02)


async def run(name, target, pid, found):
    """One attack."""
    before, peak = status(pid, "VmRSS") / 1024, []
    target.statuses, target.won = [], []

    async def watch_memory():
        while True:
            peak.append(status(pid, "VmRSS") / 1024)
            await asyncio.sleep(0.05)

    memory = asyncio.ensure_future(watch_memory())
    answered = {kind: len(answers) for kind, answers in found.items()}
    began = time.perf_counter()
    await ATTACKS[name](target)
    took = time.perf_counter() - began
    await asked_again(found)
    memory.cancel()
    seconds = {kind: [s for _, s in answers[answered[kind] :]] for kind, answers in found.items()}
    slowest = {kind: max(s) for kind, s in seconds.items()}
    grown, codes = max(peak) - before, sorted(set(target.statuses))
    wrong = list(target.won)
    wrong += [f"{name}: {kind} took {s:.2f} s" for kind, s in slowest.items() if s > MOST_S[kind]]
    wrong += [f"{name}: {grown:.0f} MB more"] if grown > MEMORY_MB else []
    wrong += [f"{name}: answered 500"] if 500 in codes else []
    asked = {kind: len(s) for kind, s in seconds.items()}
    return Row(name, took, slowest, asked, grown, codes, wrong)


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


async def attack_all(names, seconds, rows):
    """Try each attack, adding its row; what was wrong at the end of the service."""
    upstream = await asyncio.start_server(
        lambda r, w: answer_badly(r, w, lambda: began[0] + seconds), "127.0.0.1", 0
    )
    began = [time.monotonic()]
    port = upstream.sockets[0].getsockname()[1]
    folder = Path(tempfile.mkdtemp()) / "kb"
    with Millgate.open(folder) as gate:
        gate.add([{"id": f"d{n}", "text": f"Refunds of kind {n} are paid within {n} days."} for n in range(200)])  # fmt: skip
        read = gate.keys.create(scopes=("read",)).token
        write = gate.keys.create(scopes=("read", "write")).token
        unused = gate.keys.create(scopes=("read",)).token
        beta = gate.for_tenant("beta")
        beta.add([{"id": f"d{n}", "text": f"Parcel {n} leaves the harbor at {n % 24}."} for n in range(100)])  # fmt: skip
        other = beta.keys.create(scopes=("read",)).token
    model, honest = serve_honest_model()
    upstreams = {
        "hostile": {"url": f"http://127.0.0.1:{port}/v1", "idle_s": 5, "answer_s": 20},
        "honest": {"url": honest, "models": ["honest"]},
    }
    server, url = serve(
        folder,
        MILLGATE_PROXY__UPSTREAMS=json.dumps(upstreams),
        MILLGATE_SERVICE__MEMORY_BYTES=str(BUDGET_MB << 20),
    )
    target = Target(url, read, write, other, unused, seconds)
    try:
        for key in (read, other):  # until the index of each tenant is built
            for _ in range(100):
                if (await target.post("/v1/context", {"query": "refunds"}, key)).status_code != 503:
                    break
                await asyncio.sleep(0.1)
        async with watched(target, server.pid) as found:
            for name in names:
                began[0] = time.monotonic()
                rows.append(await run(name, target, server.pid, found))
                print(rows[-1], flush=True)
        began[0] = time.monotonic()
        return await end_under_attack(server, target)
    finally:
        server.kill()
        server.wait(60)
        model.kill()
        model.wait(60)
        upstream.close()
        shutil.rmtree(folder.parent)


def summarize(rows, wrong, names, took):
    """The last lines: the worst of everything beside its bound, what got through, and how much was tried."""
    for kind, most in MOST_S.items() if rows else ():
        worst = max(rows, key=lambda row: row.slowest[kind])
        yield f"slowest {kind:8} {worst.slowest[kind]:6.2f} s  of {most:.0f}     in {worst.name}"
    if rows:
        worst = max(rows, key=lambda row: row.grown)
        yield f"most memory      {worst.grown:6.0f} MB of {MEMORY_MB:.0f}   in {worst.name}"
    failed = sum(not row.wrong for row in rows)
    yield f"{failed} of {len(names)} attacks failed, in {took // 60:.0f}:{took % 60:02.0f}"
    if len(rows) < len(names):
        yield f"STOPPED before {names[len(rows)]}: the rest was not tried"
    yield "\n".join(["SOMETHING GOT THROUGH", *wrong]) if wrong else "nothing got through"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(ATTACKS))
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    names, rows, began = args.only or list(ATTACKS), [], time.monotonic()
    wrong, is_stopped = [], False
    try:
        wrong = asyncio.run(attack_all(names, args.seconds, rows))
    except KeyboardInterrupt:
        is_stopped = True
    wrong = [line for row in rows for line in row.wrong] + wrong
    print("\n".join(summarize(rows, wrong, names, time.monotonic() - began)))
    sys.exit(bool(wrong) or (130 if is_stopped else 0))


if __name__ == "__main__":
    main()
