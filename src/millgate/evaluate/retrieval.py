"""Evaluate retrieval on labeled sets: does the evidence arrive, within how many tokens, and is the rest refused?

For a budget of B tokens (shown.py says how each is measured):

    context_evidence@B   the share of a query's labeled passages that `context()` shows, whole or in part
    whole_evidence@B     the share of which a chunk is shown whole
    answers@B            questions with the words of the answer in the text; of sets that have answers
    part_answers@B       the same, of the parts shown of labeled passages, if none of these is shown whole
    tokens@B             tokens sent
    empty@B              answerable questions that come back empty
    stopped              questions of the other sets of the run that come back empty, as they should
    unanswerable_stopped questions of the set that it cannot answer, and that come back empty
    calibration_error    the distance between confidences and the truth, at the second budget
    ndcg@10, recall@10   of the ranking alone
    evidence@B           of the ranking alone, packed by score / tokens^.2 (conversations: score); what does not fit is
                         skipped; tokens = chars / 4
    p50_ms, p95_ms       CPU of a request at the second budget, in the thread that asks
The baseline is plain BM25 over the same chunks, in the same budget, counted and framed in the same way.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from millgate.evaluate.labeled import Labeled, Query, Settings, StoredSet, collection_of
from millgate.evaluate.shown import (
    Truth,
    fill,
    fill_by_bm25,
    measure,
    order_by_value,
    pieces_of,
    rank_by_bm25,
    size,
)
from millgate.gateway import Millgate
from millgate.types import Candidate, Context
from millgate.types.notes import Fate, Stage

BUDGETS = (500, 1000, 2000, 4096)
FOREIGN = 120  # questions of other sets that are asked in a set
JUDGED = 1000  # tokens of the context that foreign questions are judged by
BANDS = 10  # of confidences, of equal width
_RESAMPLES = 1000
_SEED = 7
_RANKING = {Stage.RETRIEVE, Stage.PROPAGATE}

Tick = Callable[[], object]
Figures = dict[str, Any]
Pair = tuple[float, bool]
"""A chunk's confidence, and whether it is evidence for the question."""


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
    """One set as it was measured: figures of each query, and the confidences of what was graded."""

    labeled: Labeled
    ours: Tally = field(default_factory=Tally)
    bm25: Tally = field(default_factory=Tally)
    pairs: list[Pair] = field(default_factory=list)
    misses: list[Figures] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self) -> Figures:
        """All figures of the set."""
        p50, p95 = np.percentile(self.seconds, [50, 95]) if self.seconds else (0.0, 0.0)
        return {
            **self.ours.means(),
            "calibration_error": calibration_error([self.pairs]),
            "p50_ms": 1000 * float(p50),
            "p95_ms": 1000 * float(p95),
            "passages": len(self.labeled.rows),
            "queries": len(self.labeled.queries),
            "intervals": self.ours.intervals(),
            "baselines": {"bm25": self.bm25.means()},
            "misses": [miss for miss in self.misses if miss["missed"]],
        }


def evaluate(
    stored: StoredSet,
    *,
    settings: Settings | None = None,
    budgets: Sequence[int] = BUDGETS,
    others: Sequence[Labeled] = (),
    most_foreign: int = FOREIGN,
    tick: Tick = lambda: None,
) -> Run:
    """Measure one set under some settings; `others` are the sets of whose questions it should refuse `most_foreign`."""
    labeled = stored.labeled
    run = Run(labeled)
    with stored.open(settings) as gate:
        count = cache(gate.count_tokens)
        for query in labeled.queries:
            _measure(run, stored, gate, query, budgets=budgets, count=count)
            tick()
        apart = foreign(labeled, others, most_foreign)
        own = [(collection_of(query), "", query["text"]) for query in labeled.unanswerable]
        for name, asked in (("stopped", apart), ("unanswerable_stopped", own)):
            for collection, _, text in asked:
                given = gate.context(text, budget=JUDGED, collection=collection)
                run.ours.add({name: float(not given.chunks)})
                tick()
    return run


def mean(found: Mapping[str, Figures]) -> Figures:
    """The mean of each figure over the sets that have it, and its 95 % interval over resampled sets."""
    overall = Tally()
    for figures in map(with_baselines, found.values()):
        overall.add({k: v for k, v in figures.items() if isinstance(v, float)})
    return {"mean": overall.means(), "intervals": overall.intervals()}


def with_baselines(figures: Figures) -> Figures:
    """The figures of a set, those of each baseline beside ours under its name."""
    theirs = figures["baselines"].items()
    return figures | {f"{name}_{k}": v for name, means in theirs for k, v in means.items()}


