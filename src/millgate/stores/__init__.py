"""Internal: stores, which keep everything that must not be lost. One contract, two backends.

What both say stands in `sql`, written once: `documents` (documents, chunks, attachments and the change feed), `records`
(edges, facts, secrets, reviews), `traces` and `accounts` (keys and spends). A backend is a folder with its class
(`store`), connections and schema. Beside them stand checks (validate), rows (chunk_rows), JSON (codec) and stored
traces. The contract is millgate.protocols.Store. Stores import protocols and types, and no stage. Start with open.py,
then sqlite/store.py.
"""
