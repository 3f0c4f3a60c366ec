"""Calibration: the constants of `rank.confidence`, fitted on labeled questions.

Weighted ridge logistic regression by `make bench-grade DATA=DIR FIT=--fit`: 1 023 questions of three public sets
(LoCoMo, MuSiQue, Cranfield) asked in their own collection and in wrong ones, through retrieve, propagate and gate
at budgets of 500 to 4096 tokens. Every feature of `knows` is held to the sign that its meaning gives it.
"""

# knows: is the question asked in the right place?
CONVERSATION = {
    "bias": -2.28,
    "unseen": -1.38,
    "strangers": -1.26,
    "cover": 0.98,
    "covers": 0.51,
    "hits": 0.77,
    "share": 1.1,
    "third": 0.49,
    "foreign": -0.7,
    "nameless": -0.35,
    "names": 1.52,
    "anchor": 1.84,
    "phrase": 0.69,
    "phrases": 0.45,
    "rarest": 1.02,
    "rare_name": 0.03,
}
DOCUMENTS = {
    "bias": -5.5,
    "unseen": -1.51,
    "cover": 1.61,
    "covers": 1.45,
    "hits": 2.86,
    "share": 1.04,
    "third": 1.99,
    "foreign": -1.93,
    "nameless": 1.28,
    "phrase": 2.84,
    "phrases": 1.29,
    "rarest": 1.21,
    "titled": 2.3,
    "rare_name": 1.69,
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
    "bias": -1.51,
    "score": 1.55,
    "rank": -0.88,
    "cover": -0.06,
    "share": 0.28,
    "phrases": 1.81,
    "gap": 1.39,
}
