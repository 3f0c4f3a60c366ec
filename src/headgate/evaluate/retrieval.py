"""Evaluate retrieval on labeled data: does the evidence arrive, and within how many tokens?

A set is a folder with corpus.jsonl {_id, title, text, collection}, queries.jsonl {_id, text, collection} and
qrels.tsv (query, passage, grade; the first line is a heading). Each query is asked within its collection.

    evidence@B   the share of a query's labeled passages inside the first B tokens, when the ranking is packed
                 by score / tokens^.2 (conversations: score), what does not fit is skipped; tokens = chars / 4
    context_evidence@B   the same for what `context()` gives for a budget of B, framing included
    framed_evidence@B    the ranking as in evidence@B, but counted and framed as `context()` does it

Baselines run on the same data: plain BM25, and its reciprocal rank fusion with the embedder where there is one.
"""

import json
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from headgate.errors import InputError
from headgate.evaluate.packing import fill_budget
from headgate.gateway import Headgate
from headgate.stages.propagate import propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.text.fence import NOTICE, SAMPLE_NONCE, fence, frame
from headgate.types import Candidate

BUDGETS = (500, 1000, 2000, 4096)
_RESAMPLES = 1000
_SEED = 7

Tick = Callable[[], object]
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Labeled:
    """A labeled set: rows to add, questions to ask, and which passages answer them."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    queries: Sequence[Mapping[str, str]]
    labels: Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class Tally:
    """Figures of each query, by name."""

    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, figures: Mapping[str, float]) -> None:
        """Note one query's figures."""
        for name, value in figures.items():
            self.values[name].append(value)

    def means(self) -> dict[str, float]:
        """The mean of each figure."""
        return {name: float(np.mean(found)) for name, found in self.values.items()}

    def intervals(self) -> dict[str, tuple[float, float]]:
        """The 95 % bootstrap interval of each mean."""
        dice = np.random.default_rng(_SEED)
        out = {}
        for name, found in self.values.items():
            drawn = dice.choice(np.array(found), (_RESAMPLES, len(found))).mean(1)
            low, high = np.percentile(drawn, [2.5, 97.5])
            out[name] = (float(low), float(high))
        return out


def sets(folder: Path) -> Iterator[Labeled]:
    """The labeled sets in a folder: itself, or each folder in it."""
    if (folder / "corpus.jsonl").is_file():
        yield read(folder)
        return
    found = sorted(path.parent for path in folder.glob("*/corpus.jsonl"))
    if not found:
        raise InputError(
            f"{folder} holds no labeled set",
            hint="it needs corpus.jsonl, queries.jsonl and qrels.tsv, or folders with them",
        )
    for path in found:
        yield read(path)


def read(folder: Path) -> Labeled:
    """Read one labeled set; queries without labels are left out."""
    labels: dict[str, dict[str, int]] = defaultdict(dict)
    for number, line in enumerate(_text(folder / "qrels.tsv").splitlines()[1:], 2):
        try:
            query, passage, grade = line.split("\t")
            if int(grade) > 0:
                labels[query][passage] = int(grade)
        except ValueError as error:
            raise InputError(
                f"qrels.tsv, line {number}: {line[:80]!r} is not query, passage, grade"
            ) from error
    rows = [
        {
            "id": row["_id"],
            "title": row.get("title", ""),
            "text": row["text"],
            "collection": row.get("collection", "main"),
        }
        for row in _lines(folder / "corpus.jsonl")
    ]
    queries = [query for query in _lines(folder / "queries.jsonl") if query["_id"] in labels]
    return Labeled(folder.name, rows, queries, labels)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        try:
            row = json.loads(line)
            found.append({**row, "_id": str(row["_id"]), "text": str(row["text"])})
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path.name}, line {number}: needs _id and text: {error}") from error
    return found


