"""Transcript: one reading of a message, whichever API or agent it belongs to.

`parts.py` cuts a message into parts: who says what, which tool is called, what came back. `words.py` tells a person's
words from those that programs put into a person's message. `places.py` changes one text of a message and leaves all
else as it is. `digests.py` is how the same conversation is known again.
"""
