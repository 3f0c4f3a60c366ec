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

ROUTERS = (
    context.router,
    fingerprint.router,
    strategy.router,
    documents.router,
    turns.router,
    facts.router,
    graph.router,
    hooks.router,
    reviews.router,
    reviews.published,
    sessions.router,
    traces.router,
    health.router,
)
