"""Internal: the store in dictionaries, for tests, demos and short-lived processes. Start with store.py.

It keeps the same contract as the others, and is the shortest description of it.
"""
