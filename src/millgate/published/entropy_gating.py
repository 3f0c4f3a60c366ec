"""Entropy gating with corrective retrieval, as published in GenieHelper's documentation ("Entropy gating").

A chunk's score is its Shannon entropy, H = -Σ p·log2 p, over its words (against 6 bits) and its characters (5.5):
    score = round(0.6 · min(H_words / 6, 1) + 0.4 · min(H_chars / 5.5, 1), 4)
Chunks under a floor go, the others enter by falling score while they fit (4 characters are a token). Before that, two
rankings are joined by reciprocal ranks, and signals travel over a graph by leaky integrate-and-fire. After it, what is
relevant is injected; if nothing is, the web is searched, and then a person is asked. `gate_by_entropy` and `correct`
are the whole of it.

Millgate ranks by relevance instead, since the entropy score mostly follows length (docs/origins.md). These functions
are the only place where the published rules still are.
"""

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from millgate.errors import InputError
from millgate.text.entropy import information_score, shannon_entropy, token_entropy

__all__ = [
    "CHARS_PER_TOKEN",
    "Action",
    "annotate_chunks",
    "calculate_shannon_entropy",
    "calculate_token_entropy",
    "correct",
    "estimate_tokens",
    "eviction_report",
    "gate_by_entropy",
    "integrate_and_fire",
    "prune_to_budget",
    "reciprocal_rank_fusion",
    "score_chunk",
]

MAX_TOKENS = 4096
MIN_ENTROPY = 0.1
CHARS_PER_TOKEN = 4

RANK_CONSTANT = 60  # beside the rank in reciprocal rank fusion

LEAK = 0.85  # what is left of a signal after one edge of weight 1
SIGNAL_FLOOR = 0.02  # weaker signals are discarded
MAX_HOPS = 3
FIRING_THRESHOLD = 0.5

REVIEWS = "hitl_sessions"  # the collection in which answers wait for a person


# -- the score -----------------------------------------------------------------------------------


def calculate_shannon_entropy(text: str) -> float:
    """Entropy over characters, in bits; 0 for an empty text."""
    return shannon_entropy(text)


def calculate_token_entropy(text: str) -> float:
    """Entropy over lower-cased, white-space separated words, in bits; 0 for an empty text."""
    return token_entropy(text)


def score_chunk(chunk: Mapping[str, Any] | str) -> float:
    """The entropy score of a row's `content`, or of a text, 0..1, with four decimals."""
    return information_score(chunk if isinstance(chunk, str) else _content(chunk))


# -- into the budget -----------------------------------------------------------------------------


def estimate_tokens(text: str) -> int:
    """The tokens of a text: a quarter of its characters."""
    return len(text) // CHARS_PER_TOKEN


