"""The window: how well a chunk that it holds is recognized, how fast, and what that is worth on labeled sets.

    make bench-window                  recognition, CPU, and growth with the window, on generated text
    make bench-window ARGS="DIR"       novel evidence inside 500 tokens, on the labeled sets in a folder

Recognition compares the coverage rule and the sketch with the published rule. Speed compares with datasketch, rensa
and simhash, growth with difflib, all in the same process. Times are CPU milliseconds, the fastest of several runs. On
labeled sets half of each question's evidence stands in the window; bm25s ranks, and plain shingle containment in
Python is the reference. Takes three minutes, and one minute a labeled set.
"""

import argparse
import difflib
import json
import random
import time
from itertools import accumulate
from pathlib import Path

import numpy as np

from millgate.evaluate.labeled import sets
from millgate.pipeline.stages.penalize import PenalizePolicy, penalize
from millgate.published.self_reference import adjust_score, compute_overlaps
from millgate.text.fingerprint import WindowFingerprint, WindowIndex, fingerprints
from millgate.text.hashes import Tokens
from millgate.text.sketch import Sketch
from millgate.text.words import tokens
from millgate.types import Candidate, Chunk, Window

BUDGET = 500
TOP = 100
POLICY = PenalizePolicy()


def shingles(tokens, size):
    """All runs of `size` neighboring tokens; none when there are fewer."""
    return [tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1)]


def cpu_ms(work, runs=25):
    """The best of several runs, in CPU milliseconds; what runs well under a millisecond is repeated."""
    work()
    began = time.process_time()
    work()
    repeats = max(1, int(0.002 / max(1e-6, time.process_time() - began)))
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        for _ in range(repeats):
            work()
        best = min(best, (time.process_time() - began) / repeats)
    return 1000 * best


class Prose:
    """Words by Zipf's law, each with followers of its own: phrases repeat as they do in prose."""

    def __init__(self, seed, vocabulary=30_000):
        self.rng = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk"
        self.words = sorted(
            {
                "".join(self.rng.choices(letters, k=self.rng.randint(2, 10)))
                for _ in range(vocabulary)
            }
        )
        self.rng.shuffle(self.words)
        self.weights = list(accumulate(1 / (rank + 3) for rank in range(len(self.words))))
        self.followers = {}

    def draw(self):
        return self.rng.choices(range(len(self.words)), cum_weights=self.weights)[0]

    def write(self, count):
        word, written = self.draw(), []
        for _ in range(count):
            written.append(self.words[word])
            if self.rng.random() < 0.3:
                near = self.followers.setdefault(word, [self.draw() for _ in range(4)])
                word = self.rng.choice(near)
            else:
                word = self.draw()
        return written


def recognition():
    prose = Prose(1)
    rng = prose.rng
    window = prose.write(32_000)

    def cut(length, at=None):
        at = rng.randrange(len(window) - length) if at is None else at
        return window[at : at + length]

    def edited(words, share):
        return [rng.choice(prose.words) if rng.random() < share else word for word in words]

    def replaced(words, share):
        at = rng.randrange(int(len(words) * (1 - share)))
        return [
            *words[:at],
            *prose.write(int(len(words) * share)),
            *words[at + int(len(words) * share) :],
        ]

    cases = {
        "verbatim, any offset": lambda i: cut(190),
        "verbatim, across two spans": lambda i: cut(190, at=190 * i + 95),
        "verbatim, 8-19 tokens": lambda i: cut(rng.randint(8, 19)),
        "verbatim, 600-1000 tokens": lambda i: cut(rng.randint(600, 1000)),
        "10 % of tokens changed, scattered": lambda i: edited(cut(190), 0.10),
        "30 % scattered": lambda i: edited(cut(190), 0.30),
        "30 % replaced as one block": lambda i: replaced(cut(190), 0.30),
        "other documents": lambda i: prose.write(190),
    }
    index = WindowIndex.of([" ".join(window)])
    known = WindowFingerprint.of([" ".join(window)])
    print(
        "\n## Recognition: a chunk of a 32 k-token window, 160 of each kind (mean overlap / share >= .60)"
    )
    print(
        "| case | published rule | coverage | least | sketch: mean, largest difference |\n|---|---|---|---|---|"
    )
    for name, make in cases.items():
        texts = [" ".join(make(i)) for i in range(160)]
        truth, rule = index.coverage(texts), compute_overlaps(known, texts)
        apart = np.abs(known.sketch.overlap(Tokens.of(texts)) - truth)
        print(
            f"| {name} | {rule.mean():.2f} / {(rule >= 0.6).mean():.2f} "
            f"| {truth.mean():.3f} / {(truth >= 0.6).mean():.2f} | {truth.min():.2f} "
            f"| {apart.mean():.4f}, {apart.max():.3f} |"
        )
    size = len(json.dumps(known.to_json()))
    alone = len(json.dumps(known.sketch.to_json()))
    bare = len(json.dumps(WindowFingerprint.of([" ".join(window)], sketch=False).to_json()))
    print(
        f"\nPayload of that window: {size:,} bytes of JSON, {alone:,} of them the sketch, {bare:,} without it; "
        f"its text has {len(' '.join(window)):,}."
    )


