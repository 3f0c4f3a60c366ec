"""Internal: what makes a chunk's score and its chance of being evidence.

score.py has all that makes a score, from top to bottom; question.py reads the query, model.py makes chances of scores,
excerpt.py chooses what to show of a chunk; arrays, fields and name_postings are kernels. They know the snapshot
protocol, text and types, and neither the index behind a snapshot nor the stages that call them. Start with score.py.
"""
