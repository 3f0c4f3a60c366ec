"""Fit and measure the built-in grader on labeled retrieval sets: python bench/grade.py DIR [--fit]

DIR holds sets as `headgate eval retrieval` reads them. Every question is asked in its own collection and in
wrong ones (another conversation, another corpus), through retrieve, propagate and gate as they ship.
"""

import json
import math
import sys
import zlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headgate.index.indexes import Indexes
from headgate.rank import confidence
from headgate.stages.gate import GatePolicy, gate
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory import MemoryStore
from headgate.text.tokens import estimate_tokens
from headgate.types import Chunk, Document

BUDGETS = (500, 1000, 2000, 4096)


@dataclass
class Ask:
    """One question asked in one collection: what came through the gate, with features and labels."""

    set: str
    target: str
    text: str
    right: bool
    talk: bool
    fold: int
    budget: int
    knows: dict
    backing: list
    confidences: list
    gold: list
    scores: list
    found: float


def load(folder):
    sets = {}
    store = MemoryStore()
    for path in sorted(p for p in Path(folder).iterdir() if (p / "corpus.jsonl").exists()):
        rows = defaultdict(list)
        for line in (path / "corpus.jsonl").open():
            row = json.loads(line)
            rows[f"{path.name}/{row['collection']}"].append(row)
        for name, members in rows.items():
            store.put(
                "default",
                [
                    Document(
                        r["_id"],
                        collection=name,
                        title=r["title"],
                        chunks=(
                            Chunk(r["_id"], r["text"], r["_id"], name, "document", r["title"]),
                        ),
                    )
                    for r in members
                ],
            )
        gold = defaultdict(set)
        for line in (path / "qrels.tsv").read_text().splitlines()[1:]:
            query, doc, grade = line.split("\t")
            if float(grade) > 0:
                gold[query].add(doc)
        queries = [json.loads(line) for line in (path / "queries.jsonl").open()]
        sets[path.name] = (list(rows), queries, gold)
    return sets, Indexes(store)


def asks(sets, indexes):
    every = [name for collections, _, _ in sets.values() for name in collections]
    talk = {name: indexes.view("default", name).conversational for name in every}
    out = []
    for name, (_, queries, gold) in sets.items():
        for at, query in enumerate(queries):
            own = f"{name}/{query['collection']}"
            talks = [c for c in every if talk[c] and c != own]
            targets = [own, *(c for c in every if not talk[c] and c != own)]
            if talks:
                targets.append(talks[at % len(talks)])
            for target in targets:
                labels = gold[query["_id"]] if target == own else set()
                budgets = BUDGETS if target == own else (BUDGETS[at % 4],)
                out += [
                    one(indexes, target, query, labels, own, name, budget, talk[target])
                    for budget in budgets
                ]
    return out


def one(indexes, target, query, labels, own, name, budget, talk):
    view = indexes.view("default", target)
    text = query["text"]
    wired = propagate(retrieve(text, view, RetrievePolicy()), text, view, PropagatePolicy())
    kept = gate(wired.kept, budget, estimate_tokens, GatePolicy(), conversation=talk).kept
    question = confidence.ask(text, view)
    matches = [confidence.match(question, c, view.language) for c in kept]
    ranking = sorted(range(len(kept)), key=lambda i: (-kept[i].score, i))
    heard = sorted(wired.kept, key=lambda c: -c.score)[: confidence.LOOK]
    best = [confidence.match(question, c, view.language) for c in heard]
    fold = zlib.crc32(query["_id"].encode()) % 5
    hit = [c.chunk.id in labels for c in kept]
    return Ask(
        name, target, text, target == own, talk, fold, budget,
        confidence.evidence(question, best),
        confidence.backing(question, kept, matches, ranking) if kept else [],
        confidence.confidences(text, kept, view, found=wired.kept), hit,
        [c.score for c in kept], sum(hit) / max(1, len(labels)),
    )  # fmt: skip


def matrix(rows, names):
    return np.array([[row[n] for n in names] for row in rows], float).reshape(-1, len(names))