def peers():
    """(name, fingerprint a list of token lists, compare two such lists) for each peer."""
    import simhash
    from datasketch import MinHash
    from rensa import RMinHash

    def runs(words):
        return [" ".join(run) for run in shingles(words, 5)]

    def datasketch(lists):
        made = []
        for words in lists:
            one = MinHash(num_perm=128)
            one.update_batch([run.encode() for run in runs(words)])
            made.append((one, simhash.Simhash(words)))
        return made

    def rensa(lists):
        made = []
        for words in lists:
            one = RMinHash(num_perm=128, seed=42)
            one.update(runs(words))
            made.append((one, simhash.Simhash(words)))
        return made

    def compare(spans, found):
        return [max((s.jaccard(m), s_.distance(m_)) for s, s_ in spans) for m, m_ in found]

    return (("datasketch + simhash", datasketch, compare), ("rensa + simhash", rensa, compare))


def spans_of(text):
    words = text.lower().split()
    return [words, *(words[i : i + 190] for i in range(0, len(words), 190))]


def speed():
    prose = Prose(2)
    window, large = (" ".join(prose.write(n)) for n in (32_000, 128_000))
    few, many = ([" ".join(prose.write(180)) for _ in range(n)] for n in (50, 1000))
    index = WindowIndex.of([window])
    index.coverage(few)
    asked = [Candidate(Chunk(id=str(i), text=text), 0.5) for i, text in enumerate(few)]
    ours = {
        "cold, 32 k x 50": lambda: WindowIndex.of([window]).coverage(few),
        "warm window, 32 k x 50": lambda: index.coverage(few),
        "cold, 128 k x 50": lambda: WindowIndex.of([large]).coverage(few),
        "cold, 128 k x 1 000": lambda: WindowIndex.of([large]).coverage(many),
        "the whole stage, 32 k x 50": lambda: penalize(asked, Window((window,)), POLICY),
        "fingerprints of 50": lambda: fingerprints(few),
        "window payload, 32 k": lambda: WindowFingerprint.of([window]),
        "sketch of an index, 32 k": lambda: Sketch.of(index),
    }
    print("\n## Speed, CPU ms (window in tokens x candidates of 180 tokens)")
    print("| | ms |\n|---|---|")
    taken = {}
    for name, work in ours.items():
        taken[name] = cpu_ms(work)
        print(f"| {name} | {taken[name]:.3f} |")
    cold = taken["cold, 32 k x 50"]
    print("\n| peer, cold, 32 k x 50 | window | candidates | compare | whole | ours is faster by |")
    print("|---|---|---|---|---|---|")
    spans, words = spans_of(window), [text.split() for text in few]
    for name, make, compare in peers():
        made, found = make(spans), make(words)
        parts = [
            cpu_ms(lambda make=make: make(spans_of(window)), runs=5),
            cpu_ms(lambda make=make: make([text.lower().split() for text in few]), runs=5),
            cpu_ms(lambda compare=compare, a=made, b=found: compare(a, b), runs=5),
        ]
        print(
            f"| {name} | {' | '.join(f'{part:.1f}' for part in parts)} | {sum(parts):.1f} | {sum(parts) / cold:.0f} x |"
        )


def rank(labeled):
    """(query, ids best first, scores 0..1) by bm25s within each query's collection."""
    import bm25s

    for name in dict.fromkeys(row["collection"] for row in labeled.rows):
        rows = [row for row in labeled.rows if row["collection"] == name]
        asked = [q for q in labeled.queries if q.get("collection", "main") == name]
        if not asked:
            continue
        texts = [f"{row['title']} {row['text']}" for row in rows]
        retriever = bm25s.BM25()
        retriever.index(
            bm25s.tokenize(texts, stopwords="en", show_progress=False), show_progress=False
        )
        found, scores = retriever.retrieve(
            bm25s.tokenize([q["text"] for q in asked], stopwords="en", show_progress=False),
            k=min(TOP, len(rows)),
            show_progress=False,
        )
        for query, best, points in zip(asked, found, scores, strict=True):
            top = max(float(points[0]), 1e-9)
            yield query, [rows[i]["id"] for i in best], [float(p) / top for p in points]


def containment(window, text):
    """The share of a text's shingles that the window contains, by plain Python: the reference."""
    words = tokens(text)
    size = 5 if len(words) >= 20 else max(1, min(3, len(words)))
    runs = shingles(words, size)
    known = window.setdefault(size, set(shingles(window["tokens"], size)))
    return sum(run in known for run in runs) / len(runs) if runs else 0.0


