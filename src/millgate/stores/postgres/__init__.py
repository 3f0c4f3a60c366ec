"""Internal: the store in a PostgreSQL database that many gateways share (extra `postgres`). Start with store.py.

It has the same files as the other stores. Beyond these, connection.py is the pool, failures.py turns the server's
errors into ours, replicas.py reads from servers that follow, shared.py holds what gateways share beside records,
citus.py distributes tables, and postings.py and vectors.py serve collections that are too large for a gateway's own
index.
"""
