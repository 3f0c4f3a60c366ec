"""Routes: the proxy in an application. They stand last, and none of them takes a path that is the gate's own.

Without any upstream only the well-known paths are there, to say what is missing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.guard.dialects import DIALECTS
from headgate.service.paths import is_proxied
from headgate.service.proxy.proxy import Proxy

METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
KNOWN = ("/v1/models", "/v1/embeddings")


class _App:
    """An ASGI application as an object, which routes take as it is."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401  # an ASGI application
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class ProxiedRoute(Route):
    """A route for paths that are not the gate's own."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """No match for our own paths, whatever the method: an upstream shall not see them.

        The scope gets the route, by which log and metrics name it.
        """
        if not is_proxied(scope.get("path", "")):
            return Match.NONE, {}
        match, found = super().matches(scope)
        return match, {**found, "route": self}


def routes(
    proxy: Proxy, *, wrap: Callable[[ASGIApp], Any] = lambda app: app
) -> Sequence[BaseRoute]:
    """What to append to an application's routes; `wrap` goes around each."""
    rest = ("/v1/{rest:path}",) if proxy.policy.upstreams else KNOWN
    served: dict[str, ASGIApp] = {kind.path: proxy.app_for(kind) for kind in DIALECTS}
    served |= dict.fromkeys(rest, proxy.rest)
    return [
        ProxiedRoute(path, _App(wrap(app)), methods=METHODS, include_in_schema=False)
        for path, app in served.items()
    ]
