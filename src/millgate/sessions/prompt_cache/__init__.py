"""Internal: the prompt cache witness: why a request was not read from the provider's cache, and what that cost.

A provider reads the beginning of a request from its cache if it is the same, segment by segment, as the beginning of an
earlier one. `segments.py` cuts a request into these segments, `difference.py` finds the first that is not the same,
`judgment.py` says whose doing it was and what it cost. `witness.py` remembers the last requests of each session and
joins these three; the proxy and the x-ray start there. The package only observes: it changes no request.

It may know `text` and `prices`, and nothing of the guard, the proxy or the stores.
"""
