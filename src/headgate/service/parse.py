"""Parse: request bodies by orjson, which refuses what later stages could not write again.

Lone surrogates, NaN, and nesting without end are answered as unreadable JSON, with the place.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response


class _Orjson(Request):
    async def json(self) -> Any:  # noqa: ANN401  (whatever JSON holds)
        return orjson.loads(await self.body())


class Strict(APIRoute):
    """A route whose body is read by orjson."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, given a request that parses by orjson."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await inner(_Orjson(request.scope, request.receive))

        return handle
