"""Responses: data as JSON bytes, and their schemas for OpenAPI.

Responses are written by orjson and not validated on the way out. What describes them in OpenAPI is the noun itself
(a dataclass), or a model beside the route if the response is put together there.
"""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response

from millgate.text.letters import replace_surrogates

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def respond(data: object, status: int = 200) -> Response:
    """Data as a JSON response."""
    return Response(to_json(data), status, media_type="application/json")


def to_json(data: object) -> bytes:
    """Data as JSON."""
    try:
        return orjson.dumps(data, default=_to_plain, option=_OPTIONS)
    except TypeError:  # half a surrogate pair, which a store in memory may hold
        return orjson.dumps(_as_utf8(data), default=_to_plain, option=_OPTIONS)


def response_schema(noun: type, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """A route's `responses`: the dataclass or model that its successful response has the fields of."""
    return {status: {"model": noun, "description": " ".join((noun.__doc__ or "").split())}}


def _as_utf8(value: object) -> object:
    """The same data, with texts that can be written as UTF-8."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {_as_utf8(key): _as_utf8(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_as_utf8(inner) for inner in value]
    if isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)):
        return _as_utf8(_to_plain(value))
    return value


def _to_plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
