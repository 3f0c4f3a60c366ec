"""Internal: the HTTP routes, one file a resource; api.py is what they share."""

from millgate.service.routes import (  # fmt: skip
    context,
    documents,
    facts,
    graph,
    health,
    reviews,
    sessions,
    traces,
)

ROUTERS = tuple(
    part.router for part in (context, documents, facts, graph, reviews, sessions, traces, health)
)