def calibration_error(sets: Sequence[Sequence[Pair]]) -> float:
    """Is a chunk with a confidence of .7 evidence in seven cases of ten? Each set weighs the same; 0 without a pair.

    The expected calibration error is the mean distance between what a band of confidences says and what is true of it,
    weighed by its pairs: Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian
    Binning", 2015. Within a band that is what is said less what is true, added up.
    """
    away = [0.0] * BANDS
    filled = [pairs for pairs in sets if pairs]
    for pairs in filled:
        for said, true in pairs:
            away[min(int(said * BANDS), BANDS - 1)] += (said - true) / len(pairs) / len(filled)
    return sum(map(abs, away))


def foreign(
    labeled: Labeled, others: Sequence[Labeled], most: int = FOREIGN
) -> list[tuple[str, str, str]]:
    """Which questions of other sets are asked where: collection, set and text; the same in every run."""
    dice = random.Random(labeled.name)  # noqa: S311  a sample, no secret
    collections = labeled.collections
    apart = [other for other in others if other.name != labeled.name and other.queries]
    drawn = [apart[at % len(apart)] for at in range(most if apart else 0)]
    return [(dice.choice(collections), o.name, dice.choice(o.queries)["text"]) for o in drawn]


def _measure(
    run: Run,
    stored: StoredSet,
    gate: Millgate,
    query: Query,
    *,
    budgets: Sequence[int],
    count: Callable[[str], int],
) -> None:
    """Ask one question at every budget, and the baseline beside it."""
    id, text, view = query["_id"], query["text"], gate.index(collection_of(query))
    labels = run.labeled.labels[id]
    truth = Truth(labels, run.labeled.answers.get(id, ()), stored.copies)
    plain = rank_by_bm25(text, view)
    ours: dict[str, float] = {}
    theirs = rank_figures(plain, labels)
    for budget in budgets:
        began = time.thread_time()
        given = gate.context(text, budget=budget, collection=collection_of(query))
        spent = time.thread_time() - began
        shown = measure(pieces_of(given), given.token_estimate, truth)
        beside = measure(*fill_by_bm25(plain, budget, count), truth)
        ours |= {f"{name}@{budget}": value for name, value in shown.items()}
        theirs |= {f"{name}@{budget}": value for name, value in beside.items()}
        if budget == budgets[min(1, len(budgets) - 1)]:
            run.seconds.append(spent)
            run.pairs += graded_pairs(given, truth)
    ranking = ranking_of(given)
    by_value = order_by_value(ranking, talk=view.conversational)
    ours |= rank_figures(ranking, labels)
    for figures, order in ((ours, by_value), (theirs, plain)):
        for budget in budgets:
            chosen = {c.chunk.document for c in fill(order, budget, size)}
            figures[f"evidence@{budget}"] = _share(chosen, labels)
    run.ours.add(ours)
    run.bm25.add(theirs)
    run.misses.append({"query": id, "text": text, "missed": find_missed(ranking, labels)})


def graded_pairs(context: Context, truth: Truth) -> list[Pair]:
    """The pairs of a context: every candidate of its trace that was given a confidence, with the last one noted."""
    found = []
    for candidate in context.trace.candidates:
        noted = (note.numbers.get("confidence") for note in reversed(candidate.notes))
        said = next((mark for mark in noted if mark is not None), None)
        if said is not None:
            found.append((said, bool(truth.labeled([candidate.chunk.document]))))
    return found


def ranking_of(context: Context) -> list[Candidate]:
    """The candidates of a request as retrieving and propagating ranked them, whatever later stages made of them."""
    ranked = (
        c
        for c in context.trace.candidates
        if not any(note.fate is Fate.DROP and note.stage in _RANKING for note in c.notes)
    )
    return sorted(ranked, key=lambda c: -c.score)


def find_missed(ranking: Sequence[Candidate], labels: Mapping[str, int]) -> dict[str, int]:
    """The labeled passages that are not among the first ten, with their ranks; 0: not found."""
    places = list(dict.fromkeys(c.chunk.document for c in ranking))
    return {d: places.index(d) + 1 if d in places else 0 for d in labels if d not in places[:10]}


def _share(given: set[str], labels: Mapping[str, int]) -> float:
    return len(labels.keys() & given) / len(labels)


def rank_figures(ranking: Sequence[Candidate], labels: Mapping[str, int]) -> dict[str, float]:
    """The nDCG and the recall of a ranking."""
    first = list(dict.fromkeys(c.chunk.document for c in ranking))[:10]
    gain = sum((2 ** labels.get(d, 0) - 1) / math.log2(n + 2) for n, d in enumerate(first))
    ideal = sorted(labels.values(), reverse=True)[:10]
    most = sum((2**grade - 1) / math.log2(n + 2) for n, grade in enumerate(ideal))
    return {"ndcg@10": gain / most, "recall@10": _share(set(first), labels)}
