"""POST /v1/context: the best context for a query that fits the budget and is new to the window.

POST /v1/fingerprint makes the fingerprint of a window for callers who do not make it themselves.

The body, ContextIn, is made from the fields of types.Request and of its ContextBudget: each becomes a field of the
body, with its name, type, default and docstring. Only what HTTP adds is written here: other names, which are
accepted too (published/self_reference.py), ranges, and ways to send the window.
"""

import asyncio
from dataclasses import MISSING, fields, replace
from typing import Annotated, Any, Final, Literal, get_type_hints

from fastapi import APIRouter
from pydantic import AliasChoices, BaseModel, Field, create_model
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from millgate.errors import LimitError
from millgate.explain.as_data import context_data
from millgate.keys import KEYLESS
from millgate.knowledge.project import folder_name
from millgate.published.self_reference import REQUEST_FIELDS, WindowFingerprintPayload
from millgate.service.observe.request_state import state_of
from millgate.service.routes.callers import Reader, ReadGate
from millgate.service.routes.parse import Body, Name, StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.settings.schema import field_docs
from millgate.text.fingerprint import WindowFingerprint
from millgate.transcript.topic import read_with_topic
from millgate.types import ContextBudget, Request, Window
from millgate.types.lengths import MOST_COLLECTIONS, NOT_BLANK
from millgate.types.policy import Limits
from millgate.types.request import LENGTHS

# of a window: far beyond any, and within what every client's integers hold
MOST_TOKENS: Final = 10**12
_DEFAULTS: Final = {"context_length": None}
_RANGES: Final[dict[str, dict[str, Any]]] = {
    "query": {"min_length": 1, "pattern": NOT_BLANK, "examples": ["how do refunds work?"]},
    "budget": {"ge": 0, "examples": [500]},
    "k": {"ge": 1},
    "floor": {"ge": 0, "le": 1},
    **{name: {"max_length": most} for name, most in LENGTHS.items()},
    "context_length": {"ge": 0, "le": MOST_TOKENS},
    "used_tokens": {"ge": -MOST_TOKENS, "le": MOST_TOKENS},
    "threshold_tokens": {"ge": 0, "le": MOST_TOKENS},
}
_TYPES: Final[dict[str, Any]] = {
    "collection": Name | Annotated[list[Name], Field(min_length=1, max_length=MOST_COLLECTIONS)],
}
# The key names the tenant and who asks; the others are built from several fields of the body.
_NOT_SENT: Final = frozenset({"tenant", "asker", "window", "context_budget"})


def _body_names(noun: type) -> list[str]:
    """The fields of a type that a request body may hold."""
    return [field.name for field in fields(noun) if field.name not in _NOT_SENT]


def _body_fields(noun: type) -> dict[str, Any]:
    """The fields of a noun as pydantic wants them: type, default, description and range."""
    types, docs = get_type_hints(noun) | _TYPES, field_docs(noun)
    defaults = {field.name: field.default for field in fields(noun)} | _DEFAULTS
    made: dict[str, Any] = {}
    for name in _body_names(noun):
        default = ... if defaults[name] is MISSING else defaults[name]
        kind = types[name] | None if default is None else types[name]
        alias = AliasChoices(name, REQUEST_FIELDS[name]) if name in REQUEST_FIELDS else None
        described = Field(
            default, description=docs[name], validation_alias=alias, **_RANGES.get(name, {})
        )
        made[name] = (kind, described)
    return made


_FROM_REQUEST, _FROM_BUDGET = _body_names(Request), _body_names(ContextBudget)
_RequestFields: Any = create_model(
    "RequestFields", __base__=Body, **_body_fields(Request), **_body_fields(ContextBudget)
)


class ContextIn(_RequestFields):  # type: ignore[misc]  # its fields are made above
    """A query, and what the caller knows about the moment it is asked in.

    With `context_length` the answer follows how full the window is.
    """

    window: str | list[str | dict[str, Any]] | dict[str, Any] | None = None
    """What the model already sees: a text, texts or chat messages, or a fingerprint; goes before the other three."""
    current_window_fingerprint: dict[str, Any] | None = None
    """What the model already sees, as a fingerprint if its text is not sent; goes before the other two."""
    current_window_blocks: list[str | dict[str, Any]] | None = None
    """What the model already sees, as texts or chat messages; goes before the text."""
    current_window_text: str | None = None
    """What the model already sees, as one text."""
    follow: bool = True
    """Whether a question that points back is looked up with the question before it in the window."""
    debug: bool = False
    """Whether to add the numbers behind each chunk."""
    include_report: bool = False
    """Whether to add what was evicted and why; the trace has it in any case."""

    def to_request(self, tenant: str, asker: str = "", *, local: bool = False) -> Request:
        """The request that the library understands. Only a local caller's folder is looked for on this machine."""
        fingerprint = self.current_window_fingerprint
        text = self.current_window_blocks or self.current_window_text
        window = (
            (text if fingerprint is None else fingerprint) if self.window is None else self.window
        )
        budget = None
        if self.context_length is not None:
            budget = ContextBudget(**self._read(_FROM_BUDGET))
        asked = Request(
            tenant=tenant,
            asker=asker,
            window=Window.of(window),
            context_budget=budget,
            **self._read(_FROM_REQUEST),
        )
        if self.follow:
            asked = replace(asked, query=read_with_topic(asked.query, window))
        return asked if local else replace(asked, cwd=folder_name(asked.cwd))

    def _read(self, names: list[str]) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}


