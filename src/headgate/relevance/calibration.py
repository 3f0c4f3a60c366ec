"""Calibration: the constants of `relevance.confidence`, fitted on labeled questions.

Ridge logistic regression over questions asked in their own collection and in those of other sets, each set weighing
the same; `python bench/grade.py DIR...` fits it anew and prints how it judges sets that it has not seen.
"""

# is the question asked in the right place?
KNOWS = {
    "bias": 0.06,
    "cover": 7.98,
    "phrase": 3.63,
    "unseen": -4.74,
    "size": -4.75,
    "symbols": 0.6,
}

# Confidence from which an answer is correct, and below which it is refused.
UPPER, LOWER = 0.5, 0.08
