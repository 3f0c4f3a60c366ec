"""Schemas: what the tools take and give, as pydantic models, and their JSON Schemas without ballast.

A client puts the schemas of all tools into its window, so they leave out what a model does not need to fill them in:
titles, the wrapping of optional fields, lengths, and that a text must not be blank, which the server checks.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from millgate.types.lengths import (
    FOLDER_CHARS,
    LABEL_CHARS,
    MOST_LABELS,
    NAME_CHARS,
    NOTE_CHARS,
    SESSION_CHARS,
)

LEAST_TOKENS = 256
"""Least budget of a result: its frame alone takes some 150."""

_BALLAST = frozenset({"title", "minLength", "maxLength", "maxItems", "pattern"})

# The lengths of a query, of texts in the window and of a fact are settings, which the gate checks first.
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Name = Annotated[str, Field(min_length=1, max_length=NAME_CHARS, pattern=r"\S")]
Label = Annotated[str, Field(max_length=LABEL_CHARS)]
Tokens = Annotated[int, Field(ge=0, le=10**12)]


class Arguments(BaseModel):
    """The arguments of a call. Unknown names are refused, so that a slip is not silently without effect."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class ContextArguments(Arguments):
    """What to look for, and how much may come back."""

    query: Text
    """What you need to know, in plain words."""
    max_tokens: Annotated[int, Field(ge=LEAST_TOKENS)] = 4000
    """Most tokens of the whole result."""
    collection: Name | None = None
    """Collection to search."""
    window: list[str] | None = None
    """Texts you have; not repeated."""
    floor: Annotated[float, Field(ge=0, le=1)] | None = None
    """Least relevance; 0 for all that fits."""
    context_length: Annotated[int, Field(ge=0)] | None = None
    """Tokens of your window."""
    used_tokens: int = 0
    """Tokens in use."""
    threshold_tokens: int = 0
    """Where it is compressed."""


class StrategyArguments(Arguments):
    """A task, the size of the content, and the model's window."""

    query: Text
    content_size_hint: Literal["tiny", "small", "medium", "large", "huge", "massive"] | None = None
    char_count: Tokens | None = None
    model_context_length: Tokens = 128_000
    used_tokens: Annotated[int, Field(ge=-1, le=10**12)] = 0
    available_tools: list[Label] = Field(default_factory=list, max_length=MOST_LABELS)


class LocalStrategyArguments(StrategyArguments):
    """The same on the user's own machine, where files can be measured."""

    file_paths: list[Annotated[str, Field(max_length=FOLDER_CHARS)]] | None = Field(
        None, max_length=MOST_LABELS
    )


class RememberArguments(Arguments):
    """Something worth keeping."""

    content: Text
    """The fact, in one sentence that is clear without context."""
    category: Name = "general"
    """What to file it under."""
    tags: list[Label] = Field(default_factory=list, max_length=MOST_LABELS)
    """More words to find it by."""


class RecallArguments(Arguments):
    """What to look for in memory."""

    query: Text
    """What you want to recall."""
    limit: Annotated[int, Field(ge=1, le=100)] = 5
    """Most facts."""


class RecallSessionArguments(Arguments):
    """What to look for in what left the window."""

    query: Text
    """What you need to know, in plain words."""
    max_tokens: Annotated[int, Field(ge=LEAST_TOKENS)] = 1000
    """Most tokens of the whole result."""
    session: Annotated[str, Field(min_length=1, max_length=SESSION_CHARS)] | None = None
    """The session's name; without it, the one compacted last."""


class FeedbackArguments(Arguments):
    """A fact, and whether it helped."""

    id: Name
    """The fact's id, from recall or remember."""
    helpful: bool
    """Whether the fact was right and of use."""
    note: Annotated[str, Field(max_length=NOTE_CHARS)] = ""
    """Why."""


class WhyArguments(Arguments):
    """A request for context, and one of its chunks."""

    trace: Name
    """The trace id that get_context gave."""
    chunk: Name | None = None
    """The chunk to explain; without it, the best that were left out."""


class ContextResult(BaseModel):
    """A fenced block of passages, what its citations stand for, and what went wrong on the way."""

    text: str
    sources: list[str]
    tokens: int
    trace: str
    notes: list[str]
    verdict: str = ""
    confidences: list[float] = Field(default_factory=list)


class StrategyResult(BaseModel):
    """The strategy, with the numbers behind it."""

    strategy: str
    confidence: float
    reasoning: str
    available_budget: int
    utilization_pct: float
    retrieval_budget_tokens: int
    steps: list[str]
    content_tokens: int
    model_context_length: int
    used_tokens: int
    task_type: str
    skipped_files: list[str]
    group: str


class RememberResult(BaseModel):
    """The fact's id, whether it is new, and whether it only repeats a context."""

    id: str
    new: bool
    repeats_injected_text: bool
    trust: float


class RecalledFact(BaseModel):
    """Fact [n] of the block: its id, and how far it is trusted."""

    id: str
    category: str
    trust: float
    score: float


class RecallResult(BaseModel):
    """The facts in a fenced block, best first, and one row for each."""

    text: str
    facts: list[RecalledFact]


class FeedbackResult(BaseModel):
    """How the trust of a fact moved."""

    id: str
    old: float
    new: float


class ChangeResult(BaseModel):
    """One thing to set otherwise."""

    name: str
    was: Any
    now: Any


class LeftOut(BaseModel):
    """A chunk that was left out, and why."""

    chunk: str
    stage: str
    reason: str


class WhyResult(BaseModel):
    """Where a chunk fell and what would have let it in; without a chunk, the best that fell."""

    trace: str
    chunk: str
    entered: bool
    stage: str
    reason: str
    changes: list[ChangeResult]
    note: str
    left_out: list[LeftOut]


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a model, with references resolved, and without titles and docstrings of models."""
    schema = model.model_json_schema(
        mode="serialization" if model.__base__ is BaseModel else "validation"
    )
    compact: dict[str, Any] = _compact(schema, schema.pop("$defs", {}))
    compact.pop("description", None)
    return compact


def _compact(value: object, models: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        if "$ref" in value:
            resolved = dict(models[str(value["$ref"]).rsplit("/", 1)[-1]])
            resolved.pop("description", None)
            return _compact(resolved, models)
        value = _without_null(value)
        return {
            name: _compact(part, models)
            for name, part in value.items()
            # a property may have one of these names, but its schema is not a plain value
            if name not in _BALLAST or isinstance(part, Mapping)
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_compact(part, models) for part in value]
    return value


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of an optional field as the type it has when it is given."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    if len(kinds) != 1:
        return schema
    rest = {name: part for name, part in schema.items() if name not in ("anyOf", "default")}
    return {**kinds[0], **rest}