def evaluate(
    labeled: Labeled,
    *,
    embedder: str = "none",
    budgets: Sequence[int] = BUDGETS,
    through_context: bool = True,
    tick: Tick = lambda: None,
) -> Figures:
    """All figures of one set: ours, the baselines', and each query's misses."""
    with Headgate.open(":memory:", embed={"model": embedder}, review={"enabled": False}) as gate:
        gate.add(labeled.rows)
        for collection in {str(row["collection"]) for row in labeled.rows}:
            gate.index(collection)
        ours, seconds, misses = Tally(), [], []
        baselines = {"bm25": Tally(), **({"rrf": Tally()} if embedder != "none" else {})}
        for query in labeled.queries:
            ranking, spent, talk = _ranked(gate, query)
            seconds.append(spent)
            figures = _figures(ranking, labeled.labels[query["_id"]], budgets, talk=talk)
            if through_context:
                figures |= _context(gate, query, labeled.labels[query["_id"]], budgets)
                figures |= _framed(gate, ranking, labeled.labels[query["_id"]], budgets, talk=talk)
            ours.add(figures)
            misses.append(_missed(query, ranking, labeled.labels[query["_id"]]))
            for name, tally in baselines.items():
                plain = _plain(gate, query, fused=name == "rrf")
                tally.add(_figures(plain, labeled.labels[query["_id"]], budgets, talk=True))
            tick()
    p50, p95 = np.percentile(seconds, [50, 95]) if seconds else (0.0, 0.0)
    return {
        **ours.means(),
        "p50_ms": 1000 * float(p50),
        "p95_ms": 1000 * float(p95),
        "passages": len(labeled.rows),
        "queries": len(labeled.queries),
        "intervals": ours.intervals(),
        "baselines": {name: tally.means() for name, tally in baselines.items()},
        "misses": [miss for miss in misses if miss["missed"]],
    }


def _ranked(gate: Headgate, query: Mapping[str, str]) -> tuple[tuple[Candidate, ...], float, bool]:
    """The ranking, the CPU seconds it took (the query's embedding aside), and whether it is a conversation."""
    settings, collection = gate.settings, query.get("collection", "main")
    view = gate.index(collection)
    vector = gate.embed(query["text"])
    began = time.process_time()
    found = retrieve(query["text"], view, settings.retrieve, vector=vector)
    wired = propagate(found, query["text"], view, settings.propagate)
    return wired.kept, time.process_time() - began, view.conversational


def _plain(gate: Headgate, query: Mapping[str, str], *, fused: bool) -> tuple[Candidate, ...]:
    """The ranking of a baseline."""
    view = gate.index(query.get("collection", "main"))
    vector = gate.embed(query["text"]) if fused else None
    return retrieve(query["text"], view, RetrievePolicy(mode="rrf"), vector=vector).kept


def _figures(
    ranking: Sequence[Candidate], labels: Mapping[str, int], budgets: Sequence[int], *, talk: bool
) -> dict[str, float]:
    first = list(dict.fromkeys(c.chunk.document for c in ranking))[:10]
    gain = sum((2 ** labels.get(d, 0) - 1) / math.log2(n + 2) for n, d in enumerate(first))
    ideal = sorted(labels.values(), reverse=True)[:10]
    most = sum((2**grade - 1) / math.log2(n + 2) for n, grade in enumerate(ideal))
    figures = {"ndcg@10": gain / most, "recall@10": len(labels.keys() & set(first)) / len(labels)}
    for budget in budgets:
        chosen = {c.chunk.document for c in fill_budget(ranking, budget, talk=talk)}
        figures[f"evidence@{budget}"] = len(labels.keys() & chosen) / len(labels)
    return figures


def _context(
    gate: Headgate, query: Mapping[str, str], labels: Mapping[str, int], budgets: Sequence[int]
) -> dict[str, float]:
    figures = {}
    for budget in budgets:
        context = gate.context(
            query["text"], budget=budget, collection=query.get("collection", "main")
        )
        given = {chunk.document for chunk in context.chunks}
        figures[f"context_evidence@{budget}"] = len(labels.keys() & given) / len(labels)
    return figures


def _framed(
    gate: Headgate,
    ranking: Sequence[Candidate],
    labels: Mapping[str, int],
    budgets: Sequence[int],
    *,
    talk: bool,
) -> dict[str, float]:
    count = gate.count_tokens
    empty = count(fence("", SAMPLE_NONCE.encode(), notice=NOTICE))
    costs = {c.chunk.id: count(frame(1, c.chunk.title, c.chunk.text) + "\n") for c in ranking}
    figures = {}
    for budget in budgets:
        chosen = fill_budget(ranking, budget - empty, talk=talk, cost=lambda c: costs[c.chunk.id])
        given = {c.chunk.document for c in chosen}
        figures[f"framed_evidence@{budget}"] = len(labels.keys() & given) / len(labels)
    return figures


def _missed(
    query: Mapping[str, str], ranking: Sequence[Candidate], labels: Mapping[str, int]
) -> Figures:
    """Which labeled passages are not among the first ten, and where they stand (0: nowhere)."""
    order = list(dict.fromkeys(c.chunk.document for c in ranking))
    places = {d: order.index(d) + 1 if d in order else 0 for d in labels}
    missed = {d: place for d, place in places.items() if not 0 < place <= 10}
    return {"query": query["_id"], "text": query["text"], "missed": missed}
