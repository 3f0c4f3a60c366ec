"""The suite: `make bench [FULL=1] [DATA=DIR] [STREAMS=FILE]` runs the benchmarks and writes docs/benchmarks.md.

Quick (the default, at most ten minutes on two cores) goes up to 100 000 chunks; FULL=1 to a million. DATA is a folder
of labeled retrieval sets, STREAMS a file of labeled model streams: without them the page has speed and growth alone.
"""

import argparse
import contextlib
import datetime as dt
import importlib.metadata
import json
import os
import platform
import re
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
PYTHON = sys.executable


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--data", default="")
    parser.add_argument("--streams", default="")
    given = parser.parse_args()
    began = time.monotonic()
    parts = [head(given)]
    with tempfile.TemporaryDirectory() as empty:
        data = given.data or empty
        parts += [grow_corpus(data, full=given.full), grow_window(data)]
        parts += [grow_stream(data, full=given.full)]
    parts += [section(*each) for each in sections(given)]
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

`make bench` wrote this page ({mode} mode; `make bench FULL=1` goes up to a million chunks). Every peer ran in the same run, on the
same texts and the same machine. Times are CPU time. They depend on the machine, so read the ratios, and how the curves rise. The
pages of the single parts have more figures, each with its command.

| | |
|---|---|
| date | {dt.datetime.now(dt.UTC):%Y-%m-%d} |
| machine | {os.cpu_count()} cores, {platform.machine()}, {platform.system()} |
| Python | {platform.python_version()} |
| packages | {", ".join(versions)} |
"""


# -- growth ----------------------------------------------------------------------------------------


def grow_corpus(data, *, full):
    say("growth: corpus")
    rows = list(growth.corpus(data, (10_000, 100_000, 1_000_000) if full else (10_000, 100_000)))
    draw(rows, ("context()", "retrieve alone", "SQLite FTS5"), "corpus", title="A request over a growing corpus", x="chunks", y="CPU ms")  # fmt: skip
    text = "A whole request, its ranking alone, and the 100 best by BM25 from SQLite's full-text index. Median of 30 queries of nine words."
    columns = ("chunks", "context(), ms", "retrieve alone, ms", "FTS5, ms", "FTS5 / retrieve")
    shown = [(f"{n:,}", f"{a:.1f}", f"{b:.2f}", f"{c:.2f}", f"{c / b:.1f}") for n, a, b, c in rows]
    return plotted("Cost against the size of the corpus", "corpus", text, columns, shown)


def grow_window(data):
    say("growth: window")
    rows = list(growth.window(data, (1_000, 10_000, 100_000, 1_000_000)))
    draw(rows, ("headgate", "difflib"), "window", title="100 chunks against a growing window", x="tokens in the window", y="CPU ms")  # fmt: skip
    text = "How much of 100 chunks does the window already hold? The window's index is built anew each time. difflib compares text with text; its figure is scaled up from 30 pairs."
    columns = ("tokens", "ours, ms", "difflib, ms", "difflib / ours")
    shown = [(f"{n:,}", f"{a:.1f}", f"{b:,.0f}", f"{b / a:,.0f}") for n, a, b in rows]
    return plotted("Cost against the size of the window", "window", text, columns, shown)


def grow_stream(data, *, full):
    say("growth: stream")
    rows = list(growth.stream(data, (10_000, 100_000, 1_000_000, *((10_000_000,) if full else ()))))
    draw(rows, ("headgate", "pattern over the last 2 000 characters"), "stream", title="Following a growing stream", x="characters", y="CPU µs a chunk")  # fmt: skip
    text = "The loop detector over a stream without loops, in chunks of four characters, beside what people write first: a regular expression for three copies at the end, after every tenth chunk."
    columns = ("characters", "ours, µs a chunk", "pattern, µs a chunk", "pattern / ours")
    shown = [(f"{n:,}", f"{a:.2f}", *(("–", "–") if b is None else (f"{b:,.0f}", f"{b / a:,.0f}"))) for n, a, b in rows]  # fmt: skip
    return plotted("Cost against the length of the stream", "stream", text, columns, shown)


def draw(rows, names, image, **labels):
    IMAGES.mkdir(exist_ok=True)
    growth.plot(rows, names, IMAGES / f"growth-{image}.png", **labels)


def plotted(title, image, text, columns, rows):
    picture = f"![{title}](../images/growth-{image}.png)"
    return "\n".join([f"## {title}\n", f"{text}\n", f"{picture}\n", table(columns, rows), ""])


def table(columns, rows):
    lines = ["| " + " | ".join(row) + " |" for row in (columns, *rows)]
    return "\n".join([lines[0], "|---" * len(columns) + "|", *lines[1:]])


# -- the other benchmarks of a run -----------------------------------------------------------------


def sections(given):
    """A title, what is compared, what to call, and how its output is shown."""
    yield "Start-up", "CPU seconds of whole processes from a cold start, beside what Python and two packages take by themselves.", [PYTHON, "bench/startup.py"], as_text  # fmt: skip
    yield "The window, beside other libraries", "What [the window](window.md) says of a chunk, and how long that takes, beside MinHash and SimHash libraries.", [PYTHON, "bench/window.py"], as_markdown  # fmt: skip
    yield "Circles of tool calls", "Our rule beside the usual one, the same call three times ([tools](tools.md)).", [PYTHON, "bench/tools.py", "--sessions", "1000" if given.full else "200"], as_text  # fmt: skip
    if given.data:
        sets = sorted(str(path.parent) for path in Path(given.data).glob("*/corpus.jsonl"))
        sample = [] if given.full else ["--questions", "20", "--foreign", "10"]
        yield "Retrieval beside BM25", "The share of the labeled evidence inside 1 000 tokens: BM25 filling the budget, and `context()`. *Empty* are answerable questions that got nothing, *stopped* are questions of other sets that got nothing ([retrieval](retrieval.md#what-it-finds)).", [PYTHON, "-m", "headgate", "eval", "retrieval", *sets, "--budget", "1000", *sample, "--json"], as_evidence  # fmt: skip
    if given.streams:
        yield "Loops in streams of a model", "The loop detector on labeled streams ([guard](guard-figures.md)).", [PYTHON, "-m", "headgate", "eval", "guard", given.streams], as_text  # fmt: skip
    if given.full:
        yield "The proxy beside LiteLLM's", "CPU a streamed chunk ([proxy](proxy.md#what-it-costs)).", [PYTHON, "bench/proxy.py"], as_text  # fmt: skip


def section(title, text, command, show):
    """What a benchmark prints, as a section. One that fails says so."""
    say(title)
    wide = {**os.environ, "COLUMNS": "180"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=wide)
    shown = " ".join(shorten(command[1:]))
    opening = f"## {title}\n\n{text}\n\n`python {shown}`\n"
    if done.returncode:
        return f"{opening}\nIt failed with {done.returncode}:\n\n{as_text(done.stderr.strip()[-500:])}\n"
    return f"{opening}\n{show(done.stdout.strip())}\n"


def shorten(words):
    """A command for the page: several folders as one word, files by their names."""
    folders = [word for word in words if Path(word).is_dir()]
    for word in words:
        if word in folders[1:]:
            continue
        if word in folders:
            yield "DIR..." if len(folders) > 1 else "DIR"
        else:
            yield Path(word).name if Path(word).is_absolute() else word


def as_text(output):
    return f"```text\n{output}\n```"


def as_markdown(output):
    return re.sub("^## ", "### ", output, flags=re.MULTILINE)


def as_evidence(output):
    """The figures of all sets as one table, a line each, and their mean."""
    found = json.loads(output)
    rows = []
    for name, figures in found["sets"].items():
        bm25 = figures["baselines"]["bm25"]
        values = (bm25["framed_evidence@1000"], figures["context_evidence@1000"], bm25["ndcg@10"], figures["ndcg@10"], figures["empty@1000"], figures["stopped"])  # fmt: skip
        rows.append((name, str(figures["queries"]), *values))
    means = [sum(column) / len(rows) for column in list(zip(*rows, strict=True))[2:]]
    rows.append(("**mean**", "", *means))
    columns = ("set", "questions", "BM25", "context()", "nDCG@10, BM25", "nDCG@10, ours", "empty", "stopped")  # fmt: skip
    return table(columns, [(*row[:2], *(f"{value:.3f}" for value in row[2:])) for row in rows])


def say(what):
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
