"""A gateway under 100 sessions at once, killed and started again: no session spends more than its cap and one call."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from tests.proxy.upstream import said
from tests.waiting import MOST_S

SESSIONS, CAP, CALL = 100, 1_000, 200


@pytest.fixture
def gateway(rig, tmp_path):
    """Starts `millgate serve` as a process of its own, over the same store and port each time."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environ = os.environ | {
        "MILLGATE_STORE": str(tmp_path / "kb"),
        "MILLGATE_SERVICE__PORT": str(port),
        "MILLGATE_SERVICE__LOG": "false",
        "MILLGATE_PROXY__UPSTREAMS": json.dumps({"main": {"url": rig.at().url}}),
        "MILLGATE_FUSE__CAPS": json.dumps({"session": {"tokens": CAP}}),
    }
    running = []

    def start():
        command = [sys.executable, "-m", "millgate", "serve"]
        running.append(subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))  # fmt: skip
        last = time.monotonic() + MOST_S
        while time.monotonic() < last:
            try:
                if (
                    httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False).status_code
                    == 200
                ):
                    return running[-1]
            except httpx2.HTTPError:
                time.sleep(0.1)
        raise AssertionError("the gateway never came up")

    yield f"http://127.0.0.1:{port}", start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_killed_gateway_forgets_nothing(rig, gateway, upstream):
    url, start = gateway
    model = rig.script(said("Well.", usage=(CALL - 50, 50)))
    process, restarted = start(), threading.Event()

    def run(number):
        """One session, until it is refused for its cap; the gateway may go and come back meanwhile."""
        body = {"model": model, "messages": [{"role": "user", "content": "Go on."}], "stream": True,
                "max_tokens": CALL, "prompt_cache_key": f"session-{number}"}  # fmt: skip
        while True:
            try:
                reply = client.post(f"{url}/v1/chat/completions", json=body)
            except httpx2.HTTPError:
                restarted.wait(MOST_S)
                continue
            if reply.status_code in (402, 429):
                return reply.status_code
            assert reply.status_code == 200

    limits = httpx2.Limits(max_connections=SESSIONS)
    with (
        httpx2.Client(timeout=MOST_S, trust_env=False, limits=limits) as client,
        ThreadPoolExecutor(SESSIONS) as pool,
    ):
        ends = [pool.submit(run, number) for number in range(SESSIONS)]
        while len(upstream.seen[model]) < 2 * SESSIONS:  # the first calls wait for the prices
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        start()
        restarted.set()
        statuses = {end.result() for end in ends}
    assert statuses <= {402, 429}
    assert 402 in statuses
    spent = Counter(seen.json["prompt_cache_key"] for seen in upstream.seen[model])
    assert len(spent) == SESSIONS
    assert max(spent.values()) * CALL <= CAP + CALL
    assert min(spent.values()) * CALL >= CAP - CALL