def fit(x, y, weight, *, ridge=2.0, signs=None):
    """Weighted ridge logistic regression by Newton steps; features of the wrong sign are left out, one by one."""
    use = list(range(x.shape[1]))
    while True:
        w = np.zeros(len(use))
        penalty = ridge * np.diag([0.0] + [1.0] * (len(use) - 1))
        for _ in range(50):
            p = 1 / (1 + np.exp(-np.clip(x[:, use] @ w, -30, 30)))
            gradient = x[:, use].T @ (weight * (y - p)) - penalty @ w
            hessian = (x[:, use] * (weight * p * (1 - p))[:, None]).T @ x[:, use] + penalty
            step = np.linalg.solve(hessian + 1e-9 * np.eye(len(use)), gradient)
            w += step
            if np.abs(step).max() < 1e-7:
                break
        wrong = [i for i in range(1, len(use)) if signs and w[i] * signs[use[i]] < 0]
        if not wrong:
            full = np.zeros(x.shape[1])
            full[use] = w
            return full
        use.pop(max(wrong, key=lambda i: abs(w[i])))


def auc(score, label):
    score, label = np.asarray(score), np.asarray(label, bool)
    _, inverse, counts = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    ones = label.sum()
    return (ranks[label].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones))


# What a feature must mean: more unseen, strange or foreign words speak against, being nameless for neither.
SIGNS = {"unseen": -1, "strangers": -1, "foreign": -1, "nameless": 0}


def fit_knows(rows, names):
    x, y = matrix([a.knows for a in rows], names), np.array([a.right for a in rows], float)
    cells = defaultdict(list)
    for i, a in enumerate(rows):
        cells[a.target.split("/")[0], a.right, a.set].append(i)
    kinds = defaultdict(int)
    for target, right, _ in cells:
        kinds[target, right] += 1
    weight = np.zeros(len(rows))
    for (target, right, _), members in cells.items():
        weight[members] = 300 / kinds[target, right] / len(members)
    return fit(x, y, weight, signs=[SIGNS.get(n, 1) for n in names])


def fit_backing(rows, names):
    rows = [a for a in rows if a.right and a.backing]
    x = matrix([b for a in rows for b in a.backing], names)
    y = np.array([g for a in rows for g in a.gold], float)
    weight = np.array([1000 / len(rows) / 1.0 for a in rows for _ in a.backing])
    return fit(x, y, weight, ridge=1.0)


def constants(rows):
    """The four tables of rank/calibration.py."""
    out = {}
    for label, talk in (("CONVERSATION", True), ("DOCUMENTS", False)):
        mine = [a for a in rows if a.talk == talk]
        if not mine:
            continue
        names = list(mine[0].knows)
        if not talk:
            # a name that every chunk holds says nothing where nobody speaks
            names = [n for n in names if n not in {"anchor", "names", "strangers"}]
        w = fit_knows(mine, names)
        out[label] = {n: round(float(v), 2) for n, v in zip(names, w, strict=True) if v}
        names = list(next(a for a in mine if a.backing).backing[0])
        w = fit_backing(mine, names)
        out["SUPPORT_" + label] = {n: round(float(v), 2) for n, v in zip(names, w, strict=True)}
    return out


def judge(rows, tables):
    """Confidences of the rows under some tables."""
    out = []
    for a in rows:
        kind = "CONVERSATION" if a.talk else "DOCUMENTS"
        sure = logistic(tables[kind], a.knows)
        backing = [max(1e-6, logistic(tables["SUPPORT_" + kind], b)) for b in a.backing]
        out.append([sure * b / max(backing) for b in backing])
    return out


def logistic(weights, row):
    return 1 / (1 + math.exp(-max(-30, min(30, sum(w * row[n] for n, w in weights.items())))))


