"""Internal: the HTTP routes, one file a resource.

A route parses its body (parse.py refuses unknown fields), asks the gate of the caller's tenant, and answers with plain
values (responses.py). The docstrings become the descriptions of /openapi.json.
"""

from millgate.service.routes import (
    context,
    documents,
    facts,
    graph,
    health,
    hooks,
    reviews,
    sessions,
    strategy,
    traces,
)

ROUTERS = (
    context.router,
    strategy.router,
    documents.router,
    documents.turns,
    facts.router,
    graph.router,
    hooks.router,
    reviews.router,
    reviews.hitl_sessions,
    sessions.router,
    traces.router,
    health.router,
)
