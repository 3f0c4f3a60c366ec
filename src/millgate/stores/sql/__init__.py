"""Internal: what the stores that are databases have in common. Start with database.py, then documents.py.

Each file is one part of a store, with its statements written once. What SQLite and PostgreSQL do in their own way
stands in their folders: how they connect, spell and lock, and the few reads that are much faster said otherwise.
"""
