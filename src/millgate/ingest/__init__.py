"""Internal: ingest, which turns files, streams and rows into documents and chunks. Start with load.py.

walk.py finds files (ignore.py leaves some out), readers.py reads one (chats, html, mail, notebook, tables; what may
hang is read by office.py in a process of child.py), files.py knows which need not be read again, rows.py makes a
document of a text, and chunk.py cuts it. Ingest writes through millgate.protocols.DocumentStore and knows no store. It
may import `xray`, which knows how agents write their sessions.
"""
