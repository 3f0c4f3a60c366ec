"""Evaluate retrieval on labeled sets: does the evidence arrive, within how many tokens, and is the rest refused?

    evidence@B           the share of a query's labeled passages inside the first B tokens, when the ranking is packed
                         by score / tokens^.2 (conversations: score), what does not fit is skipped; tokens = chars / 4
    framed_evidence@B    the same ranking, counted and framed as `context()` does it
    context_evidence@B   the same for what `context()` gives for a budget of B
    ungraded_evidence@B  `context()` when nothing is refused
    best_shown@B         how often the best-ranked chunk is shown, if it fits
    empty@B              answerable questions that come back empty
    stopped              questions of the other sets of the run that come back empty, as they should
A passage is shown if one with the same words is: `context()` shows a text once.
Baselines on the same data: plain BM25 (bm25.py), and its reciprocal rank fusion with the embedder if there is one.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headgate.evaluate import bm25
from headgate.evaluate.bm25 import fill_budget
from headgate.evaluate.calibrate import Asked, Fitted, fit_without
from headgate.evaluate.labeled import Labeled, copies
from headgate.gateway import Headgate
from headgate.relevance.confidence import LOOK, evidence, has_enough_terms_to_refuse
from headgate.relevance.query_terms import ask, match
from headgate.stages.propagate import propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.stores.memory.store import MemoryStore
from headgate.text.fence import fence_cost, frame
from headgate.types import Candidate, Context

BUDGETS = (500, 1000, 2000, 4096)
FOREIGN = 120  # questions of other sets that are asked in a set
SETTINGS = "settings"  # as an embedder: the one that the settings name
JUDGED = 1000  # tokens of the context that foreign questions are judged by
_RESAMPLES = 1000
_SEED = 7

Tick = Callable[[], object]
Figures = dict[str, Any]
Query = Mapping[str, str]


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


@dataclass(slots=True)
class Run:
    """One set as it was measured: figures of each query, and what the grader saw of it."""

    labeled: Labeled
    ours: Tally = field(default_factory=Tally)
    baselines: dict[str, Tally] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    misses: list[Figures] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self, held_out: Fitted | None = None) -> Figures:
        """All figures of the set; judged by constants fitted without it if they are given."""
        ours = self.ours if held_out is None else _judge_again(self, held_out)
        p50, p95 = np.percentile(self.seconds, [50, 95]) if self.seconds else (0.0, 0.0)
        return {
            **ours.means(),
            "p50_ms": 1000 * float(p50),
            "p95_ms": 1000 * float(p95),
            "passages": len(self.labeled.rows),
            "queries": len(self.labeled.queries),
            "intervals": ours.intervals(),
            "baselines": {name: tally.means() for name, tally in self.baselines.items()},
            "misses": [miss for miss in self.misses if miss["missed"]],
        }


def evaluate(
    labeled: Labeled,
    *,
    embedder: str = "none",
    budgets: Sequence[int] = BUDGETS,
    through_context: bool = True,
    others: Sequence[Labeled] = (),
    most_foreign: int = FOREIGN,
    tick: Tick = lambda: None,
) -> Run:
    """Measure one set; `others` are the sets of whose questions it should refuse `most_foreign`.

    `embedder` is a model as `embed.model` names it, or SETTINGS for the one that the settings name.
    """
    run = Run(
        labeled, baselines={"bm25": Tally(), **({"rrf": Tally()} if embedder != "none" else {})}
    )
    store = MemoryStore()
    embed = {} if embedder == SETTINGS else {"model": embedder, "url": ""}
    with (
        Headgate.open(store=store, embed=embed) as gate,
        Headgate.open(store=store, embed=embed, grade={"enabled": False}) as ungraded,
    ):
        gate.add(labeled.rows)
        for collection in _collections(labeled):
            gate.index(collection)
        bench = _Bench(gate, ungraded, labeled, budgets, through_context=through_context)
        for query in labeled.queries:
            _measure(run, bench, query)
            tick()
        if through_context:
            for collection, source, text in foreign(labeled, others, most_foreign):
                _refuse(run, bench, collection, source, text)
                tick()
    return run


def leave_one_out(runs: Sequence[Run]) -> dict[str, Figures]:
    """The figures of each set, judged by a grader fitted on the others."""
    asked = [one for run in runs for one in run.asked]
    names = [run.labeled.name for run in runs]
    return {
        name: run.figures(fit_without(name, asked)) for name, run in zip(names, runs, strict=True)
    }


def mean(found: Mapping[str, Figures]) -> Figures:
    """The mean of each figure over the sets that have it, and its 95 % interval over resampled sets."""
    flat = [
        {k: v for k, v in figures.items() if isinstance(v, float)}
        | {f"bm25_{k}": v for k, v in figures["baselines"]["bm25"].items()}
        for figures in found.values()
    ]
    overall = Tally()
    for figures in flat:
        overall.add(figures)
    return {"mean": overall.means(), "intervals": overall.intervals()}


def foreign(
    labeled: Labeled, others: Sequence[Labeled], most: int = FOREIGN
) -> list[tuple[str, str, str]]:
    """Which questions of other sets are asked where: collection, set and text; the same in every run."""
    dice = random.Random(labeled.name)  # noqa: S311  a sample, no secret
    collections = _collections(labeled)
    apart = [other for other in others if other.name != labeled.name and other.queries]
    drawn = [apart[at % len(apart)] for at in range(most if apart else 0)]
    return [(dice.choice(collections), o.name, dice.choice(o.queries)["text"]) for o in drawn]


def _collections(labeled: Labeled) -> list[str]:
    return sorted({str(row["collection"]) for row in labeled.rows})


class _Bench:
    """One set behind a gate that refuses nothing, beside the one that users have."""

    def __init__(
        self,
        gate: Headgate,
        ungraded: Headgate,
        labeled: Labeled,
        budgets: Sequence[int],
        *,
        through_context: bool,
    ) -> None:
        self.gate = gate
        self._open = ungraded
        self._name = labeled.name
        self._copies = copies(labeled)
        self.budgets = budgets
        self.through_context = through_context
        self.count = gate.count_tokens
        self.framing = fence_cost(self.count)

    def cost(self, candidate: Candidate) -> int:
        """Tokens of a candidate, counted and framed as `context()` does it."""
        chunk = candidate.chunk
        return self.count(frame(1, chunk.title, chunk.text) + "\n")

    def share(self, given: set[str], labels: Mapping[str, int]) -> float:
        """The share of the labeled passages that are given, themselves or as a copy."""
        return _share(given.union(*(self._copies.get(id, ()) for id in given)), labels)

    def ungraded_context(self, text: str, collection: str, budget: int) -> Context:
        """What `context()` gives when nothing is refused."""
        return self._open.context(text, budget=budget, collection=collection)

    def ask(self, text: str, collection: str, shown: Context, *, source: str) -> Asked:
        """A question as the grader sees it beside a context."""
        if not shown.chunks:
            return Asked(self._name, source, None)
        view = self.gate.index(collection)
        question, best = ask(text, view), shown.chunks[:LOOK]
        matches = match(question, best, view.language)
        features = evidence(question, matches, [chunk.text for chunk in best], view)
        return Asked(self._name, source, features, has_enough_terms_to_refuse(question, matches))


def _measure(run: Run, bench: _Bench, query: Query) -> None:
    labels = run.labeled.labels[query["_id"]]
    collection, gate = query.get("collection", "main"), bench.gate
    view = gate.index(collection)
    ranking, spent = _rank(gate, query["text"], collection)
    run.seconds.append(spent)
    talk = view.conversational
    figures = _figures(ranking, labels, bench.budgets, talk=talk)
    if bench.through_context:
        figures |= _framed_figures(bench, ranking, labels, talk=talk)
        figures |= _through(run, bench, query, ranking)
    run.ours.add(figures)
    run.misses.append(_list_missed(query, ranking, labels))
    for name, tally in run.baselines.items():
        plain = bm25.rank(query["text"], view) if name == "bm25" else _rank_fused(gate, query)
        baseline = _figures(plain, labels, bench.budgets, talk=True)
        for budget in bench.budgets if bench.through_context else ():
            inside = bm25.fill(plain, budget - bench.framing, bench.cost)
            baseline[f"framed_evidence@{budget}"] = bench.share(bm25.documents(inside), labels)
        tally.add(baseline)


def _rank(gate: Headgate, text: str, collection: str) -> tuple[tuple[Candidate, ...], float]:
    """The ranking, and the CPU seconds it took, without those of the query's embedding."""
    settings = gate.settings
    view = gate.index(collection)
    vector = gate.embed(text)
    began = time.process_time()
    found = retrieve(text, view, settings.retrieve, vector=vector)
    wired = propagate(found, text, view, settings.propagate)
    return wired.kept, time.process_time() - began


