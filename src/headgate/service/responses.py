"""Reply: answers as bytes, and how they are described.

The hot paths answer with orjson bytes and are not validated on the way out; the models beside the routes describe
them for OpenAPI, and the tests hold both together.
"""

from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def reply(data: object, status: int = 200, *, headers: Mapping[str, str] | None = None) -> Response:
    """Data as a JSON response."""
    body = orjson.dumps(data, default=_plain, option=_OPTIONS)
    return Response(body, status, headers=headers, media_type="application/json")


def gives(model: type[BaseModel], status: int = 200) -> dict[int | str, dict[str, Any]]:
    """A route's `responses`: what it answers with when all goes well."""
    return {status: {"model": model, "description": " ".join((model.__doc__ or "").split())}}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, BaseModel):
        return value.model_dump()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return str(value)
