"""Four designs that others published and that Millgate grew from, each to the letter in one file.

    entropy_gating.py    entropy gating with corrective retrieval
    context_strategy.py  context strategy and pressure-aware memory
    stream_failsafe.py   a stream failsafe by entropy, with rollback
    self_reference.py    self-referential penalization for a context gateway

Each function has its published name, arguments and numbers. The pipeline imports what it uses from here; a rule that is
kept only because it was published stands here and nowhere else. docs/origins.md says for each promise of a design where
it lives, what Millgate does differently, and why. The files know `text` and `errors` and nothing else of Millgate.
"""
