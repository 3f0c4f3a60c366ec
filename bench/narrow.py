"""Narrowing: evidence and CPU of a collection that the database narrows, beside the same collection held whole.

    python bench/narrow.py URL DIR... [--max-chunks 1000] [--questions 40]    evidence inside 1 000 tokens
    python bench/narrow.py URL DIR... --among 65000 --max-chunks 5000         the same among as many recombined texts
    python bench/narrow.py URL DIR... --size 100000 --copies 10 --max-chunks 100000    CPU of client and server

URL is an empty PostgreSQL database on this machine: CPU of the server is read from its processes. With --copies each
chunk and its postings are copied inside the database, for sizes that would take long to add; with --keep what it holds
is asked; a gateway that has answered one question of each set before.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy

import argparse
import contextlib
import json
import statistics
import time
from pathlib import Path

import psycopg
import synthetic

from headgate import Headgate
from headgate.evaluate import labeled

BUDGET = 1000
TICKS = os.sysconf("SC_CLK_TCK")


def server_seconds(url):
    """CPU seconds of the server and all its processes, those that ended included."""
    with psycopg.connect(url) as connection:
        (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone()
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                found[int(stat.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    parent = found[backend][0]
    return sum(ticks for pid, (of, ticks) in found.items() if parent in (pid, of)) / TICKS


def ask(gate, queries, url, *, before=()):
    """Contexts for the queries, and milliseconds of CPU of client and server a query, after some others."""
    for query in before or queries[:3]:
        gate.context(query["text"], budget=BUDGET, collection=query["collection"])
    server, client = server_seconds(url), time.process_time()
    made = [gate.context(q["text"], budget=BUDGET, collection=q["collection"]) for q in queries]
    spent = time.process_time() - client, server_seconds(url) - server
    return made, [1000 * each / len(queries) for each in spent]


def share(context, labels):
    given = {chunk.document for chunk in context.chunks}
    return sum(id in given for id in labels) / len(labels)


def clear(url):
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS headgate CASCADE")


def print_sizes(url, gate=None):
    """Bytes a chunk: the tables, and the segments of a gateway."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r'"
            " AND relnamespace = 'headgate'::regnamespace ORDER BY 2 DESC LIMIT 6"
        ).fetchall()
        connection.execute("SET headgate.tenant = 'default'")
        (count,) = connection.execute("SELECT chunks FROM headgate.collections").fetchone()
    tables = ", ".join(f"{name} {size / count:,.0f}" for name, size in found)
    print(f"bytes a chunk: {tables}")
    if gate:
        files = sum(file.stat().st_size for file in (gate._parts.folder / "index").rglob("*"))
        print(f"segments {files / count:,.0f}")


MULTIPLY = """
SET headgate.tenant = 'default';
INSERT INTO headgate.chunks SELECT c.tenant, c.collection, c.id || '-' || k, c.document || '-' || k, c.place + k * {places},
  c.position, c.seq + k * {seq}, c.chars, c.bytes, c.source, c.title, c.metadata, c.admission, c.text
  FROM headgate.chunks c, generate_series(1, {copies} - 1) k;
INSERT INTO headgate.attachments SELECT a.tenant, a.collection, a.id || '-' || k, a.kind, a.value
  FROM headgate.attachments a, generate_series(1, {copies} - 1) k;
INSERT INTO headgate.posting_drafts SELECT tenant, collection, place + ((k * {blocks})::bigint << 16), id || '-' || k, draft
  FROM headgate.posting_drafts, generate_series(1, {copies} - 1) k;
INSERT INTO headgate.posting_lists SELECT tenant, collection, term, block + k * {blocks}, part, list
  FROM headgate.posting_lists, generate_series(1, {copies} - 1) k;
INSERT INTO headgate.posting_blocks SELECT tenant, collection, block + k * {blocks}, chunks, gone
  FROM headgate.posting_blocks, generate_series(1, {copies} - 1) k;
UPDATE headgate.posting_terms SET chunks = chunks * {copies};
UPDATE headgate.collections SET seq = seq * {copies}, place = place * {copies}, chunks = chunks * {copies}, chars = chars * {copies};
UPDATE headgate.postings SET seen = seen * {copies};
"""


