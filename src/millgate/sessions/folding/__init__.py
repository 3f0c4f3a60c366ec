"""Folding: say it once. What already stands in the window becomes a pointer to it, and `expand` undoes it exactly.

`folder.py` has the laws. Start there, then read `pointer.py`.
"""
