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
    calibration_error    the distance between confidences and the truth (reliability.py), at the second budget
    ndcg@10, recall@10   of the ranking alone
    evidence@B           of the ranking alone, packed by score / tokens^.2 (conversations: score); what does not fit is
                         skipped; tokens = chars / 4
    p50_ms, p95_ms       CPU of a request at the second budget, in the thread that asks
The baseline is plain BM25 (bm25.py) over the same chunks, in the same budget, counted and framed in the same way. The
published gating pipeline (published.py), and a random order of its candidates, are measured beside it if asked for.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from millgate.evaluate import bm25
from millgate.evaluate.labeled import Labeled, Query
from millgate.evaluate.published import PublishedGating
from millgate.evaluate.reliability import Pair, bands, expected_error, graded_pairs, pool
from millgate.evaluate.shown import measure, pieces_of, whole_pieces
from millgate.evaluate.stored_set import Settings, StoredSet, collection_of, collections_of
from millgate.gateway import Millgate
from millgate.published.entropy_gating import estimate_tokens
from millgate.types import Candidate, Context
from millgate.types.notes import Fate, Stage

BUDGETS = (500, 1000, 2000, 4096)
FOREIGN = 120  # questions of other sets that are asked in a set
JUDGED = 1000  # tokens of the context that foreign questions are judged by
_RESAMPLES = 1000
_SEED = 7
_RANKING = {Stage.RETRIEVE, Stage.PROPAGATE}

Tick = Callable[[], object]
Figures = dict[str, Any]


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
    baselines: dict[str, Tally] = field(default_factory=lambda: defaultdict(Tally))
    pairs: list[Pair] = field(default_factory=list)
    misses: list[Figures] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self, judged: Tally | None = None) -> Figures:
        """All figures of the set; `judged` are ours as another grader makes them."""
        ours = judged or self.ours
        p50, p95 = np.percentile(self.seconds, [50, 95]) if self.seconds else (0.0, 0.0)
        return {
            **ours.means(),
            "calibration_error": expected_error(self.pairs),
            "p50_ms": 1000 * float(p50),
            "p95_ms": 1000 * float(p95),
            "passages": len(self.labeled.rows),
            "queries": len(self.labeled.queries),
            "intervals": ours.intervals(),
            "baselines": {name: tally.means() for name, tally in self.baselines.items()},
            "reliability": [asdict(band) for band in bands(self.pairs)],
            "misses": [miss for miss in self.misses if miss["missed"]],
        }


def evaluate(
    stored: StoredSet,
    *,
    settings: Settings | None = None,
    budgets: Sequence[int] = BUDGETS,
    others: Sequence[Labeled] = (),
    most_foreign: int = FOREIGN,
    published: bool = False,
    tick: Tick = lambda: None,
) -> Run:
    """Measure one set under some settings; `others` are the sets of whose questions it should refuse `most_foreign`.

    `published` also measures the published gating pipeline.
    """
    labeled = stored.labeled
    run = Run(labeled)
    with stored.open(settings) as gate:
        for query in labeled.queries:
            _measure(run, stored, gate, budgets, query)
            tick()
        if published:
            _measure_published(run, stored, gate, budgets)
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


def reliability(runs: Sequence[Run]) -> Figures:
    """The reliability of the confidences over several sets, each weighing the same."""
    pairs = pool([run.pairs for run in runs])
    return {
        "calibration_error": expected_error(pairs),
        "bands": [asdict(band) for band in bands(pairs)],
    }


def foreign(
    labeled: Labeled, others: Sequence[Labeled], most: int = FOREIGN
) -> list[tuple[str, str, str]]:
    """Which questions of other sets are asked where: collection, set and text; the same in every run."""
    dice = random.Random(labeled.name)  # noqa: S311  a sample, no secret
    collections = collections_of(labeled)
    apart = [other for other in others if other.name != labeled.name and other.queries]
    drawn = [apart[at % len(apart)] for at in range(most if apart else 0)]
    return [(dice.choice(collections), o.name, dice.choice(o.queries)["text"]) for o in drawn]