def _rank_fused(gate: Headgate, query: Query) -> tuple[Candidate, ...]:
    """Rank by reciprocal rank fusion of BM25 and the embedder."""
    view = gate.index(query.get("collection", "main"))
    vector = gate.embed(query["text"])
    return retrieve(query["text"], view, RetrievePolicy(mode="rrf"), vector=vector).kept


def _share(given: set[str], labels: Mapping[str, int]) -> float:
    return len(labels.keys() & given) / len(labels)


def _figures(
    ranking: Sequence[Candidate], labels: Mapping[str, int], budgets: Sequence[int], *, talk: bool
) -> dict[str, float]:
    first = list(dict.fromkeys(c.chunk.document for c in ranking))[:10]
    gain = sum((2 ** labels.get(d, 0) - 1) / math.log2(n + 2) for n, d in enumerate(first))
    ideal = sorted(labels.values(), reverse=True)[:10]
    most = sum((2**grade - 1) / math.log2(n + 2) for n, grade in enumerate(ideal))
    figures = {
        "ndcg@10": gain / most,
        "recall@5": _share(set(first[:5]), labels),
        "recall@10": _share(set(first), labels),
        "all_evidence@10": float(labels.keys() <= set(first)),
    }
    for budget in budgets:
        chosen = bm25.documents(fill_budget(ranking, budget, talk=talk))
        figures[f"evidence@{budget}"] = _share(chosen, labels)
    return figures