def report(rows, confs, lower, floor, label):
    print(f"-- {label}")
    for name in sorted({a.set for a in rows}):
        mine = [(a, c) for a, c in zip(rows, confs, strict=True) if a.set == name and a.right]
        wide = [(a, c) for a, c in mine if a.budget == BUDGETS[-1] and a.scores]
        if not wide:
            continue
        y = [g for a, _ in wide for g in a.gold]
        grader = auc([m for _, c in wide for m in c], y)
        fused = auc([s / a.scores[0] if a.scores[0] else 0 for a, _ in wide for s in a.scores], y)
        kept = [m >= floor and max(c) >= lower for a, c in wide for m in c]
        wrong = np.mean([k for k, g in zip(kept, y, strict=True) if not g])
        loss = {
            b: np.mean([lost(a, c, lower, floor) for a, c in mine if a.budget == b])
            for b in BUDGETS
        }
        print(f"{name:12s} AUC {grader:.3f} (fused {fused:.3f})  wrong kept {wrong:.2f}  evidence lost",
              " ".join(f"@{b} {v:.4f}" for b, v in loss.items()))  # fmt: skip
    cells = defaultdict(list)
    for a, c in zip(rows, confs, strict=True):
        if not a.right:
            cells[a.set, a.target.split("/")[0]].append(max(c, default=0) < lower)
    for (name, target), empty in sorted(cells.items()):
        print(f"   {name:12s} asked in {target:12s} empty {np.mean(empty):.3f} of {len(empty)}")
    print(f"   all wrong: empty {np.mean([e for c in cells.values() for e in c]):.3f}")


def lost(a, c, lower, floor):
    if not any(a.gold):
        return 0.0
    kept = sum(g for g, m in zip(a.gold, c, strict=True) if m >= floor) if max(c) >= lower else 0
    return a.found * (1 - kept / sum(a.gold))


def reliability(rows, confs):
    print(
        "-- reliability: confidence of the best chunk, share asked in the right collection (each kind weighs the same)"
    )
    weight = defaultdict(int)
    for a in rows:
        weight[a.talk, a.right] += 1
    for low in np.arange(0, 1, 0.1):
        inside = [(a, 1 / weight[a.talk, a.right]) for a, c in zip(rows, confs, strict=True)
                  if c and low <= max(c) < low + 0.1 + (low > 0.85)]  # fmt: skip
        total = sum(w for _, w in inside)
        share = sum(w for a, w in inside if a.right) / total if total else float("nan")
        print(f"   {low:.1f}-{low + 0.1:.1f}  {share:.2f}  ({len(inside)})")


def crossed(rows, how):
    """Out-of-fold confidences: `how` gives the group of a row; each is judged by constants fitted on the others."""
    out = [None] * len(rows)
    for group in sorted({how(a) for a in rows}):
        tables = constants([a for a in rows if how(a) != group])
        mine = [i for i, a in enumerate(rows) if how(a) == group]
        for i, c in zip(mine, judge([rows[i] for i in mine], tables), strict=True):
            out[i] = c
    return out


def main(folder, *flags):
    from headgate.stages.grade import Calibrated

    bands = Calibrated.bands
    sets, indexes = load(folder)
    rows = asks(sets, indexes)
    print(f"{len(rows)} questions asked; bands {bands}")
    if "--fit" in flags:
        tables = constants(rows)
        print(*(f"{name} = {table}" for name, table in tables.items()), sep="\n")
        report(rows, judge(rows, tables), bands.lower, bands.floor, "fitted now, on all sets")
        report(
            rows,
            crossed(rows, lambda a: a.fold),
            bands.lower,
            bands.floor,
            "five folds of questions",
        )
        talks = [a for a in rows if a.talk]
        by_others = crossed(talks, lambda a: a.target)
        report(talks, by_others, bands.lower, bands.floor, "each conversation by the others")
        papers = [a for a in rows if not a.talk]
        by_others = crossed(papers, lambda a: a.target)
        report(papers, by_others, bands.lower, bands.floor, "each document set by the other")
    shipped = [a.confidences for a in rows]
    report(rows, shipped, bands.lower, bands.floor, "as shipped")
    reliability(rows, shipped)


if __name__ == "__main__":
    main(*sys.argv[1:])
