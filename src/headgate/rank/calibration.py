"""Calibration: the constants of `rank.confidence`, fitted on labeled questions.

Weighted ridge logistic regression by `make bench-grade DATA=DIR FIT=--fit`: 1 023 questions of three public sets
(LoCoMo, MuSiQue, Cranfield) asked in their own collection and in wrong ones, through retrieve, propagate and gate
at budgets of 500 to 4096 tokens. Every feature of `knows` is held to the sign that its meaning gives it.
"""

# knows: is the question asked in the right place?
CONVERSATION = {
    "bias": -2.3,
    "unseen": -1.38,
    "strangers": -1.25,
    "cover": 0.99,
    "covers": 0.52,
    "hits": 0.77,
    "share": 1.11,
    "third": 0.49,
    "foreign": -0.7,
    "nameless": -0.34,
    "names": 1.52,
    "anchor": 1.85,
    "phrase": 0.69,
    "phrases": 0.45,
    "rarest": 0.97,
    "rare_name": 0.02,
}
DOCUMENTS = {
    "bias": -5.82,
    "unseen": -1.53,
    "cover": 1.56,
    "covers": 1.45,
    "hits": 2.28,
    "share": 0.88,
    "third": 2.82,
    "foreign": -1.77,
    "nameless": 1.32,
    "phrase": 2.46,
    "phrases": 1.2,
    "rarest": 1.42,
    "titled": 2.31,
    "rare_name": 2.22,
}

# supports: were it answerable, is this chunk part of the answer?
SUPPORT_CONVERSATION = {
    "bias": -4.07,
    "score": 1.02,
    "rank": -0.74,
    "cover": 0.51,
    "share": 2.75,
    "phrases": -0.16,
    "gap": 2.16,
}
SUPPORT_DOCUMENTS = {
    "bias": -1.68,
    "score": 1.78,
    "rank": -0.84,
    "cover": -0.18,
    "share": 0.44,
    "phrases": 1.94,
    "gap": 1.69,
}
