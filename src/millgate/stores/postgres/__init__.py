"""Internal: the store in a PostgreSQL database that many gateways share (extra `postgres`). Start with store.py.

connection.py is the pool, failures.py turns the server's errors into ours, replicas.py reads from servers that follow,
shared.py holds what gateways share beside records, and citus.py distributes tables.
"""
