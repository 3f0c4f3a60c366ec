"""Internal: what `millgate eval` and `millgate test` measure.

It may import the gateway and everything below it, and not `service`. retrieval.py measures contexts on labeled sets
(labeled.py, stored_set.py): shown.py says what counts as shown, reliability.py whether confidences are true, bm25.py is
the baseline; curve.py draws evidence against tokens, ablation.py switches parts off. guard.py replays recorded streams;
answers.py looks at whole answers; fit.py fits the model of relevance; regression.py runs a team's own test files.
"""
