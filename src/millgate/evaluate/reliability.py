"""Reliability: is a chunk with a confidence of .7 evidence in seven cases of ten?

A pair is a confidence that a trace notes for a chunk, and whether the chunk is labeled as evidence for the question.
The expected calibration error is the mean distance between what a band of confidences says and what is true of it,
weighed by its pairs: Naeini, Cooper and Hauskrecht, "Obtaining Well Calibrated Probabilities Using Bayesian Binning",
2015.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from millgate.evaluate.shown import Truth
from millgate.types import Candidate, Context

BANDS = 10  # of equal width


@dataclass(frozen=True, slots=True)
class Pair:
    """A chunk's confidence, whether it is evidence, and how much the pair weighs."""

    said: float
    true: bool
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Band:
    """The pairs between two confidences: how many, what they say in the mean, and how many are true."""

    low: float
    high: float
    pairs: int
    share: float  # of the weight of all pairs
    said: float
    true: float


def graded_pairs(context: Context, truth: Truth) -> list[Pair]:
    """The pairs of a context: every candidate of its trace that was given a confidence."""
    marked = [(c, confidence_of(c)) for c in context.trace.candidates]
    return [
        Pair(said, bool(truth.labeled([c.chunk.document])))
        for c, said in marked
        if said is not None
    ]


def confidence_of(candidate: Candidate) -> float | None:
    """The last confidence that a stage noted for a candidate; None if none did."""
    noted = (note.numbers.get("confidence") for note in reversed(candidate.notes))
    return next((mark for mark in noted if mark is not None), None)


def pool(groups: Sequence[Sequence[Pair]]) -> list[Pair]:
    """The pairs of several sets, each set weighing the same."""
    filled = [pairs for pairs in groups if pairs]
    return [Pair(p.said, p.true, 1 / len(pairs) / len(filled)) for pairs in filled for p in pairs]


def bands(pairs: Sequence[Pair]) -> list[Band]:
    """The pairs by confidence, in bands of equal width; those without a pair are left out."""
    said, true, weight = (
        np.array([getattr(pair, name) for pair in pairs], float)
        for name in ("said", "true", "weight")
    )
    which = np.minimum((said * BANDS).astype(int), BANDS - 1)
    found = []
    for band in sorted(set(which.tolist())):
        inside = which == band
        mass = weight[inside].sum()
        found.append(
            Band(
                band / BANDS,
                (band + 1) / BANDS,
                int(inside.sum()),
                float(mass / weight.sum()),
                float((weight * said)[inside].sum() / mass),
                float((weight * true)[inside].sum() / mass),
            )
        )
    return found


def expected_error(pairs: Sequence[Pair]) -> float:
    """The expected calibration error; 0 if there is no pair."""
    return sum(band.share * abs(band.said - band.true) for band in bands(pairs)) if pairs else 0.0
