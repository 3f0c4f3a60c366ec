"""Many collections under few descriptors: every one is asked, and no request fails.

    python bench/many_collections.py [--collections 5000] [--descriptors 1024]

Each collection gets two chunks; a service then answers one request on each, in random order. It may have
only so many descriptors. Printed are failures, the most descriptors it had, and its memory.
It fails where a request failed, or did not find its text.
"""

import argparse
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

import httpx2
from workload import count_descriptors, serve, status

from headgate.gateway import Headgate

SAMPLE = 100  # requests between two looks at the service


def fill(folder, count):
    rows = (
        {"id": f"{n}-{part}", "text": f"note{n} tells of tide{n * part} at the pier", "collection": f"c{n}"}
        for n in range(count)
        for part in (1, 2)
    )  # fmt: skip
    began = time.process_time()
    with Headgate.open(folder) as gate:
        gate.add(rows)
    print(f"{count:,} collections made in {time.process_time() - began:.0f} s CPU")


def ask_all(url, pid, count):
    """How many requests failed, and the most descriptors that the service had."""
    order = random.Random(3).sample(range(count), count)
    failed, most = 0, 0
    with httpx2.Client(base_url=url, timeout=90) as client:
        for at, n in enumerate(order):
            body = {"query": f"what does note{n} tell", "collection": f"c{n}"}
            answer = client.post("/v1/context", json=body)
            failed += answer.status_code != 200 or f"note{n} " not in answer.text
            if at % SAMPLE == 0:
                most = max(most, count_descriptors(pid))
    return failed, most


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collections", type=int, default=5_000)
    parser.add_argument("--descriptors", type=int, default=1_024)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(folder, given.collections)
        # the service inherits the limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (given.descriptors, given.descriptors))
        server, url = serve(Path(folder))
        try:
            failed, most = ask_all(url, server.pid, given.collections)
            memory = status(server.pid, "VmRSS") / 1024
        finally:
            server.terminate()
            server.communicate()
    print(f"{given.collections:,} requests, {failed} failed; at most {most} of {given.descriptors:,} descriptors; {memory:.0f} MB")  # fmt: skip
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
