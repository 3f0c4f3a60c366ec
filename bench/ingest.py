"""What the store and the way into it cost, in CPU microseconds a chunk.

    python bench/ingest.py [--rows 20000]

Rows of about 500 characters of made-up prose; no index, no embedder. CPU time of this process, not wall time.
"""

import argparse
import json
import random
import tempfile
import time
from pathlib import Path

from headgate.ingest.load import add_files, add_rows
from headgate.stores.sqlite.store import SqliteStore


def prose(rng, words, chars):
    out = []
    while sum(map(len, out)) < chars:
        sentence = " ".join(rng.choices(words, k=rng.randint(6, 18)))
        out.append(sentence.capitalize() + ". ")
    return "".join(out).strip()


def measured(name, action, count=None):
    began = time.process_time()
    result = action()
    spent = time.process_time() - began
    count = count or result.chunks or result.unchanged
    print(f"{name:42s} {spent / count * 1e6:8.1f} µs   {count / spent:10,.0f}/s   of {count:,}")


def main(count):
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefghilmnoprstuv", k=rng.randint(2, 9))) for _ in range(5000)]
    texts = [prose(rng, words, 500) for _ in range(2000)]
    rows = [
        {"id": f"r{n}", "title": "", "text": texts[n % len(texts)] + f" {n}"} for n in range(count)
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
        files = folder / "files"
        files.mkdir()
        for n in range(40):
            parts = [f"## Part {i}\n\n{texts[(n * 50 + i) % len(texts)]}" for i in range(50)]
            (files / f"{n}.md").write_text("\n\n".join(parts))
        store = SqliteStore(folder / "kb")
        try:
            measured("rows into an empty store", lambda: add_rows(store, "t", rows))
            measured("the same rows again (unchanged)", lambda: add_rows(store, "t", rows))
            measured("a JSON lines file", lambda: add_files(store, "u", [folder / "rows.jsonl"]))
            measured("Markdown files, cut into chunks", lambda: add_files(store, "v", [files]))
            measured(
                "the whole change feed", lambda: len(store.changes("t", "main", 0, count)), count
            )
            ids = [rng.choice(rows)["id"] for _ in range(100)]
            measured("100 chunks by id", lambda: store.chunks("t", "main", ids), 100)
            measured("removing the collection", lambda: store.remove("t", "main"), count)
        finally:
            store.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    main(parser.parse_args().rows)
