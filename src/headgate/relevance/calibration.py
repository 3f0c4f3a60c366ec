"""Calibration: the constants of `rank.confidence` and `rank.support`, fitted on labeled questions.

Weighted ridge logistic regression by `make bench-grade DATA=DIR FIT=--fit`: 1 023 questions of three public sets
(LoCoMo, MuSiQue, Cranfield) asked in their own collection and in wrong ones, through retrieve and propagate.
Every feature of `knows` is held to the sign that its meaning gives it.
"""

# knows: is the question asked in the right place?
KNOWS = {
    "lines": {
        "bias": -3.16,
        "unseen": -1.48,
        "strangers": -1.53,
        "cover": 1.58,
        "hits": 0.98,
        "share": 1.73,
        "third": 0.65,
        "foreign": -0.88,
        "names": 1.48,
        "anchor": 2.46,
        "phrase": 1.33,
        "rarest": 1.21,
    },
    "documents": {
        "bias": -6.87,
        "unseen": -3.34,
        "hits": 3.02,
        "third": 4.67,
        "foreign": -3.14,
        "nameless": 2.21,
        "phrase": 2.97,
        "titled": 2.48,
        "rare_name": 3.72,
        "lexical": 5.35,
    },
}

# support: were it answerable, is this chunk part of the answer?
SUPPORT = {
    "lines": {
        "bias": -8.03,
        "score": 3.22,
        "rank": -0.62,
        "gap": 2.14,
        "names": 1.17,
        "timed": 0.61,
        "rarity": 0.99,
    },
    "linked": {
        "bias": -2.39,
        "score": 0.01,
        "rank": -0.97,
        "gap": 5.51,
        "new": 1.87,
        "linked": 1.17,
    },
    "alike": {
        "bias": -2.88,
        "score": 1.75,
        "rank": -0.67,
        "gap": 4.34,
        "kin": 2.85,
    },
}
