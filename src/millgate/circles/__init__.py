"""Circles: the same tool call with the same result, again and again; what is noted, and when the turn is ended."""
