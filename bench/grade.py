"""Fit and measure the built-in grader on labeled retrieval sets: python bench/grade.py DIR [--fit]

DIR holds sets as `headgate eval retrieval` reads them. Every question is asked in its own collection and in
wrong ones (another conversation, another corpus), through retrieve, propagate and gate as they ship.
"""

import math
import sys
import zlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headgate.evaluate.retrieval import sets
from headgate.index.indexes import Indexes
from headgate.relevance.calibration import KNOWS
from headgate.relevance.confidence import LOOK, backed, confidences, evidence
from headgate.relevance.query_terms import ask, match
from headgate.relevance.support import clues
from headgate.stages.gate import GatePolicy, gate
from headgate.stages.grade import CALIBRATED
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.text.tokens import estimate_tokens
from headgate.types import Chunk, Document

BUDGETS = (500, 1000, 2000, 4096)
CORE = ("bias", "score", "rank", "gap")  # what every kind of candidates has


@dataclass
class Ask:
    """One question asked in one collection: its ranking, with features and labels."""

    set: str
    target: str
    right: bool
    fold: int
    knows: dict
    kind: str
    clues: dict
    gold: np.ndarray
    scores: np.ndarray
    shipped: np.ndarray
    inside: dict  # budget -> which candidates the gate keeps
    labels: int

    @property
    def talk(self):
        return self.kind == "lines"

    @property
    def bands(self):
        return CALIBRATED["lines" if self.talk else "documents"]


def load(folder):
    store, found = MemoryStore(), {}
    for labeled in sets(Path(folder)):
        rows = defaultdict(list)
        for r in labeled.rows:
            name = f"{labeled.name}/{r['collection']}"
            chunk = Chunk(r["id"], r["text"], r["id"], name, "document", r["title"])
            rows[name].append(Document(r["id"], collection=name, title=r["title"], chunks=(chunk,)))
        for members in rows.values():
            store.put("default", members)
        found[labeled.name] = (list(rows), labeled)
    return found, Indexes(store)


def asks(found, indexes):
    every = [name for collections, _ in found.values() for name in collections]
    talk = {name: indexes.snapshot("default", name).conversational for name in every}
    for name, (_, labeled) in found.items():
        for at, query in enumerate(labeled.queries):
            own = f"{name}/{query['collection']}"
            talks = [c for c in every if talk[c] and c != own]
            targets = [own, *(c for c in every if not talk[c] and c != own)]
            if talks:
                targets.append(talks[at % len(talks)])
            for target in targets:
                labels = labeled.labels[query["_id"]] if target == own else {}
                yield one(indexes.snapshot("default", target), query, labels, name, target, own)


def one(view, query, labels, name, target, own):
    text = query["text"]
    ranking = propagate(retrieve(text, view, RetrievePolicy()), text, view, PropagatePolicy()).kept
    question = ask(text, view)
    best = [match(question, c, view.language) for c in ranking[:LOOK]]
    kind, columns = clues(question, ranking, view) if ranking else ("alike", {})
    inside = {b: among(ranking, text, view, b) for b in BUDGETS} if target == own else {}
    return Ask(
        name, target, target == own, zlib.crc32(query["_id"].encode()) % 5,
        evidence(question, best), "lines" if view.conversational else kind, columns,
        np.array([c.chunk.id in labels for c in ranking], bool),
        np.array([c.score for c in ranking]),
        np.array(confidences(text, ranking, view)), inside, len(labels),
    )  # fmt: skip


def among(ranking, text, view, budget):
    """Which of a ranking the gate keeps for a budget."""
    kept = gate(
        ranking, budget, estimate_tokens, GatePolicy(), support=backed(text, ranking, view),
        conversation=view.conversational,
    ).kept  # fmt: skip
    ids = {c.chunk.id for c in kept}
    return np.array([c.chunk.id in ids for c in ranking], bool)


def fit(x, y, weight, *, ridge=0.5, signs=None):
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
# Of the features of `knows` those that help a kind; the rest say what these say.
USED = {kind: list(weights) for kind, weights in KNOWS.items()}


def fit_knows(rows, names):
    """Collections weigh the same, and in each right and wrong, and in wrong the sets the questions are from."""
    x = np.array([[a.knows[n] for n in names] for a in rows])
    y = np.array([a.right for a in rows], float)
    cells, kinds = defaultdict(list), defaultdict(int)
    for i, a in enumerate(rows):
        cells[a.target.split("/")[0], a.right, a.set].append(i)
    for target, right, _ in cells:
        kinds[target, right] += 1
    weight = np.zeros(len(rows))
    for (target, right, _), members in cells.items():
        weight[members] = 300 / kinds[target, right] / len(members)
    return table(names, fit(x, y, weight, signs=[SIGNS.get(n, 1) for n in names]))


def fit_support(rows, names):
    x = np.concatenate([np.stack([a.clues[n] for n in names], 1) for a in rows])
    y = np.concatenate([a.gold for a in rows]).astype(float)
    return table(names, fit(x, y, np.full(len(y), 1000 / len(rows)), ridge=1.0))


def table(names, weights):
    return {n: round(float(v), 2) for n, v in zip(names, weights, strict=True) if v}