def _measure(
    run: Run, stored: StoredSet, gate: Millgate, budgets: Sequence[int], query: Query
) -> None:
    """Ask one question at every budget, and the baseline beside it."""
    truth, view = stored.truth(query), gate.index(collection_of(query))
    plain = bm25.rank(query["text"], view)
    ours: dict[str, float] = {}
    theirs = _rank_figures(plain, truth.labels)
    for budget in budgets:
        began = time.thread_time()
        given = gate.context(query["text"], budget=budget, collection=collection_of(query))
        spent = time.thread_time() - began
        ours |= _at(budget, measure(pieces_of(given), given.token_estimate, truth))
        theirs |= _at(budget, measure(*stored.fill_by_bm25(plain, budget, gate), truth))
        if budget == judged_budget(budgets):
            run.seconds.append(spent)
            run.pairs += graded_pairs(given, truth)
    ranking = ranking_of(given)
    by_value = bm25.order_by_value(ranking, talk=view.conversational)
    ours |= _rank_figures(ranking, truth.labels)
    for figures, order in ((ours, by_value), (theirs, plain)):
        for budget in budgets:
            chosen = {c.chunk.document for c in bm25.fill(order, budget, bm25.size)}
            figures[f"evidence@{budget}"] = _share(chosen, truth.labels)
    run.ours.add(ours)
    run.baselines["bm25"].add(theirs)
    run.misses.append(_list_missed(query, ranking, truth.labels))


def _measure_published(run: Run, stored: StoredSet, gate: Millgate, budgets: Sequence[int]) -> None:
    """Ask every question of the published pipeline too."""
    pipelines = {name: PublishedGating(gate.index(name)) for name in collections_of(stored.labeled)}
    for query in stored.labeled.queries:
        truth = stored.truth(query)
        for budget in budgets:
            filled = pipelines[collection_of(query)].fill(query, gate, budget)
            for name, rows in zip(("published", "random"), filled, strict=True):
                pieces = whole_pieces(Candidate(row["chunk"], row["entropy"]) for row in rows)
                sent = sum(estimate_tokens(row["content"]) for row in rows)
                run.baselines[name].add(_at(budget, measure(pieces, sent, truth)))


def judged_budget(budgets: Sequence[int]) -> int:
    """The budget at which CPU and confidences are measured: the second, if there are several."""
    return budgets[min(1, len(budgets) - 1)]


def _at(budget: int, figures: Mapping[str, float]) -> dict[str, float]:
    return {f"{name}@{budget}": value for name, value in figures.items()}


def ranking_of(context: Context) -> list[Candidate]:
    """The candidates of a request as retrieving and propagating ranked them, whatever later stages made of them."""
    ranked = (
        c
        for c in context.trace.candidates
        if not any(note.fate is Fate.DROP and note.stage in _RANKING for note in c.notes)
    )
    return sorted(ranked, key=lambda c: -c.score)


def _share(given: set[str], labels: Mapping[str, int]) -> float:
    return len(labels.keys() & given) / len(labels)


def _rank_figures(ranking: Sequence[Candidate], labels: Mapping[str, int]) -> dict[str, float]:
    """The nDCG and the recall of a ranking."""
    first = list(dict.fromkeys(c.chunk.document for c in ranking))[:10]
    gain = sum((2 ** labels.get(d, 0) - 1) / math.log2(n + 2) for n, d in enumerate(first))
    ideal = sorted(labels.values(), reverse=True)[:10]
    most = sum((2**grade - 1) / math.log2(n + 2) for n, grade in enumerate(ideal))
    return {
        "ndcg@10": gain / most,
        "recall@5": _share(set(first[:5]), labels),
        "recall@10": _share(set(first), labels),
        "all_evidence@10": float(labels.keys() <= set(first)),
    }


def _list_missed(query: Query, ranking: Sequence[Candidate], labels: Mapping[str, int]) -> Figures:
    """The labeled passages that are not among the first ten, with their ranks (0: not found)."""
    order = list(dict.fromkeys(c.chunk.document for c in ranking))
    places = {d: order.index(d) + 1 if d in order else 0 for d in labels}
    missed = {d: place for d, place in places.items() if not 0 < place <= 10}
    return {"query": query["_id"], "text": query["text"], "missed": missed}
