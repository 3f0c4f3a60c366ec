"""Internal: why a chunk was left out, and what other settings would have done.

It may import the stages' nouns and run the real pipeline through a function that it is given; it knows no store. why.py
finds the smallest change that admits a chunk, replay.py runs a stored request
again, describe.py says it in sentences for every surface, and as_data.py writes traces as plain values.
"""
