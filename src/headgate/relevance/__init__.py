"""Relevance: what a query and a chunk have in common."""