def multiply(url, copies):
    """Copy every chunk of the collection, with its postings and no text read again."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET headgate.tenant = 'default'")
        seq, places = connection.execute("SELECT seq, place FROM headgate.collections").fetchone()
        (totals,) = connection.execute("SELECT totals FROM headgate.postings").fetchone()
        found = json.loads(totals)
        blocks = found["blocks"] + 1
        values = {"seq": seq, "places": places, "blocks": blocks, "copies": copies}
        connection.execute(MULTIPLY.format(**values))
        found["blocks"], found["parts"] = blocks * copies, []
        for field in ("chunks", "declared_turns", "with_speaker", "short_texts"):
            found[field] *= copies
        for field in ("fields", "languages"):
            found[field] = [copies * number for number in found[field]]
        connection.execute("UPDATE headgate.postings SET totals = %s", (json.dumps(found),))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE headgate.posting_terms, headgate.posting_lists, headgate.posting_drafts, headgate.chunks")  # fmt: skip


def recombine(folder, count):
    return [{"id": c.id, "title": c.title, "text": c.text} for c in synthetic.chunks(folder, count)]


def measure_large(url, rows, queries, given, *, before):
    """CPU of client and server where the collection is narrowed; it is never held whole."""
    if not given.keep:
        clear(url)
    quiet = {"trace": {"keep": 0}, "log": {"enabled": False}}
    with Headgate.open(url, index={"max_chunks": 1}, **quiet) as gate:
        if not given.keep:
            gate.add(rows)
            gate.context("anything", budget=BUDGET)
            multiply(url, given.copies)
    with Headgate.open(url, index={"max_chunks": given.max_chunks}, **quiet) as gate:
        for times in ("for the first time", "again"):
            made, cost = ask(gate, queries, url, before=before)
            facts = [step.facts for step in made[-1].trace.steps if "narrowed_to" in step.facts]
            print(f"{facts[0]['narrowed_to']}, asked {times}: CPU ms a request: client {cost[0]:.1f}, server {cost[1]:.1f}, together {sum(cost):.1f}")  # fmt: skip
    print_sizes(url)


def measure(url, name, rows, queries, most):
    clear(url)
    quiet = {"trace": {"keep": 0}, "log": {"enabled": False}}
    with Headgate.open(url, **quiet) as whole:
        whole.add(rows)
        held, cost_held = ask(whole, queries, url)
        with Headgate.open(url, index={"max_chunks": most}, **quiet) as small:
            narrowed, cost = ask(small, queries, url)
        if not queries[0].get("labels"):
            print_sizes(url, whole)
    same = statistics.mean(
        [c.id for c in a.chunks[:3]] == [c.id for c in b.chunks[:3]]
        for a, b in zip(held, narrowed, strict=True)
    )
    evidence = [
        statistics.mean(share(c, q["labels"]) for c, q in zip(made, queries, strict=True))
        for made in (held, narrowed)
        if queries[0].get("labels")
    ]
    shown = f"  evidence {evidence[0]:.3f} -> {evidence[1]:.3f}" if evidence else ""
    print(
        f"{name:14}{shown}  the same first three {same:.2f}  CPU ms a request, client + server:"
        f" whole {cost_held[0]:.1f} + {cost_held[1]:.1f}, narrowed {cost[0]:.1f} + {cost[1]:.1f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--max-chunks", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=40)
    parser.add_argument("--among", type=int, default=0)
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if given.size:
        folder = str(Path(given.folders[0]).parent)
        rows = given.keep or recombine(folder, given.size)
        sets = [[{"text": text, "collection": "main"} for text in found] for found in synthetic.queries(folder)]  # fmt: skip
        queries = [query for found in sets for query in found[:4]][: given.questions]
        if given.copies > 1:
            others = [query for found in sets for query in found[4:5]]
            measure_large(given.url, rows, queries, given, before=others)
        else:
            measure(given.url, f"{given.size:,}", rows, queries, given.max_chunks)
        return
    for folder in given.folders:
        found = labeled.sample(labeled.read(Path(folder)), given.questions)
        queries = [{**q, "labels": found.labels[q["_id"]]} for q in found.queries]
        more = recombine(str(Path(folder).parent), given.among) if given.among else []
        measure(given.url, found.name, [*found.rows, *more], queries, given.max_chunks)


if __name__ == "__main__":
    main()
