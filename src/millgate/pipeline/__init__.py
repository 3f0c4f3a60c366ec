"""Internal: one request from its query to the context that is shown, with the trace of how.

The package calls every stage in order and records each step; a stage that fails is replaced by what came before it.
It knows stages, knowledge and below; it does not know settings, the index or a store, which it is given.
Start with engine.py: `Engine.build` names every stage.
"""
