"""OpenAPI: what FastAPI derives, completed by what every route shares.

Each operation can answer with a problem; those that need a key say so. FastAPI's own shape of a validation error
never leaves this service, so it goes.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field

from headgate.policy import Limits
from headgate.service.admission import OPEN

_SHARED = {
    "401": "The key is missing or not valid.",
    "403": "The key lacks a scope.",
    "404": "Nothing has that name.",
    "413": "Larger than a limit; the problem names it.",
    "422": "Unusable input; the problem says where and why.",
    "429": "Too much at once; Retry-After says when to try again.",
    "503": "Not available now.",
    "default": "Any other problem.",
}
_OPENLY = ("503", "default")


class Where(BaseModel):
    """One place of a request that cannot be used."""

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
    errors: list[Where] = []


def describe(app: FastAPI) -> None:
    """Let the app answer /openapi.json with the completed schema."""

    def complete() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _complete(app)
        return app.openapi_schema

    app.openapi = complete  # type: ignore[method-assign]  # how FastAPI says to do it


def _complete(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    parts = schema.setdefault("components", {}).setdefault("schemas", {})
    for stale in ("HTTPValidationError", "ValidationError"):
        parts.pop(stale, None)
    _limit(parts, app.state.hub.gate.parts.settings.limits)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts.update(problem.pop("$defs"))
    parts["Problem"] = problem
    schema["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key, hg_…"}
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _share(path, operation)
    return schema


def _limit(parts: dict[str, Any], limits: Limits) -> None:
    """Write the limits in force into the description of what they limit."""
    asked = parts["ContextIn"]["properties"]
    asked["max_tokens"]["maximum"] = limits.budget
    asked["k_rag"]["anyOf"][0]["maximum"] = limits.k
    asked["current_window_text"]["anyOf"][0]["maxLength"] = limits.window_chars
    asked["current_window_blocks"]["anyOf"][0]["maxItems"] = limits.window_blocks
    for question in ("ContextIn", "StrategyIn"):
        parts[question]["properties"]["query"]["maxLength"] = limits.query_chars


def _share(path: str, operation: dict[str, Any]) -> None:
    """Add the problems that an operation may answer with, and the key it needs."""
    openly = path in OPEN
    answers = operation["responses"]
    answers.pop("422", None)
    for status in _OPENLY if openly else _SHARED:
        if status not in answers:
            content = {
                "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
            }
            answers[status] = {"description": _SHARED[status], "content": content}
    if not openly:
        operation["security"] = [{"key": []}, {}]
