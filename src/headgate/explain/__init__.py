"""Seeing inside: contexts and traces as data, why a chunk fell, and replaying a request."""