def packed(order, passages):
    """Passages in that order until 500 tokens (characters / 4 of title and text) are full."""
    left, taken = BUDGET, []
    for id in order:
        cost = len(f"{passages[id]['title']} {passages[id]['text']}") // 4
        if cost <= left:
            left -= cost
            taken.append((id, cost))
    return taken


def orders(ids, scores, window, passages):
    """The ranking under each rule."""
    texts = [passages[i]["text"] for i in ids]
    found = [
        Candidate(Chunk(id=i, text=text), score)
        for i, text, score in zip(ids, texts, scores, strict=True)
    ]
    seen = {"tokens": tokens(window)}
    exact = [containment(seen, text) for text in texts]
    reweighed = {
        i: adjust_score(s, r, weight=POLICY.weight, exponent=POLICY.exponent)
        for i, s, r in zip(ids, scores, exact, strict=True)
        if r < 1
    }
    payloads = {
        "published": WindowFingerprint.of([window], sketch=False),
        "sketch": WindowFingerprint.of([window]),
    }
    yield "no rule", ids
    for name, payload in payloads.items():
        sifted = penalize(found, Window(fingerprint=payload.to_json()), POLICY)
        yield name, [c.chunk.id for c in sifted.kept]
    yield "exact containment", sorted(reweighed, key=lambda i: -reweighed[i])
    sifted = penalize(found, Window((window,)), POLICY)
    yield "coverage", [c.chunk.id for c in sifted.kept]


def growth():
    """100 chunks against windows of 1 000 to 1 000 000 tokens, the index built anew, and difflib on the same texts."""
    prose = Prose(3)
    chunks = [" ".join(prose.write(180)) for _ in range(100)]
    print("\n## Growth, CPU ms: how much of 100 chunks the window holds")
    print("| window, tokens | ours | difflib, scaled up from 30 pairs |\n|---|---|---|")
    for size in (1_000, 10_000, 100_000, 1_000_000):
        window = [" ".join(prose.write(180)) for _ in range(max(1, size // 180))]
        ours = cpu_ms(lambda window=window: WindowIndex.of(window).coverage(chunks), runs=3)
        pairs = [(a, b) for a in chunks[:3] for b in window[:10]]
        began = time.process_time()
        for pair in pairs:
            overlap_by_difflib(*pair)
        spent = 1000 * (time.process_time() - began) * len(chunks) * len(window) / len(pairs)
        print(f"| {size:,} | {ours:.1f} | {spent:,.0f} |", flush=True)


def overlap_by_difflib(text, seen):
    match = difflib.SequenceMatcher(None, text, seen, autojunk=False)
    return sum(block.size for block in match.get_matching_blocks()) / max(1, len(text))


def quality(labeled):
    rng = random.Random(3)
    passages = {row["id"]: row for row in labeled.rows}
    collections = {}
    for row in labeled.rows:
        collections.setdefault(row["collection"], []).append(row["id"])
    novel, again, spent, strangers = {}, {}, {}, []
    for query, ids, scores in rank(labeled):
        gold = [id for id in labeled.labels[query["_id"]] if id in passages]
        if len(gold) < 2:
            continue
        shown, hidden = set(gold[: len(gold) // 2]), set(gold[len(gold) // 2 :])
        pool = collections[passages[gold[0]]["collection"]]
        filler = [i for i in rng.sample(pool, min(12, len(pool))) if i not in gold]
        blocks = [*gold[: len(gold) // 2], *filler]  # a list: sets have no fixed order
        rng.shuffle(blocks)
        window = " ".join(passages[i]["text"] for i in blocks)
        others = [passages[i]["text"] for i in ids[-20:] if i not in blocks]
        strangers += WindowIndex.of([window]).coverage(others).tolist()
        for name, order in orders(ids, scores, window, passages):
            taken = packed(order, passages)
            novel.setdefault(name, []).append(len(hidden & {i for i, _ in taken}) / len(hidden))
            again[name] = again.get(name, 0) + sum(cost for i, cost in taken if i in shown)
            spent[name] = spent.get(name, 0) + sum(cost for _, cost in taken)
    if not novel:
        print(f"\n## {labeled.name}: no question with two labeled passages", flush=True)
        return
    print(f"\n## {labeled.name}: {len(novel['no rule'])} questions with two or more passages")
    print(
        "| rule | novel evidence @500 | of exact containment | duplicate tokens |\n|---|---|---|---|"
    )
    reference = np.mean(novel["exact containment"])
    for name, values in novel.items():
        share = np.mean(values) / reference
        print(f"| {name} | {np.mean(values):.3f} | {share:.1%} | {again[name] / spent[name]:.2%} |")
    print(
        f"\nCoverage of passages that the window does not hold: {np.mean(strangers):.3f} mean.",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, help="a folder of labeled sets")
    given = parser.parse_args()
    if given.folder:
        for labeled in sets(given.folder):
            quality(labeled)
        return
    recognition()
    speed()
    growth()


if __name__ == "__main__":
    main()
