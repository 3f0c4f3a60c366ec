"""Seeing inside: answers as data, why a chunk fell, and replaying a request."""
