"""Self-referential penalization, as published in "Self-Referential Context Penalization for RAG++ Context Gateway".

What the model's window already holds costs tokens and adds nothing. The caller sends the window's text, its blocks, or
a fingerprint of it; each candidate's overlap r with the window lowers its score:
    adjusted = max(0, base · (1 - weight · r^1.35))        weight .90 for documents and turns, .60 for graph paths
If too little is new, the gateway asks once more in other words.

A fingerprint is sha256, simhash64 over tokens and minhash128 over shingles of 5 tokens (3 under 20), of the whole
window and of each span. Its numbers are stored for years, so they are computed in one place, text/fingerprint.py, which
docs/fingerprint.md restates in plain Python. From fingerprints alone r is the largest MinHash Jaccard with the window
or one of its spans; within 3 bits of a SimHash it is at least .90, and for an equal sha256 1.
Millgate measures exact token coverage instead if it knows the window's text or a sketch of it (docs/origins.md).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from millgate.text.fingerprint import (
    MINHASH_PERM,
    SHINGLE,
    Fingerprint,
    WindowFingerprint,
    fingerprint,
    fingerprints,
)

__all__ = [
    "MINHASH_PERM",
    "SHINGLE",
    "Fingerprint",
    "WindowFingerprint",
    "adjust_score",
    "classify_overlap",
    "compute_overlaps",
    "compute_penalty",
    "expansion_depth",
    "fingerprint",
    "fingerprint_payload",
    "minhash128",
    "should_expand",
    "simhash64",
]

# -- fingerprints and overlap --------------------------------------------------------------------

DUP_HAMMING = 3  # bits between the SimHashes of near-duplicates
NEAR_COPY = 0.90  # the least overlap of near-duplicates


def simhash64(text: str) -> str:
    """The SimHash of a text over its tokens, as 16 hex digits."""
    return f"{fingerprint(text).simhash64:016x}"


def minhash128(text: str) -> list[int]:
    """The MinHash of a text over its shingles: 128 numbers."""
    return list(fingerprint(text).minhash128)


def fingerprint_payload(blocks: Sequence[str]) -> dict[str, Any]:
    """What a caller sends in place of its window: each block a span, a single text cut into spans of 190 tokens."""
    return WindowFingerprint.of(blocks, sketch=False).to_json()


def compute_overlaps(
    window: WindowFingerprint, texts: Sequence[str], *, hamming: int = DUP_HAMMING
) -> NDArray[np.float64]:
    """The overlap of each text with a window of which only the fingerprint is known, 0..1."""
    known = [p for p in (window.whole, *window.spans) if p.token_count]
    shares = np.zeros(len(texts))
    if not known:
        return shares
    mins = np.array([p.minhash128 for p in known], dtype=np.uint32)
    sims = np.array([p.simhash64 for p in known], dtype=np.uint64)
    digests = {p.sha256 for p in known}
    for i, print_ in enumerate(fingerprints(texts)):
        if not print_.token_count:
            continue
        if print_.sha256 in digests:
            shares[i] = 1.0
        else:
            shares[i] = (mins == np.array(print_.minhash128, np.uint32)).mean(axis=1).max()
            apart = np.bitwise_count(sims ^ np.uint64(print_.simhash64))
            if apart.min() <= hamming:
                shares[i] = max(shares[i], NEAR_COPY)
    return shares


# -- the penalty ---------------------------------------------------------------------------------

WEIGHT = 0.90
GRAPH_WEIGHT = 0.60
EXPONENT = 1.35

NEAR_DUPLICATE = 0.85
SELF_REFERENTIAL = 0.60
NOVEL = 0.30

OverlapClass = Literal["near_duplicate", "self_referential", "partial", "novel"]


def compute_penalty(overlap: float, *, weight: float = WEIGHT, exponent: float = EXPONENT) -> float:
    """The share of its score that a candidate loses: weight × overlap^exponent."""
    return float(weight * overlap**exponent)


def adjust_score(
    score: float, overlap: float, *, weight: float = WEIGHT, exponent: float = EXPONENT
) -> float:
    """The score after the penalty; never above what it was, and 0 for an exact repeat."""
    if overlap <= 0:
        return score
    if overlap >= 1:
        return min(score, 0.0)
    penalty = compute_penalty(overlap, weight=weight, exponent=exponent)
    return min(score, max(0.0, score * (1 - penalty)))


def classify_overlap(
    overlap: float,
    *,
    near_duplicate: float = NEAR_DUPLICATE,
    self_referential: float = SELF_REFERENTIAL,
    novel: float = NOVEL,
) -> OverlapClass:
    """What a candidate with that overlap is to the window."""
    if overlap >= near_duplicate:
        return "near_duplicate"
    if overlap >= self_referential:
        return "self_referential"
    return "partial" if overlap >= novel else "novel"


# -- the second pass -----------------------------------------------------------------------------

MIN_NOVEL = 2
TRIGGER_OVERLAP = 0.60
TIES = ("depends_on", "conflicts_with", "extends", "resolves")  # a need or a conflict
SIGNALS = (*TIES, "relates_to_project")  # predicates that lead to new knowledge first


def should_expand(
    novel_count: int,
    best_overlaps: Iterable[float],
    k: int,
    *,
    min_novel: int = MIN_NOVEL,
    trigger_overlap: float = TRIGGER_OVERLAP,
) -> bool:
    """Whether to ask once more: fewer than min(2, k) candidates are novel, or all of the best k repeat the window.

    `best_overlaps` are those of the k candidates with the highest scores before the penalty.
    """
    if novel_count < min(min_novel, k):
        return True
    return all(overlap >= trigger_overlap for overlap in best_overlaps)


def expansion_depth(k: int) -> int:
    """How many candidates the second pass fetches for each query."""
    return max(3 * k, 12)


# -- names that callers already use --------------------------------------------------------------

ENVIRONMENT_PREFIX = "CONTEXT_GATEWAY_SELFREF_"
ENVIRONMENT: Mapping[str, str] = {
    "ENABLED": "penalize.enabled",
    "SHINGLE_SIZE": "penalize.shingle_size",
    "MINHASH_PERM": "penalize.minhash_perm",
    "DUP_HAMMING": "penalize.dup_hamming",
    "TRIGGER_OVERLAP": "expand.trigger_overlap",
    "MIN_NOVEL": "expand.min_novel",
}
"""Environment variables, after their prefix, and the settings that they set."""

REQUEST_FIELDS: Mapping[str, str] = {
    "budget": "max_tokens",
    "k": "k_rag",
    "session": "session_id",
    "penalize": "enable_self_ref_penalty",
    "graph": "include_graph",
}
"""Fields of a request by their name in the library, and the name that HTTP clients may send instead."""
