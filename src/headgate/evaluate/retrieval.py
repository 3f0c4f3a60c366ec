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
The baseline is plain BM25 (bm25.py) over the same chunks, in the same budget, counted and framed in the same way.
"""

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from headgate.evaluate import bm25
from headgate.evaluate.calibrate import Asked, Fitted, fit_without
from headgate.evaluate.labeled import Labeled, Query, copies
from headgate.evaluate.reliability import Pair, bands, expected_error, graded_pairs, pool
from headgate.evaluate.shown import Truth, measure, pieces_of, whole_pieces
from headgate.gateway import Headgate
from headgate.notes import Fate, Stage
from headgate.relevance.confidence import LOOK, evidence, has_enough_terms_to_refuse
from headgate.relevance.query_terms import ask, match
from headgate.stores.memory.store import MemoryStore
from headgate.text.fence import fence_cost, frame
from headgate.types import Candidate, Context, Trace

BUDGETS = (500, 1000, 2000, 4096)
FOREIGN = 120  # questions of other sets that are asked in a set
SETTINGS = "settings"  # as an embedder: the one that the settings name
JUDGED = 1000  # tokens of the context that foreign questions are judged by
_RESAMPLES = 1000
_SEED = 7
_RANKING = {Stage.RETRIEVE, Stage.PROPAGATE}

Tick = Callable[[], object]
Figures = dict[str, Any]
Settings = Mapping[str, Any]
"""Settings by section, as `Headgate.open` takes them."""


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


class MeasuredStore(MemoryStore):
    """A store for several gates, which keeps no traces. Everyone knows its secret, so that two runs count the same
    tokens for their fences.
    """

    def secret(self, tenant: str) -> bytes:  # noqa: D102  (see the class)
        return bytes(32)

    def save_trace(self, trace: Trace, *, keep: int = 10_000, text: bool = True) -> None:
        """Keep nothing: every context has its trace."""

    def close(self) -> None:
        """Stay open for the gates that are still open."""


@dataclass(slots=True)
class Run:
    """One set as it was measured: figures of each query, and what the grader saw of it."""

    labeled: Labeled
    ours: Tally = field(default_factory=Tally)
    bm25: Tally = field(default_factory=Tally)
    asked: list[Asked] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    misses: list[Figures] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def figures(self, held_out: Fitted | None = None) -> Figures:
        """All figures of the set; judged by constants fitted without it if they are given."""
        ours = self.ours if held_out is None else _judge_again(self, held_out)
        p50, p95 = np.percentile(self.seconds, [50, 95]) if self.seconds else (0.0, 0.0)
        return {
            **ours.means(),
            "calibration_error": expected_error(self.pairs),
            "p50_ms": 1000 * float(p50),
            "p95_ms": 1000 * float(p95),
            "passages": len(self.labeled.rows),
            "queries": len(self.labeled.queries),
            "intervals": ours.intervals(),
            "baselines": {"bm25": self.bm25.means()},
            "reliability": [asdict(band) for band in bands(self.pairs)],
            "misses": [miss for miss in self.misses if miss["missed"]],
        }


def evaluate(
    labeled: Labeled,
    *,
    settings: Settings | None = None,
    embedder: str = "none",
    budgets: Sequence[int] = BUDGETS,
    others: Sequence[Labeled] = (),
    most_foreign: int = FOREIGN,
    to_fit: bool = False,
    tick: Tick = lambda: None,
) -> Run:
    """Measure one set; `others` are the sets of whose questions it should refuse `most_foreign`.

    `settings` change what is measured. `embedder` is a model as `embed.model` names it, or SETTINGS for the one that
    the settings name. With `to_fit`, each question is also asked without a grader, as fitting one needs.
    """
    run, store = Run(labeled), MeasuredStore()
    changes = dict(settings or {})
    if embedder != SETTINGS:
        changes["embed"] = {"model": embedder, "url": ""}
    ungraded = changes | {"grade": {"enabled": False}}
    with (
        Headgate.open(store=store, **changes) as gate,
        Headgate.open(store=store, **ungraded) as open_gate,
    ):
        gate.add(labeled.rows)
        bench = _Bench(labeled, gate, open_gate if to_fit else None, budgets)
        for collection in _collections(labeled):
            gate.index(collection)
        for query in labeled.queries:
            _measure(run, bench, query)
            tick()
        for collection, source, text in foreign(labeled, others, most_foreign):
            _refuse(run, bench, collection, source, text)
            tick()
        for query in labeled.unanswerable:
            given = gate.context(query["text"], budget=JUDGED, collection=_collection(query))
            run.ours.add({"unanswerable_stopped": float(not given.chunks)})
            tick()
    return run


def leave_one_out(runs: Sequence[Run]) -> dict[str, Figures]:
    """The figures of each set, judged by a grader fitted on the others; the runs were made `to_fit`."""
    asked = [one for run in runs for one in run.asked]
    return {run.labeled.name: run.figures(fit_without(run.labeled.name, asked)) for run in runs}


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
    collections = _collections(labeled)
    apart = [other for other in others if other.name != labeled.name and other.queries]
    drawn = [apart[at % len(apart)] for at in range(most if apart else 0)]
    return [(dice.choice(collections), o.name, dice.choice(o.queries)["text"]) for o in drawn]


def _collections(labeled: Labeled) -> list[str]:
    return sorted({str(row["collection"]) for row in labeled.rows})


def _collection(query: Query) -> str:
    return query.get("collection", "main")


class _Bench:
    """One set behind the gate that is measured, and behind one that refuses nothing if a grader is to be fitted."""

    def __init__(
        self,
        labeled: Labeled,
        gate: Headgate,
        ungraded: Headgate | None,
        budgets: Sequence[int],
    ) -> None:
        self.gate = gate
        self.ungraded = ungraded
        self.budgets = budgets
        self.judged = budgets[min(1, len(budgets) - 1)]
        self.framing = fence_cost(gate.count_tokens)
        self._labeled = labeled
        self._copies = copies(labeled)
        self._costs: dict[str, int] = {}

    def truth(self, query: Query) -> Truth:
        """What the labels say about a query."""
        id = query["_id"]
        return Truth(self._labeled.labels[id], self._labeled.answers.get(id, ()), self._copies)

    def cost(self, candidate: Candidate) -> int:
        """Tokens of a candidate, counted and framed as `context()` does it."""
        chunk = candidate.chunk
        if chunk.id not in self._costs:
            framed = frame(1, chunk.title, chunk.text) + "\n"
            self._costs[chunk.id] = self.gate.count_tokens(framed)
        return self._costs[chunk.id]

    def ask(self, text: str, collection: str, shown: Context, *, source: str) -> Asked:
        """A question as the grader sees it beside a context."""
        if not shown.chunks:
            return Asked(self._labeled.name, source, None)
        view = self.gate.index(collection)
        question, best = ask(text, view), shown.chunks[:LOOK]
        matches = match(question, best, view.language)
        features = evidence(question, matches, [chunk.text for chunk in best], view)
        telling = has_enough_terms_to_refuse(question, matches)
        return Asked(self._labeled.name, source, features, telling)


def _measure(run: Run, bench: _Bench, query: Query) -> None:
    """Ask one question at every budget, and the baseline beside it."""
    truth, view = bench.truth(query), bench.gate.index(_collection(query))
    plain = bm25.rank(query["text"], view)
    ours: dict[str, float] = {}
    theirs = _rank_figures(plain, truth.labels)
    for budget in bench.budgets:
        began = time.thread_time()
        given = bench.gate.context(query["text"], budget=budget, collection=_collection(query))
        spent = time.thread_time() - began
        ours |= _at(budget, measure(pieces_of(given), given.token_estimate, truth))
        inside = bm25.fill(plain, budget - bench.framing, bench.cost)
        sent = sum(map(bench.cost, inside)) + (bench.framing if inside else 0)
        theirs |= _at(budget, measure(whole_pieces(inside), sent, truth))
        if budget == bench.judged:
            run.seconds.append(spent)
            run.pairs += graded_pairs(given, truth)
        if bench.ungraded:
            ours |= _without_grader(run, bench, query, budget)
    ranking = ranking_of(given)
    by_value = bm25.order_by_value(ranking, talk=view.conversational)
    ours |= _rank_figures(ranking, truth.labels)
    for figures, order in ((ours, by_value), (theirs, plain)):
        for budget in bench.budgets:
            chosen = {c.chunk.document for c in bm25.fill(order, budget, bm25.size)}
            figures[f"evidence@{budget}"] = _share(chosen, truth.labels)
    run.ours.add(ours)
    run.bm25.add(theirs)
    run.misses.append(_list_missed(query, ranking, truth.labels))


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


def _without_grader(run: Run, bench: _Bench, query: Query, budget: int) -> dict[str, float]:
    """The evidence when nothing is refused; what a grader would see is noted in the run."""
    assert bench.ungraded is not None
    text, collection = query["text"], _collection(query)
    shown = bench.ungraded.context(text, budget=budget, collection=collection)
    if budget == bench.judged:
        run.asked.append(bench.ask(text, collection, shown, source=run.labeled.name))
    figures = measure(pieces_of(shown), shown.token_estimate, bench.truth(query))
    return {f"ungraded_evidence@{budget}": figures["context_evidence"]}


def _refuse(run: Run, bench: _Bench, collection: str, source: str, text: str) -> None:
    """Ask a question that the collection cannot answer, and note whether it came back empty."""
    given = bench.gate.context(text, budget=JUDGED, collection=collection)
    run.ours.add({"stopped": float(not given.chunks)})
    if bench.ungraded:
        shown = bench.ungraded.context(text, budget=JUDGED, collection=collection)
        run.asked.append(bench.ask(text, collection, shown, source=source))


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