router = APIRouter(tags=["context"], route_class=StrictRoute)


class ChunkOut(BaseModel):
    """A chunk of the block; the last four fields only with `debug`."""

    id: str
    text: str
    title: str
    document: str
    collection: str
    source: str
    score: float
    metadata: dict[str, Any]
    admission: str | None
    self_ref_penalty_applied: bool | None = None
    overlap_ratio: float | None = None
    original_score: float | None = None
    adjusted_score: float | None = None


class PlanOut(BaseModel):
    """What was decided before anything was looked up.

    `limit` facts of at least `min_trust` each memory provider may give; null if nothing is known of the window.
    """

    skip: bool
    tier: str
    pressure: float
    budget: int
    limit: int | None
    min_trust: float | None
    task: str
    group: str
    reasoning: str


class ReportOut(BaseModel):
    """How many candidates were kept and evicted, and the evicted ids: by stage and code, and each with its reason."""

    total_candidates: int
    kept: int
    evicted: int
    avg_entropy_kept: float
    avg_entropy_evicted: float
    evicted_by: dict[str, list[str]]
    evicted_ids: list[str]
    reasons: dict[str, str]


class ContextOut(BaseModel):
    """The block, its chunks, and how it came to be; `report` only if it is asked for."""

    text: str
    chunks: list[ChunkOut]
    token_estimate: int
    sources: list[str]
    graph_context: list[str]
    admissibility_token: str | None
    strategy: str
    plan: PlanOut
    degraded: list[str]
    verdict: str
    confidences: dict[str, float]
    fallback: str
    fallback_reason: str
    review: str
    latency_ms: float
    trace: str
    report: ReportOut | None = None
    expansion_triggered: bool | None = None


@router.post("/v1/context", summary="Context for a query", responses=response_schema(ContextOut))
async def context(
    body: ContextIn, request: HttpRequest, gate: ReadGate, caller: Reader
) -> Response:
    """The best context that fits the budget and is new to the window, fenced and cited."""
    asked = body.to_request(caller.tenant, caller.key or KEYLESS, local=caller.is_local)
    built = await gate.acontext_for(asked)
    state = state_of(request)
    state.trace, state.tokens = built.trace, built.token_estimate
    report: Literal["compact", "none"] = "compact" if body.include_report else "none"
    return respond(context_data(built, debug=body.debug, report=report))


class FingerprintIn(Body):
    """What the model already sees."""

    current_window_blocks: list[str | dict[str, Any]] | None = None
    """As texts or chat messages, each a span; goes before the text."""
    current_window_text: str | None = None
    """As one text, cut into spans of 190 tokens."""
    sketch: bool = True
    """Whether to add the sketch, with which overlap is measured as exactly as with the text."""


@router.post("/v1/fingerprint", summary="Fingerprint a window", responses=response_schema(WindowFingerprintPayload))  # fmt: skip
async def fingerprint(
    body: FingerprintIn,
    gate: ReadGate,
) -> Response:
    """The fingerprint of a window. Nothing of it is kept."""
    window = Window.of(body.current_window_blocks or body.current_window_text)
    _check(window, gate.settings.limits)

    def make() -> Response:
        return respond(WindowFingerprint.of(window.texts, sketch=body.sketch).to_json())

    return await asyncio.to_thread(make)


def _check(window: Window, limits: Limits) -> None:
    """Refuse what a request for context would refuse too."""
    chars, blocks = sum(map(len, window.texts)), len(window.texts)
    for name, value, most in (
        ("window_chars", chars, limits.window_chars),
        ("window_blocks", blocks, limits.window_blocks),
    ):
        if value > most:
            raise LimitError(
                f"{name} is {value:,}; it must be 0 to {most:,}",
                hint=f"the limit is set by limits.{name}",
            )
