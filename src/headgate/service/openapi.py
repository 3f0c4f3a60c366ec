"""OpenAPI: the schema that FastAPI derives, completed by what all routes share.

Each operation lists the problems it may respond with, and whether it needs a key. The limits in force are written into
the fields they limit. FastAPI's own validation errors never leave this service, so they are taken out.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field

from headgate.policy import Limits
from headgate.service.admission import OPEN_PATHS

_PROBLEMS = {
    "401": "The key is missing or not valid.",
    "403": "The key lacks a scope.",
    "404": "Nothing has that name.",
    "413": "Larger than a limit; the problem names it.",
    "422": "Unusable input; the problem says where and why.",
    "429": "Too much at once; Retry-After says when to try again.",
    "503": "Not available now.",
    "default": "Any other problem.",
}
_PROBLEMS_WITHOUT_KEY = ("503", "default")


class FieldError(BaseModel):
    """One field of a request that cannot be used."""

    where: str
    what: str


class Problem(BaseModel):
    """What went wrong, and what to do about it (RFC 9457)."""

    type: str = Field(examples=["urn:headgate:LimitError"])
    title: str = Field(examples=["Too large"])
    status: int = Field(examples=[413])
    detail: str = Field(examples=["k is 20,000; it must be 0 to 10,000"])
    hint: str = Field(examples=["the limit is set by limits.k"])
    request_id: str = Field(examples=["5f0c0ffee"])
    errors: list[FieldError] = []


def install_schema(app: FastAPI) -> None:
    """Make /openapi.json respond with the completed schema."""

    def cached_schema() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _build_schema(app)
        return app.openapi_schema

    app.openapi = cached_schema  # type: ignore[method-assign]  # how FastAPI says to do it


def _build_schema(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _add_limits(schema, app.state.service.gate.settings.limits)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    schema["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key, hg_…"}
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _add_problems(path, operation)
    return schema


def _add_limits(schema: dict[str, Any], limits: Limits) -> None:
    """Write the limits in force into the fields they limit."""
    schemas = schema["components"]["schemas"]
    fields = schemas["ContextIn"]["properties"]
    fields["budget"]["maximum"] = limits.budget
    fields["k"]["anyOf"][0]["maximum"] = limits.k
    fields["current_window_text"]["anyOf"][0]["maxLength"] = limits.window_chars
    fields["current_window_blocks"]["anyOf"][0]["maxItems"] = limits.window_blocks
    for body in ("ContextIn", "StrategyIn"):
        schemas[body]["properties"]["query"]["maxLength"] = limits.query_chars
    for parameter in schema["paths"]["/v1/hooks/prompt"]["post"]["parameters"]:
        if parameter["name"] == "max_tokens":
            parameter["schema"]["maximum"] = limits.budget


def _add_problems(path: str, operation: dict[str, Any]) -> None:
    """Add the problems that an operation may respond with, and the key it needs."""
    is_open = path in OPEN_PATHS
    responses = operation["responses"]
    responses.pop("422", None)
    for status in _PROBLEMS_WITHOUT_KEY if is_open else _PROBLEMS:
        if status not in responses:
            content = {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
            responses[status] = {"description": _PROBLEMS[status], "content": content}
    if not is_open:
        operation["security"] = [{"key": []}, {}]
