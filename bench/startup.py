"""Start-up: CPU of whole commands from a cold start, and of what some of them import, in the same run.

    make bench-startup [ARGS="--chunks 10000 --runs 5"]      1 minute

Prints medians of user and system seconds, and the bar that a command must stay under. Wall time is left out, since it
depends on the other work of the machine. For `wrap` it is what wrap used before the agent runs, for `mcp` what it used
before it has answered `initialize` (both need Linux).
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from millgate import Millgate

QUESTION = "how are refunds for late parcels paid?"
BARS = {"millgate --help": 0.1, "millgate context": 0.6, "millgate wrap": 0.3, "millgate mcp": 0.3}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}  # fmt: skip
TICKS = os.sysconf("SC_CLK_TCK")


def cpu(command: list[str]) -> float:
    """User and system seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONUNBUFFERED": ""})  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def seconds_in(stat: str) -> float:
    """User and system seconds of a process so far, from its /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def wrap_cpu(run: list[str]) -> float:
    """What wrap has used when its agent runs: the agent here looks at its parent."""
    agent = ["sh", "-c", "cat /proc/$PPID/stat"]
    done = subprocess.run([*run, "wrap", "--quiet", *agent], check=True, capture_output=True, text=True)  # fmt: skip
    return seconds_in(done.stdout)


def mcp_cpu(run: list[str], store: Path) -> float:
    """What the MCP server has used when it has answered `initialize`."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    with subprocess.Popen([*run, "mcp", "--store", str(store)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(asked).encode() + b"\n")
        server.stdin.flush()
        server.stdout.readline()
        used = seconds_in(Path(f"/proc/{server.pid}/stat").read_text())
        server.stdin.close()
    return used


def fill(store: Path, chunks: int) -> None:
    """A store of chunks with the word statistics of text: few words are frequent, many are rare."""
    chance = random.Random(7)
    words = ["".join(chance.choices("aeioubcdfglmnprst", k=chance.randint(3, 9))) for _ in range(20_000)]  # fmt: skip

    def text() -> str:
        return " ".join(words[min(int(chance.paretovariate(0.6)), len(words)) - 1] for _ in range(90))  # fmt: skip

    with Millgate.open(store) as gate:
        gate.add({"id": f"d{n}", "text": f"{text()}. Refunds of kind {n} are paid late."} for n in range(chunks))  # fmt: skip
        gate.context(QUESTION)  # the index is made and saved


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    run = [sys.executable, "-m", "millgate"]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder, "kb")
        fill(store, asked.chunks)
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "import numpy": [sys.executable, "-c", "import numpy"],
            "import pydantic": [sys.executable, "-c", "from pydantic import BaseModel"],
            "wrap's gateway": [sys.executable, "-c", "import millgate.wrap.gateway"],
            "millgate --help": [*run, "--help"],
            "millgate context": [*run, "context", QUESTION, "--store", str(store)],
        }
        for command in commands.values():
            cpu(command)  # files are read and compiled once
        print(f"CPU seconds, median of {asked.runs} runs; context over {asked.chunks:,} chunks")
        for name, command in commands.items():
            seconds = statistics.median(cpu(command) for _ in range(asked.runs))
            bar = f"   bar {BARS[name]:.2f}" if name in BARS else ""
            print(f"{name:<18} {seconds:.3f}{bar}")
        for name, measure in (
            ("millgate wrap", lambda: wrap_cpu(run)),
            ("millgate mcp", lambda: mcp_cpu(run, store)),
        ):
            seconds = statistics.median(measure() for _ in range(asked.runs))
            print(f"{name:<18} {seconds:.3f}   bar {BARS[name]:.2f}")


if __name__ == "__main__":
    main()
