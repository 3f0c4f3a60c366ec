"""Parse: request bodies read by orjson, which refuses what could not be written again later.

Lone surrogates, NaN and endless nesting are refused as invalid JSON, with the position.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import InputError
from millgate.service.edge.body import read_apart
from millgate.service.edge.own_headers import describe_unknown
from millgate.text.bounded_json import loads
from millgate.types.lengths import (
    FOLDER_CHARS,
    LABEL_CHARS,
    NAME_CHARS,
    NOT_BLANK,
    NOTE_CHARS,
    ONE_LINE,
    SESSION_CHARS,
)

_MOST_FIELDS = 100  # of a body: each unknown one would be described


def _fail_fast(schema: Any) -> None:  # noqa: ANN401  (dicts in lists in dicts)
    if isinstance(schema, dict):
        if schema.get("type") == "list":
            schema["fail_fast"] = True
        for part in schema.values():
            _fail_fast(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _fail_fast(part)


class Body(BaseModel):
    """The body of a request. Unknown fields and wrong types are refused, not guessed at."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Lists are refused at their first wrong item: of a million, each would be described."""
        schema = handler(source)
        _fail_fast(schema)
        return schema

    @model_validator(mode="before")
    @classmethod
    def _floats_to_ints(cls, data: object) -> object:
        """Read 5.0 as 5, which JSON does not tell apart."""
        if not isinstance(data, dict):
            return data
        if len(data) > _MOST_FIELDS:
            # an error of Python's would hold the body
            raise PydanticCustomError("too_many_fields", "it has too many fields")
        return {
            name: int(value) if isinstance(value, float) and value.is_integer() else value
            for name, value in data.items()
        }


# Every text of a body, a path or a query has a length: one of these, or one of the settings, which openapi.py names.
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
"""An id, or the name of a collection."""
NewName = Annotated[str, Field(min_length=1, max_length=NAME_CHARS, pattern=ONE_LINE)]
"""The name of a collection to write to, which may be new."""
Label = Annotated[str, Field(max_length=LABEL_CHARS)]
"""A category, a tag, a person."""
Note = Annotated[str, Field(max_length=NOTE_CHARS)]
"""A comment."""
SessionName = Annotated[str, Field(max_length=SESSION_CHARS)]
"""The name of a conversation."""
Folder = Annotated[str, Field(max_length=FOLDER_CHARS)]
"""A path on the caller's machine."""
Id = Annotated[str, Path(max_length=NAME_CHARS)]
"""An id in a path."""
Text = Annotated[str, Field(min_length=1, pattern=NOT_BLANK)]
"""A text that is not blank. Its length is a setting: openapi.py says which."""
Page = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Collection = Annotated[
    str, Query(min_length=1, max_length=NAME_CHARS, description="The collection.")
]


class _OrjsonRequest(Request):
    """A request whose JSON is parsed when its body is first asked for.

    FastAPI holds what `body` gives until the answer is sent. So it gets a sign that there is one, and the bytes, which
    may be many megabytes, are let go.
    """

    _IS_THERE = b"{}"

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            parts = [part async for part in self.stream() if part]
            body = self._body = parts[0] if len(parts) == 1 else b"".join(parts)
            del parts
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if body and kind.endswith(("/json", "+json")):
                self._body = self._IS_THERE
                self._json = await read_apart(body, loads, body)
        return self._body

    async def json(self) -> Any:  # noqa: ANN401  (any JSON value)
        await self.body()
        return self._json


class StrictRoute(APIRoute):
    """A route whose body is read by orjson, and which refuses headers that look like ours and do not exist."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler, which gets a request that orjson parses."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if unknown := describe_unknown(request.scope["headers"]):
                raise InputError(
                    f"there is no header {unknown}", hint="correct it, or leave it out"
                )
            return await inner(_OrjsonRequest(request.scope, request.receive))

        return handle
