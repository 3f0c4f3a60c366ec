"""Internal: the prompt cache witness: why a request was not read from the provider's cache, and what that cost.

A provider reads the beginning of a request from its cache if it is the same, segment by segment, as the beginning of an
earlier one. `segments.py` cuts a request into these segments, `difference.py` finds the first that is not the same,
`judgment.py` says whose doing it was and what it cost. `sessions/witness.py` joins these three for the proxy and the
x-ray. `repair.py` puts back what a client changed without meaning it, if it is asked to.
"""