def annotate_chunks(chunks: Sequence[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """Set `entropy`, the score of `content`, in each row; the rows themselves."""
    for at, row in enumerate(chunks):
        row["entropy"] = information_score(_content(row, at))
    return list(chunks)


def prune_to_budget(
    chunks: Sequence[MutableMapping[str, Any]],
    max_tokens: int = MAX_TOKENS,
    min_entropy: float = MIN_ENTROPY,
) -> list[MutableMapping[str, Any]]:
    """The rows that fit, by falling entropy; those under the floor go.

    A row that brings its `entropy` keeps it; the others get theirs.
    """
    for at, row in enumerate(chunks):
        row["entropy"] = _entropy_of(row, at)
    used = 0
    selected = []
    for row in sorted(chunks, key=lambda row: -row["entropy"]):
        tokens = estimate_tokens(_content(row))
        if row["entropy"] >= min_entropy and used + tokens <= max_tokens:
            selected.append(row)
            used += tokens
    return selected


def eviction_report(
    chunks: Sequence[Mapping[str, Any]],
    selected: Sequence[Mapping[str, Any]],
    *,
    min_entropy: float = MIN_ENTROPY,
) -> dict[str, Any]:
    """Counts, average entropies, the evicted ids ("?" for a row without one), and for each the reason."""
    kept = {_key(row) for row in selected}
    evicted = [row for row in chunks if _key(row) not in kept]
    low = f"entropy below {min_entropy:g}"
    return {
        "total_candidates": len(chunks),
        "kept": len(selected),
        "evicted": len(evicted),
        "avg_entropy_kept": _mean_entropy(selected),
        "avg_entropy_evicted": _mean_entropy(evicted),
        "evicted_ids": [row.get("id", "?") for row in evicted],
        "reasons": {
            row.get("id", "?"): low if _entropy_of(row) < min_entropy else "no room left"
            for row in evicted
        },
    }


def _key(row: Mapping[str, Any]) -> object:
    """What tells a row from others: its id, or its text if it has none."""
    return row.get("id", (_content(row),))


def _mean_entropy(rows: Sequence[Mapping[str, Any]]) -> float:
    return sum(map(_entropy_of, rows)) / len(rows) if rows else 0.0


def _content(row: Mapping[str, Any], at: int = 0) -> str:
    content = row.get("content", "")
    if not isinstance(content, str):
        raise InputError(
            f"row {at} has no text in 'content' but {type(content).__name__}",
            hint="give rows as {'id': ..., 'content': '...'}",
        )
    return content


def _entropy_of(row: Mapping[str, Any], at: int = 0) -> float:
    known = row.get("entropy")
    if known is None:
        return information_score(_content(row, at))
    if not isinstance(known, int | float) or not math.isfinite(known):
        raise InputError(f"row {at} has the entropy {known!r}; it must be a number", hint="leave it out to have it measured")  # fmt: skip
    return float(known)


# -- two rankings as one -------------------------------------------------------------------------


def reciprocal_rank_fusion(
    rankings: Iterable[NDArray[np.int64]], size: int, *, k: int = RANK_CONSTANT
) -> NDArray[np.float64]:
    """The score of each of `size` chunks: Σ 1 / (k + rank) over the rankings that hold it, with ranks from 1.

    A ranking lists the numbers of its chunks, best first.
    """
    scores = np.zeros(size)
    for ranking in rankings:
        scores[ranking] += 1.0 / (k + 1 + np.arange(len(ranking)))
    return scores


# -- leaky integrate-and-fire --------------------------------------------------------------------


def integrate_and_fire(
    seeds: Sequence[Any],
    edges: Callable[[Any], Iterable[tuple[Any, float]]],
    *,
    leak: float = LEAK,
    floor: float = SIGNAL_FLOOR,
    hops: int = MAX_HOPS,
    threshold: float = FIRING_THRESHOLD,
) -> dict[Any, float]:
    """The potential of every node that fires, seeds aside.

    Seeds start with charge 1.0. In each of at most 3 synchronous steps a node sends what reached it in the step before:
    charge × weight × leak. A signal never goes back to the node it came from, so one edge of weight .5 brings .425 and
    no more. A node's potential adds up over all incoming signals; at 0.5 it fires. Nodes have an order and are visited
    in it, so that sums are the same on every machine.
    """
    # node -> what it has to pass on, by the node that it came from, None for a seed
    charges: dict[Any, dict[Any, float]] = {seed: {None: 1.0} for seed in sorted(seeds)}
    potential: dict[Any, float] = {}
    for _ in range(hops):
        arriving: dict[Any, dict[Any, float]] = {}
        for node in sorted(charges):
            came, total = charges[node], sum(charges[node].values())
            for other, weight in sorted(edges(node)):
                signal = (total - came.get(other, 0.0)) * weight * leak
                if signal >= floor and other != node:
                    inbox = arriving.setdefault(other, {})
                    inbox[node] = inbox.get(node, 0.0) + signal
        for node in sorted(arriving):
            potential[node] = potential.get(node, 0.0) + sum(arriving[node].values())
        charges = arriving
    started = set(seeds)
    return {n: p for n, p in sorted(potential.items()) if p >= threshold and n not in started}


# -- the whole of it -----------------------------------------------------------------------------

Row = MutableMapping[str, Any]


def gate_by_entropy(
    chunks: Sequence[Row],
    rankings: Iterable[NDArray[np.int64]],
    edges: Callable[[int], Iterable[tuple[int, float]]],
    *,
    seeds: int,
    max_tokens: int = MAX_TOKENS,
    min_entropy: float = MIN_ENTROPY,
) -> tuple[list[Row], dict[str, Any]]:
    """The rows that enter the context, and the eviction report.

    The rankings are fused, the best `seeds` send signals along `edges`, which go from the number of a row to those of
    others, and seeds and what fires are pruned to the budget by entropy.
    """
    scores = reciprocal_rank_fusion(rankings, len(chunks))
    first = [int(n) for n in np.argsort(-scores, kind="stable")[:seeds] if scores[n] > 0]
    fired = integrate_and_fire(first, edges)
    candidates = annotate_chunks([chunks[n] for n in (*first, *fired)])
    selected = prune_to_budget(candidates, max_tokens, min_entropy)
    return selected, eviction_report(candidates, selected, min_entropy=min_entropy)


class Action(StrEnum):
    """What follows from the grades of a context."""

    INJECT = "inject"
    WEB_SEARCH = "web_search"
    REVIEW = REVIEWS


def correct(
    query: str,
    selected: Sequence[Row],
    *,
    is_relevant: Callable[[str, Row], bool],
    search: Callable[[str], Sequence[Row]],
    review: Callable[[str, Sequence[Row]], object],
) -> tuple[Action, list[Row]]:
    """What to do, and with which rows: inject what is relevant, else what a search finds that is, else ask a person."""
    if relevant := [row for row in selected if is_relevant(query, row)]:
        return Action.INJECT, relevant
    if relevant := [row for row in search(query) if is_relevant(query, row)]:
        return Action.WEB_SEARCH, relevant
    review(query, selected)
    return Action.REVIEW, []