def _framed_figures(
    bench: _Bench, ranking: Sequence[Candidate], labels: Mapping[str, int], *, talk: bool
) -> dict[str, float]:
    figures = {}
    for budget in bench.budgets:
        chosen = fill_budget(ranking, budget - bench.framing, talk=talk, cost=bench.cost)
        figures[f"framed_evidence@{budget}"] = bench.share(bm25.documents(chosen), labels)
    return figures


def _through(
    run: Run, bench: _Bench, query: Query, ranking: Sequence[Candidate]
) -> dict[str, float]:
    """The figures of `context()` at each budget, with the grader and without it."""
    labels = run.labeled.labels[query["_id"]]
    text, collection = query["text"], query.get("collection", "main")
    figures: dict[str, float] = {}
    for budget in bench.budgets:
        began = time.process_time()
        given = bench.gate.context(text, budget=budget, collection=collection)
        spent = time.process_time() - began
        ungraded = bench.ungraded_context(text, collection, budget)
        for kind, context in (("context", given), ("ungraded", ungraded)):
            shown = {chunk.document for chunk in context.chunks}
            figures[f"{kind}_evidence@{budget}"] = bench.share(shown, labels)
        figures[f"empty@{budget}"] = float(not given.chunks)
        figures[f"context_ms@{budget}"] = 1000 * spent
        if ranking and bench.cost(ranking[0]) <= budget - bench.framing:
            best = ranking[0].chunk.id in {c.id for c in ungraded.chunks}
            run.ours.add({f"best_shown@{budget}": float(best)})
        if budget == bench.budgets[min(1, len(bench.budgets) - 1)]:
            run.asked.append(bench.ask(text, collection, ungraded, source=run.labeled.name))
    return figures


def _refuse(run: Run, bench: _Bench, collection: str, source: str, text: str) -> None:
    """Ask a question that the collection cannot answer, and note whether it came back empty."""
    given = bench.gate.context(text, budget=JUDGED, collection=collection)
    ungraded = bench.ungraded_context(text, collection, JUDGED)
    run.asked.append(bench.ask(text, collection, ungraded, source=source))
    run.ours.add({"stopped": float(not given.chunks)})


def _judge_again(run: Run, held_out: Fitted) -> Tally:
    """The figures as a grader with other constants makes them: it shows all or nothing."""
    own = [one for one in run.asked if one.answerable]
    refused = np.array([held_out.refuses(one) for one in own], bool)
    judged = Tally({name: list(found) for name, found in run.ours.values.items()})
    for name, found in run.ours.values.items():
        kind, _, budget = name.partition("@")
        if kind == "ungraded_evidence":
            judged.values[f"context_evidence@{budget}"] = np.where(refused, 0.0, found).tolist()
        if kind == "empty":
            judged.values[name] = refused.astype(float).tolist()
    away = [one for one in run.asked if not one.answerable]
    if away:
        judged.values["stopped"] = [float(held_out.refuses(one)) for one in away]
    return judged


def _list_missed(query: Query, ranking: Sequence[Candidate], labels: Mapping[str, int]) -> Figures:
    """The labeled passages that are not among the first ten, with their ranks (0: not found)."""
    order = list(dict.fromkeys(c.chunk.document for c in ranking))
    places = {d: order.index(d) + 1 if d in order else 0 for d in labels}
    missed = {d: place for d, place in places.items() if not 0 < place <= 10}
    return {"query": query["_id"], "text": query["text"], "missed": missed}
