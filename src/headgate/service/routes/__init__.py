"""The routes, one file a resource."""

from headgate.service.routes import (
    context,
    documents,
    facts,
    graph,
    health,
    reviews,
    sessions,
    strategy,
    traces,
)

ROUTERS = tuple(
    part.router
    for part in (context, strategy, documents, facts, graph, reviews, sessions, traces, health)
)
