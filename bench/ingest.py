"""Adding documents: CPU a chunk, as a whole and step by step, and false alarms of redaction.

    make bench-ingest [ARGS="DIR --steps"]                    2 minutes
    make bench-ingest ARGS="--redact FOLDER ..."              how often ordinary text is taken for a secret

Chunks of about 740 characters, through `Millgate.add`: cut, fingerprinted, stored, indexed and saved. With DIR, a
folder of labeled sets, their sentences are recombined (bench/fixtures/texts.py): those of the English sets, and those
of all languages. Without it the prose is made up. --steps prints each step without those inside it. Then the store
alone. CPU time of this process, not wall time.
"""

import argparse
import os
import random
import re
import tempfile
import time
from collections import Counter
from functools import wraps
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

from bench.fixtures import texts

import millgate.index.folder as folder_module
from millgate.gateway import Millgate
from millgate.index import collection, segment, segment_list
from millgate.index.tokenized_batch import TokenizedBatch
from millgate.ingest import load
from millgate.ingest.files import add_files
from millgate.stores.sqlite.store import SqliteStore
from millgate.text.hashes import Tokens
from millgate.text.redact import redact

CHARS = 740
TEXTS = {".py", ".md", ".txt", ".jsonl", ".rst"}
PLACEHOLDER = re.compile(r"\[redacted ([\w-]+) [0-9a-f]{6}\]")
STEPS = (
    (load, "parse_row", "parse the row"),
    (load, "digest", "digest the text"),
    (load, "assemble", "cut into chunks"),
    (Tokens, "of", "fingerprint"),
    (SqliteStore, "digests", "look for known digests"),
    (SqliteStore, "put", "store"),
    (SqliteStore, "changes", "read the change feed"),
    (TokenizedBatch, "__init__", "read terms and names"),
    (TokenizedBatch, "terms", "number the terms"),
    (TokenizedBatch, "case", "count capitals"),
    (TokenizedBatch, "names", "list the names"),
    (segment, "_index_terms", "list the terms"),
    (segment_list, "build", "the rest of a segment"),
    (segment_list, "join", "merge what is not saved yet"),
    (folder_module, "save_segment", "merge and save segments"),
    (collection, "write_state", "save the rest of the index"),
)


def prose(rng, words, chars):
    out = []
    while sum(map(len, out)) < chars:
        sentence = " ".join(rng.choices(words, k=rng.randint(6, 18)))
        out.append(sentence.capitalize() + ". ")
    return "".join(out).strip()


def made_up(count):
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefghilmnoprstuv", k=rng.randint(2, 9))) for _ in range(5000)]
    made = [prose(rng, words, CHARS) for _ in range(2000)]
    return [
        {"id": f"r{n}", "title": "", "text": f"{made[n % len(made)]} {n}"} for n in range(count)
    ]


def recombined(data, count, *, english):
    """Rows of about CHARS characters, made of the sentences of the labeled sets in a folder."""
    with tempfile.TemporaryDirectory() as chosen:
        for path in sorted(Path(data).glob("*/corpus.jsonl")):
            if not english or path.read_text()[:100_000].isascii() or "-en" in path.parent.name:
                Path(chosen, path.parent.name).symlink_to(path.parent.resolve())
        return list(texts.rows(chosen, count))


def watch(spent):
    """Count the time of each step, without the steps inside it; how to take that back."""
    inside, former = [0.0], []

    def watched(function, name):
        @wraps(function)
        def run(*given, **named):
            began = time.process_time()
            inside.append(0.0)
            try:
                return function(*given, **named)
            finally:
                passed = time.process_time() - began
                spent[name] += passed - inside.pop()
                inside[-1] += passed

        return run

    for owner, attribute, name in STEPS:
        function = getattr(owner, attribute)
        former.append((owner, attribute, function))
        setattr(owner, attribute, watched(function, name))
    return lambda: [setattr(*one) for one in former]


def add(name, rows, *, steps):
    spent = Counter()
    restore = watch(spent) if steps else lambda: None
    with tempfile.TemporaryDirectory() as root:
        began = time.process_time()
        with Millgate.open(Path(root) / "kb") as gate:
            count = gate.add(rows).chunks
        whole = time.process_time() - began
    restore()
    chars = sum(len(row["text"]) for row in rows) / len(rows)
    print(f"{name:36s} {count / whole:8,.0f} chunks a CPU second   {1e6 * whole / count:6.0f} µs a chunk of {chars:.0f} characters")  # fmt: skip
    spent["all else"] = whole - sum(spent.values())
    for step, seconds in spent.most_common() if steps else ():
        print(f"    {step:32s} {1e6 * seconds / count:8.1f} µs")


def measured(name, action, count=None):
    began = time.process_time()
    result = action()
    spent = time.process_time() - began
    count = count or result.chunks or result.unchanged
    print(f"{name:36s} {count / spent:8,.0f} a CPU second          {1e6 * spent / count:6.1f} µs")


def store_alone(rows):
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        files = folder / "files"
        files.mkdir()
        for n in range(40):
            parts = [f"## Part {i}\n\n{rows[(n * 50 + i) % len(rows)]['text']}" for i in range(50)]
            (files / f"{n}.md").write_text("\n\n".join(parts))
        store = SqliteStore(folder / "kb")
        try:
            measured("rows into the store alone", lambda: load.add_rows(store, "t", rows))
            measured("the same rows again (unchanged)", lambda: load.add_rows(store, "t", rows))
            measured("Markdown files, cut into chunks", lambda: add_files(store, "v", [files]))
            count = len(rows)
            measured(
                "the whole change feed", lambda: len(store.changes("t", "main", 0, count)), count
            )
            ids = [random.Random(7).choice(rows)["id"] for _ in range(100)]
            measured("100 chunks by id", lambda: store.chunks("t", "main", ids), 100)
            measured("removing the collection", lambda: store.remove("t", "main"), count)
        finally:
            store.close()


def count_redactions(folders):
    """Placeholders of redaction in the texts of some folders, by kind."""
    chars, found = 0, Counter()
    for folder in folders:
        for file in sorted(folder.rglob("*")):
            if file.suffix in TEXTS and file.is_file():
                text = file.read_text("utf-8", "replace")
                chars += len(text)
                found.update(PLACEHOLDER.findall(redact(text)))
    print(f"{chars:,} characters, {sum(found.values())} taken for secrets: {dict(found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?")
    parser.add_argument("--redact", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", action="store_true")
    given = parser.parse_args()
    if given.redact:
        count_redactions(given.redact)
        return
    if given.data:
        add("English", recombined(given.data, given.rows, english=True), steps=given.steps)
        rows = recombined(given.data, given.rows, english=False)
        add("all languages of the sets", rows, steps=given.steps)
    else:
        rows = made_up(given.rows)
        add("made-up prose", rows, steps=given.steps)
    store_alone(rows)


if __name__ == "__main__":
    main()
