"""Internal: compactions: when an agent's window was shortened, what left it, and what of that nobody says any more.

`window.py` reads the messages of a request. `notice.py` compares two windows and says whether one is the other
compacted. `account.py` finds what is worth knowing in what left, and which of it the shortened window still says.
`keep.py` makes documents of what left. All are pure functions over messages: no model is asked. What is remembered
between two windows stands in `sessions/conversation.py`.
"""