def constants(rows):
    """The tables of rank/calibration.py; and, for kinds that are not among the rows, what every kind has."""
    knows, support = {}, {}
    for kind, used in USED.items():
        mine = [a for a in rows if a.talk == (kind == "lines")]
        if len({a.right for a in mine}) == 2:
            knows[kind] = fit_knows(mine, used)
    right = [a for a in rows if a.right and len(a.gold)]
    for kind in ("lines", "linked", "alike"):
        mine = [a for a in right if a.kind == kind]
        if mine:
            support[kind] = fit_support(mine, list(mine[0].clues))
    return {"KNOWS": knows, "SUPPORT": support, "core": fit_support(right, CORE)}


def judge(a, tables):
    """The confidences of one ask under some tables."""
    if not len(a.gold):
        return np.zeros(0)
    weights = tables["SUPPORT"].get(a.kind, tables["core"])
    logit = sum(w * a.clues[n] for n, w in weights.items())
    chances = 1 / (1 + np.exp(-np.clip(logit, -14, 30)))
    weights = tables["KNOWS"].get("lines" if a.talk else "documents", {"bias": 10.0})
    logit = sum(w * a.knows[n] for n, w in weights.items())
    return chances / chances.max() / (1 + math.exp(-max(-30, min(30, logit))))


def crossed(rows, how):
    """Out-of-fold confidences: `how` gives the group of a row; each is judged by constants fitted on the others."""
    groups = [how(a) for a in rows]
    fitted = {
        group: constants([a for a, g in zip(rows, groups, strict=True) if g != group])
        for group in sorted(set(groups))
    }
    return [judge(a, fitted[group]) for a, group in zip(rows, groups, strict=True)]


def report(rows, confs, label):
    print(f"-- {label}")
    for name in sorted({a.set for a in rows}):
        mine = [(a, c) for a, c in zip(rows, confs, strict=True) if a.set == name and a.right]
        mine = [(a, c) for a, c in mine if len(a.gold)]
        if mine:
            print(f"{name:12s} {ranks(mine)}  {losses(mine)}")
    cells = defaultdict(list)
    for a, c in zip(rows, confs, strict=True):
        if not a.right:
            cells[a.set, a.target.split("/")[0]].append(max(c, default=0) < a.bands.lower)
    for (name, target), empty in sorted(cells.items()):
        print(f"   {name:12s} asked in {target:12s} empty {np.mean(empty):.3f} of {len(empty)}")
    print(f"   all wrong: empty {np.mean([e for c in cells.values() for e in c]):.3f}")


def ranks(mine):
    """AUC over all questions together, and the mean of each question's own; ours and the fused score's."""
    y = np.concatenate([a.gold for a, _ in mine])
    ours = auc(np.concatenate([c for _, c in mine]), y)
    fused = auc(np.concatenate([a.scores / max(a.scores.max(), 1e-9) for a, _ in mine]), y)
    both = [(a, c) for a, c in mine if 0 < a.gold.sum() < len(a.gold)]
    each = np.mean([(auc(c, a.gold), auc(a.scores, a.gold)) for a, c in both], 0)
    return f"AUC {ours:.3f} (fused {fused:.3f}), each {each[0]:.3f} ({each[1]:.3f})"


def losses(mine):
    y = np.concatenate([a.gold for a, _ in mine])
    kept = np.concatenate([(c >= a.bands.floor) & (c.max() >= a.bands.lower) for a, c in mine])
    lost = {b: np.mean([loss(a, c, b) for a, c in mine]) for b in BUDGETS}
    return f"wrong kept {kept[~y].mean():.2f}  evidence lost " + " ".join(
        f"@{b} {v:.4f}" for b, v in lost.items()
    )


def loss(a, c, budget):
    """The share of the evidence that the gate kept for a budget and the grader threw away."""
    dropped = c < (a.bands.floor if c.max() >= a.bands.lower else 2)
    return (a.inside[budget] & a.gold & dropped).sum() / a.labels


def reliability(rows, confs):
    print(
        "-- reliability: confidence of the best chunk, share asked in the right collection (each kind weighs the same)"
    )
    weight = defaultdict(int)
    for a in rows:
        weight[a.talk, a.right] += 1
    for low in np.arange(0, 1, 0.1):
        inside = [(a, 1 / weight[a.talk, a.right]) for a, c in zip(rows, confs, strict=True)
                  if len(c) and low <= max(c) < low + 0.1 + (low > 0.85)]  # fmt: skip
        total = sum(w for _, w in inside)
        share = sum(w for a, w in inside if a.right) / total if total else float("nan")
        print(f"   {low:.1f}-{low + 0.1:.1f}  {share:.2f}  ({len(inside)})")


def main(folder, *flags):
    found, indexes = load(folder)
    rows = list(asks(found, indexes))
    print(f"{len(rows)} questions asked; bands {CALIBRATED}")
    if "--fit" in flags:
        tables = constants(rows)
        print(*(f"{name} = {table}" for name, table in tables.items()), sep="\n")
        report(rows, [judge(a, tables) for a in rows], "fitted now, on all sets")
        report(rows, crossed(rows, lambda a: a.fold), "five folds of questions")
        talks = [a for a in rows if a.talk]
        report(talks, crossed(talks, lambda a: a.target), "each conversation by the others")
        by_set = crossed(rows, lambda a: a.target.split("/")[0])
        report(rows, by_set, "each set by the others")
    shipped = [a.shipped for a in rows]
    report(rows, shipped, "as shipped")
    reliability(rows, shipped)


if __name__ == "__main__":
    main(*sys.argv[1:])
