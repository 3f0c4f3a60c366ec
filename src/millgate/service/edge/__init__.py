"""Internal: who may come in: connection, caller, limits and body of every request, and how one is refused."""
