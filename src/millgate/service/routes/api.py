"""API: what all routes share: who may ask, how a body becomes a request, and how a value becomes an answer.

A route is a function of its body, its parameters and the gate of its caller's tenant, and returns a plain value. One
that blocks runs in a thread. Its annotations are the schema in /openapi.json, its docstring the description there.

orjson reads a body, and refuses as invalid JSON what could not be written again later: lone surrogates, NaN and endless
nesting. Unknown fields and wrong types are refused, not guessed at. orjson also writes the answer, which nothing
validates on its way out.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import asdict, is_dataclass
from functools import wraps
from inspect import iscoroutinefunction
from typing import Annotated, Any

import orjson
from fastapi import Depends, Path, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema, PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.service.edge.auth import require_scope
from millgate.service.edge.body import read_apart
from millgate.service.edge.own_headers import describe_unknown
from millgate.service.edge.paths import API
from millgate.service.observe.request_state import Caller
from millgate.service.state import service_of
from millgate.text.bounded_json import loads
from millgate.text.letters import replace_surrogates
from millgate.types import Scope
from millgate.types.lengths import (
    FOLDER_CHARS,
    LABEL_CHARS,
    NAME_CHARS,
    NOT_BLANK,
    NOTE_CHARS,
    ONE_LINE,
    SESSION_CHARS,
)

# Who may ask


def _gate_with(scope: Scope) -> Callable[[Request], Awaitable[Millgate]]:
    require = require_scope(scope)

    async def find(request: Request) -> Millgate:
        return service_of(request).gate_for(await require(request))

    return find


Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]
Reviewer = Annotated[Caller, Depends(require_scope("review"))]
Admin = Annotated[Caller, Depends(require_scope("admin"))]
ReadGate = Annotated[Millgate, Depends(_gate_with("read"))]
WriteGate = Annotated[Millgate, Depends(_gate_with("write"))]
ReviewGate = Annotated[Millgate, Depends(_gate_with("review"))]
AdminGate = Annotated[Millgate, Depends(_gate_with("admin"))]

# What is asked. Every text has a length: one of these, or one of the settings, which openapi.py writes into its schema.

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
"""A text that is not blank."""
Page = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
Collection = Annotated[
    str, Query(min_length=1, max_length=NAME_CHARS, description="The collection.")
]

_MOST_FIELDS = 100  # of a body: each unknown one would be described


def _fail_fast(schema: Any) -> None:  # noqa: ANN401  (dicts in lists in dicts)
    if isinstance(schema, dict):
        if schema.get("type") == "list":
            schema["fail_fast"] = True
        schema = schema.values()
    elif not isinstance(schema, list | tuple):
        return
    for part in schema:
        _fail_fast(part)


class Body(BaseModel):
    """The body of a request."""

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


class _OrjsonRequest(Request):
    """A request whose JSON is parsed when its body is first asked for.

    FastAPI holds what `body` gives until the answer is sent. So it gets a sign that there is one, and the bytes, which
    may be many megabytes, are let go.
    """

    async def body(self) -> bytes:
        if not hasattr(self, "_body"):
            body = self._body = b"".join([part async for part in self.stream()])
            kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if body and kind.endswith(("/json", "+json")):
                self._body = b"{}"
                self._json = await read_apart(body, loads, body)
        return self._body

    async def json(self) -> Any:  # noqa: ANN401  (any JSON value)
        await self.body()
        return self._json


# What is answered


def respond(data: object, status: int = 200) -> Response:
    """Data as a JSON response."""
    return Response(to_json(data), status, media_type="application/json")


def to_json(data: object) -> bytes:
    """Data as JSON."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    try:
        return orjson.dumps(data, default=_to_plain, option=options)
    except TypeError:  # half a surrogate pair, which a part of the user's may give
        text = json.dumps(data, default=_to_plain, ensure_ascii=False)
        return replace_surrogates(text).encode()


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)


_PROBLEM = {
    "description": "A problem: what is wrong, where, and what to do about it.",
    "content": {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}},
    },
}


class Route(APIRoute):
    """A route that reads and answers as above, and refuses headers that look like ours and do not exist."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  (FastAPI's own)
        options["tags"] = [path.split("/")[2] if path.startswith(API) else "service"]
        options["responses"] = {"default": _PROBLEM, **(options.get("responses") or {})}
        super().__init__(path, answering(endpoint), **options)

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


def answering(endpoint: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Response]]:
    """A route's function as FastAPI calls it: one that blocks runs in a thread; its value becomes a response there."""

    def in_thread(asked: Mapping[str, Any]) -> Response:
        return _as_response(endpoint(**asked))

    @wraps(endpoint)
    async def answer(**asked: Any) -> Response:  # noqa: ANN401  (the function's own)
        if iscoroutinefunction(endpoint):
            return _as_response(await endpoint(**asked))
        return await asyncio.to_thread(in_thread, asked)

    return answer


def _as_response(value: object) -> Response:
    return value if isinstance(value, Response) else respond(value)
