"""Internal: what filled the window in recorded sessions of agents (`millgate xray`).

It reads files only: it may import `guard` (to read messages), `prompt_cache`, `prices` and `text`, and knows no store.
analyze.py goes from files to findings in one pass; formats.py knows how each agent writes a line, session.py follows
one conversation, cache.py what its provider cached, findings.py has the results, and page.py, bars.py and summary.py
show them.
"""
