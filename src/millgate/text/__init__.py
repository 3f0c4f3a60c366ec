"""Internal: what can be known of a text alone: words, terms, languages, fingerprints, entropy, tokens, fences.

Pure functions that know none of the project's nouns; the package imports nothing of Millgate but `errors`. Public are
`millgate.text.entropy`, `millgate.text.fingerprint` and `millgate.text.tokens`.
Start with words.py and terms.py (how a text is read), then coverage.py (what a window holds of it). cache.py has the
one cache class; tables are in data/.
"""
