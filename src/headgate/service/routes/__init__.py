"""The routes, one file a resource."""

from headgate.service.routes import context, health, strategy

ROUTERS = (context.router, strategy.router, health.router)
