"""Internal: what `millgate eval` and `millgate test` measure.

It may import the gateway and everything below it, and not `service`. retrieval.py measures contexts on labeled sets
(labeled.py), beside BM25, and shown.py says what counts as shown. guard.py replays recorded streams; fit.py fits the
model of relevance; regression.py runs a team's own test files; append_only.py checks that a conversation only grows.
"""
