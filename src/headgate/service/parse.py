"""Parse: request bodies by orjson, which refuses what later stages could not write again.

Lone surrogates, NaN, and nesting without end are answered as unreadable JSON, with the place.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import orjson
from fastapi import Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response


class Body(BaseModel):
    """What a request brings: unknown fields and wrong types are refused, not guessed at."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _whole(cls, given: object) -> object:
        """To JSON 5.0 and 5 are one number."""
        if not isinstance(given, dict):
            return given
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in given.items()
        }


Name = Annotated[str, Field(min_length=1, max_length=1024)]
"""An id, or the name of a collection."""
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
"""A text that says something."""
Page = Annotated[int, Query(ge=1, le=1000, description="Most to give.")]
Collection = Annotated[str, Query(min_length=1, max_length=1024, description="Which collection.")]


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
