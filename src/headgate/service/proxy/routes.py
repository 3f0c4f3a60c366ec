"""Routes: the proxy in an application. They may stand anywhere: none of them takes a path that is the gate's own.

Without any upstream only the well-known paths are there, to say what is missing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.guard.dialects import DIALECTS
from headgate.service.paths import is_proxied
from headgate.service.proxy.proxy import Proxy

METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
KNOWN = ("/v1/models", "/v1/embeddings")


class ProxiedRoutes(BaseRoute):
    """All paths that are not the gate's own, as one route: of many, each would be tried in turn."""

    def __init__(self, known: Mapping[str, Route], rest: Route | None) -> None:
        self._known, self._rest = known, rest

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match for our own paths, whatever the method: an upstream shall not see them.

        The scope gets the route, by which log and metrics name it.
        """
        path = scope.get("path", "")
        route = self._known.get(path, self._rest) if is_proxied(path) else None
        if route is None:
            return Match.NONE, {}
        match, found = route.matches(scope)
        return match, {**found, "route": route}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that matches."""
        await scope["route"].handle(scope, receive, send)


def routes(
    proxy: Proxy, *, wrap: Callable[[ASGIApp], Any] = lambda app: app
) -> Sequence[BaseRoute]:
    """What to add to an application's routes; `wrap` goes around each."""

    def route(path: str, app: ASGIApp) -> Route:
        made = Route(path, app, methods=METHODS, include_in_schema=False)
        made.app = wrap(app)  # a route takes a function for one that makes responses
        return made

    known = {kind.path: route(kind.path, proxy.app_for(kind)) for kind in DIALECTS}
    if proxy.policy.upstreams:
        return [ProxiedRoutes(known, route("/v1/{rest:path}", proxy.rest))]
    return [ProxiedRoutes(known | {path: route(path, proxy.rest) for path in KNOWN}, None)]
