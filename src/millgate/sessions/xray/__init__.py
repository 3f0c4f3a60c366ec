"""Internal: what filled the window in recorded sessions of agents (`millgate xray`).

It reads files only. `files.py` finds and reads them, `formats.py` knows how each agent writes a line, `session.py`
follows one conversation, `cache.py` what its provider cached, `findings.py` has the results, and `page.py`, `bars.py`
and `summary.py` show them.
"""
