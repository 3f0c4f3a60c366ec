"""OpenAPI: the schema that FastAPI derives, completed by what all routes share.

Each operation lists the problems it may respond with, and whether it needs a key. The limits in force are written into
the fields they limit. FastAPI's own validation errors never leave this service, so they are taken out.
"""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field

from millgate.service.edge.admission import OPEN_PATHS
from millgate.settings import Settings

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

    type: str = Field(examples=["urn:millgate:LimitError"])
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
    _add_lengths(schema, app.state.service.gate.settings)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs"))
    schemas["Problem"] = problem
    schema["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key, mg_…"}
    }
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _add_problems(path, operation)
    return schema


def _add_lengths(schema: dict[str, Any], settings: Settings) -> None:
    """Write the lengths that are settings into the fields that have them; the others stand in the models."""
    limits, schemas = settings.limits, schema["components"]["schemas"]
    fields = schemas["ContextIn"]["properties"]
    fields["budget"]["maximum"] = limits.budget
    fields["k"]["anyOf"][0]["maximum"] = limits.k
    lengths = (
        (limits.query_chars, ("ContextIn.query", "StrategyIn.query")),
        (limits.window_chars, ("ContextIn.window", "ContextIn.current_window_blocks", "ContextIn.current_window_text")),
        (limits.window_chars, ("FingerprintIn.current_window_blocks", "FingerprintIn.current_window_text")),
        (settings.facts.fact_chars, ("FactIn.content", "FactChangesIn.content")),
        (settings.facts.fact_chars, ("AnswerIn.answer", "AnswerIn.confirmed", "DraftIn.answer")),
        (settings.service.body_bytes, ("DocumentIn.text", "TurnsIn.messages", "PromptIn.prompt")),
    )  # fmt: skip
    for most, names in lengths:
        for model, _, name in (place.partition(".") for place in names):
            _add_length(schemas[model]["properties"][name], most, limits.window_blocks)


def _add_length(field: dict[str, Any], most: int, most_items: int) -> None:
    """Give each text of a field a length, and each list a number of items, unless it has one."""
    if field.get("type") == "string":
        field.setdefault("maxLength", most)
    elif field.get("type") == "array":
        field.setdefault("maxItems", most_items)
        _add_length(field["items"], most, most_items)
    for one in field.get("anyOf", ()):
        _add_length(one, most, most_items)


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
