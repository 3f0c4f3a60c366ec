"""The suite: `make bench [FULL=1] [DATA=DIR] [STREAMS=FILE]` runs the benchmarks and writes docs/benchmarks.md.

Quick (the default, at most ten minutes on two cores) goes up to 100 000 chunks; FULL=1 to a million. DATA is a folder of
labeled retrieval sets, STREAMS a file of labeled model streams: without them the page has speed and growth alone.
"""

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import growth

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "images"
PACKAGES = ("headgate", "numpy", "orjson", "PyStemmer", "aiohttp", "uvicorn")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data", default="")
    parser.add_argument("--streams", default="")
    given = parser.parse_args()
    began = time.monotonic()
    parts = [head(given)]
    with tempfile.TemporaryDirectory() as empty:
        parts += growth_parts(given.data or empty, full=given.full)
    parts += [printed(*each) for each in commands(given)]
    minutes = (time.monotonic() - began) / 60
    parts.append(f"The run took {minutes:.1f} minutes.\n")
    PAGE.write_text("\n".join(parts), encoding="utf-8")
    say(f"wrote {PAGE.relative_to(ROOT)} after {minutes:.1f} minutes")


def head(given):
    versions = []
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions.append(f"{name} {importlib.metadata.version(name)}")
    mode = "full" if given.full else "quick"
    return f"""# Benchmarks

Made by `make bench` ({mode}). Times are CPU time; peers ran in the same run on the same texts. Absolute times depend on the
machine: read the ratios and the slopes.

| | |
|---|---|
| date | {dt.datetime.now(dt.UTC):%Y-%m-%d} |
| machine | {os.cpu_count()} cores, {platform.machine()}, {platform.system()} |
| Python | {platform.python_version()} |
| packages | {", ".join(versions)} |
"""


def growth_parts(data, *, full):
    IMAGES.mkdir(exist_ok=True)
    say("growth: corpus")
    rows = list(growth.corpus(data, (10_000, 100_000, 1_000_000) if full else (10_000, 100_000)))
    growth.plot(rows, ("context()", "retrieve alone", "SQLite FTS5"), IMAGES / "growth-corpus.png", title="A request over a growing corpus", x="chunks", y="CPU ms")  # fmt: skip
    yield table("Cost against the size of the corpus", "growth-corpus.png", ("chunks", "context(), ms", "retrieve alone, ms", "FTS5, ms", "retrieve / FTS5"), [(f"{n:,}", f"{a:.1f}", f"{b:.2f}", f"{c:.2f}", f"{b / c:.2f}") for n, a, b, c in rows])  # fmt: skip
    say("growth: window")
    rows = list(growth.window(data, (1_000, 10_000, 100_000, 1_000_000)))
    growth.plot(rows, ("headgate", "difflib"), IMAGES / "growth-window.png", title="100 chunks against a growing window", x="tokens in the window", y="CPU ms")  # fmt: skip
    yield table("Cost against the size of the window", "growth-window.png", ("tokens", "ours, ms", "difflib, ms (from a sample)", "difflib / ours"), [(f"{n:,}", f"{a:.1f}", f"{b:,.0f}", f"{b / a:,.0f}") for n, a, b in rows])  # fmt: skip
    say("growth: stream")
    rows = list(growth.stream(data, (10_000, 100_000, 1_000_000, *((10_000_000,) if full else ()))))
    growth.plot(rows, ("headgate", "pattern over the last 2 000 characters"), IMAGES / "growth-stream.png", title="Following a growing stream", x="characters", y="CPU µs a chunk")  # fmt: skip
    yield table("Cost against the length of the stream", "growth-stream.png", ("characters", "ours, µs a chunk", "pattern, µs a chunk"), [(f"{n:,}", f"{a:.2f}", "–" if b is None else f"{b:,.1f}") for n, a, b in rows])  # fmt: skip


def table(title, image, head, rows):
    lines = [f"## {title}\n", f"![{title}](../images/{image})\n", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]  # fmt: skip
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])


def commands(given):
    """The other benchmarks of a run: a title, and what to call."""
    python = sys.executable
    yield "Start-up", [python, "bench/startup.py"]
    yield "The window, beside other libraries", [python, "bench/window.py"]
    yield "Circles of tool calls", [python, "bench/tools.py", "--sessions", "1000" if given.full else "200"]  # fmt: skip
    if given.data:
        sets = sorted(str(path.parent) for path in Path(given.data).glob("*/corpus.jsonl"))
        questions = [] if given.full else ["--questions", "10", "--foreign", "10"]
        yield "Retrieval beside BM25", [python, "-m", "headgate.cli", "eval", "retrieval", *sets, *questions]  # fmt: skip
    if given.streams:
        yield "Loops in streams of a model", [python, "-m", "headgate.cli", "eval", "guard", given.streams]  # fmt: skip
    if given.full:
        yield "The proxy beside LiteLLM's", [python, "bench/proxy.py"]


def printed(title, command):
    """What a benchmark prints, as a section. One that fails says so."""
    say(title)
    wide = {**os.environ, "COLUMNS": "180"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=wide)
    text = done.stdout.strip() or done.stderr.strip()[-500:]
    shown = " ".join(Path(part).name if Path(part).is_dir() else part for part in command[1:])
    failed = "" if done.returncode == 0 else f" It failed with {done.returncode}."
    return f"## {title}\n\n`python {shown}`{failed}\n\n```text\n{text}\n```\n"


def say(what):
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
