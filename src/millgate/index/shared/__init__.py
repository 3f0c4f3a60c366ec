"""Internal: ready indexes that gateways share, so that a new gateway copies an index instead of building it.

It is used if the address of a PostgreSQL store names `segments=` a folder or a bucket; nothing here is imported
otherwise. A tenant of 100 000 chunks costs a new gateway a copy of 180 MB instead of 40 seconds of one core
(docs/stores.md). Start with collection.py; uploaded.py has the layout of the versions, storage.py and bucket.py the
two places that they are kept in.
"""
