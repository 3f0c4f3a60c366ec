"""OpenAPI: the schema that FastAPI derives, completed by problems, keys, and the limits in force."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, Field

from millgate.settings import Settings


class FieldError(BaseModel):
    """One field of a request that cannot be used."""

    where: str
    what: str


class Problem(BaseModel):
    """What went wrong, and what to do about it (RFC 9457)."""

    type: str = Field(examples=["urn:millgate:LimitError"])
    title: str = Field(examples=["Request Entity Too Large"])
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
    parts = schema["components"]
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    parts["schemas"] |= {**problem.pop("$defs"), "Problem": problem}
    parts["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "An API key, mg_…"}
    }
    schema["security"] = [{"key": []}, {}]
    _add_lengths(parts["schemas"], app.state.service.gate.settings)
    return schema


def _add_lengths(schemas: dict[str, Any], settings: Settings) -> None:
    """Write the limits that are settings into the fields that have them; the others stand in the models."""
    limits, fact = settings.limits, settings.facts.fact_chars
    windows = ("window", "current_window_blocks", "current_window_text")
    lengths = {"query": limits.query_chars, "content": fact, "answer": fact, "confirmed": fact}
    lengths |= dict.fromkeys(windows, limits.window_chars)
    asked = schemas["ContextIn"]["properties"]
    asked["budget"]["maximum"] = limits.budget
    asked["k"]["anyOf"][0]["maximum"] = limits.k
    for name in [name for name in schemas if name.endswith("In")]:
        for field, part in schemas[name]["properties"].items():
            _add_length(part, lengths.get(field, settings.service.body_bytes), limits.window_blocks)


def _add_length(field: dict[str, Any], most: int, most_items: int) -> None:
    """Give each text of a field a length, and each list a number of items, unless it has one."""
    if field.get("type") == "string" and not {"const", "enum"} & field.keys():
        field.setdefault("maxLength", most)
    elif field.get("type") == "array":
        field.setdefault("maxItems", most_items)
        _add_length(field["items"], most, most_items)
    for one in field.get("anyOf", ()):
        _add_length(one, most, most_items)
