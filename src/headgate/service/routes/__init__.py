"""The routes, one file a resource."""

from headgate.service.routes import (
    context,
    documents,
    facts,
    fingerprint,
    graph,
    health,
    hooks,
    reviews,
    sessions,
    strategy,
    traces,
    turns,
)

ROUTERS = tuple(
    part.router
    for part in (
        context,
        fingerprint,
        strategy,
        documents,
        turns,
        facts,
        graph,
        hooks,
        reviews,
        sessions,
        traces,
        health,
    )
)
