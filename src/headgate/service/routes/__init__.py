"""The routes, one file a resource."""

from headgate.service.routes import (
    context,
    documents,
    facts,
    fingerprint,
    graph,
    health,
    reviews,
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
        reviews,
        traces,
        health,
    )
)
