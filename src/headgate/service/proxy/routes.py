"""Routes: the proxy in an application. They stand last, so that the application's own routes win."""

from collections.abc import Sequence

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from headgate.service.proxy.proxy import Proxy

ANY = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]


class _App:
    """An ASGI application as an object, which routes take as it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def routes(proxy: Proxy) -> Sequence[BaseRoute]:
    """What to append to an application's routes."""
    return [
        Route("/v1/chat/completions", _App(proxy.chat), methods=ANY, include_in_schema=False),
        Route("/v1/messages", _App(proxy.messages), methods=ANY, include_in_schema=False),
        Route("/v1/{rest:path}", _App(proxy.rest), methods=ANY, include_in_schema=False),
    ]
