"""The stages of a request: decide, retrieve, propagate, penalize, expand, gate, grade, compose.

A stage is a function from candidates and a policy to Sifted (kept, dropped, added), with a note on each candidate. It
knows ranking and below, and no other stage; decide builds on strategy. The pipeline
calls the stages in order. This file imports none, so that a command loads only those it needs. Start with retrieve.py.
Their names are internal.
"""
