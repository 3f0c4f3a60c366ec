"""Internal: compactions: when an agent's window was shortened, what left it, and what of that nobody says any more.

`window.py` reads the messages of a request. `notice.py` compares two windows and says whether one is the other
compacted. `items.py` finds what is worth knowing in a text, and `account.py` which of it the shortened window still
says. `memory.py` remembers the last window of each conversation for the proxy, and `conversations.py` for adapters,
which have messages and no requests. `keep.py` makes documents of what left. All but these two are pure functions over
messages: no model is asked.

It may know `guard`, `prompt_cache` and `text`, and nothing of the proxy or the stores.
"""
