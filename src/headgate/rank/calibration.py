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
    "bias": -6.06,
    "unseen": -1.38,
    "cover": 1.59,
    "covers": 1.46,
    "hits": 2.43,
    "share": 1.06,
    "third": 2.79,
    "foreign": -1.58,
    "nameless": 1.07,
    "phrase": 2.73,
    "phrases": 1.24,
    "rarest": 1.41,
    "titled": 2.38,
    "rare_name": 1.61,
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
    "bias": -1.49,
    "score": 1.54,
    "rank": -0.88,
    "cover": -0.08,
    "share": 0.29,
    "phrases": 1.82,
    "gap": 1.41,
}
