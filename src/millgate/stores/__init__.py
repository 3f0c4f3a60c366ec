"""Internal: stores, which keep everything that must not be lost. One contract, two backends.

Each backend is a folder with the same files: `store` (the class), `documents` (documents, chunks, attachments and the
change feed), `records` (edges, facts, secrets, reviews), `traces` and `accounts` (keys and spends). What they share
stands here: checks (validate), rows (chunk_rows), JSON (codec), stored traces. The contract is
millgate.protocols.Store. Stores import protocols and types, and no stage. Start with open.py, then sqlite/store.py.
"""
