"""Calibration: the constants of `relevance.confidence`, fitted on labeled questions.

Ridge logistic regression over questions asked in their own collection and in those of other sets, each set weighing
the same; `python bench/grade.py DIR... --fit` fits it anew and prints how it judges sets that it has not seen.
"""

# is the question asked in the right place?
KNOWS = {
    "bias": 2.03,
    "cover": 6.23,
    "phrase": 3.37,
    "unseen": -3.76,
    "size": -6.11,
    "symbols": 1.52,
}

# Confidence from which an answer is correct, and below which it is refused.
UPPER, LOWER = 0.5, 0.1
