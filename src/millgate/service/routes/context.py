"""Context: /v1/context, the best context for a query that fits the budget and is new to the window; and beside it the
fingerprint of a window, the advice how to load content, and the hook that agents call with each prompt.

The body of /v1/context is made from the fields of types.Request and of its ContextBudget, each with its name, type,
default and docstring. Only what HTTP adds is written here: other names, which are accepted too
(published/self_reference.py), ranges, and ways to send the window.
"""

from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, Final, Literal, get_type_hints

from fastapi import APIRouter, Query
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, create_model
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from millgate.errors import LimitError
from millgate.explain.as_data import context_data
from millgate.keys import KEYLESS
from millgate.knowledge.project import folder_name
from millgate.pipeline.stages.decide import window_state
from millgate.pipeline.stages.strategy import context_strategy
from millgate.published.self_reference import REQUEST_FIELDS, WindowFingerprintPayload
from millgate.service.observe.request_state import state_of
from millgate.service.routes.api import (  # fmt: skip
    Body,
    Collection,
    Folder,
    Label,
    Name,
    Reader,
    ReadGate,
    Route,
    SessionName,
    Text,
)
from millgate.settings.schema import field_docs
from millgate.text.fingerprint import WindowFingerprint
from millgate.text.wanted import asks_nothing, is_reply
from millgate.transcript.topic import read_with_topic
from millgate.types import Context, ContextBudget, Request, Window
from millgate.types.lengths import MOST_COLLECTIONS, MOST_LABELS, NOT_BLANK
from millgate.types.policy import Limits
from millgate.types.request import LENGTHS

router = APIRouter(prefix="/v1", route_class=Route)

# of a window: far beyond any, and within what every client's integers hold
MOST_TOKENS: Final = 10**12
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
    "context_length": int | None,
}
# The key names the tenant and who asks; the others are built from several fields of the body.
_NOT_SENT: Final = frozenset({"tenant", "asker", "window", "context_budget"})


def _fields_of(noun: type) -> dict[str, Any]:
    """The fields of a noun that a body may hold, as pydantic wants them: type, default, description and range."""
    types, docs = get_type_hints(noun) | _TYPES, field_docs(noun)
    made: dict[str, Any] = {}
    for field in fields(noun):
        name, default = field.name, field.default
        if name in _NOT_SENT:
            continue
        if name == "context_length":
            default = None
        alias = AliasChoices(name, REQUEST_FIELDS[name]) if name in REQUEST_FIELDS else None
        described = Field(
            ... if default is MISSING else default,
            description=docs[name], validation_alias=alias, **_RANGES.get(name, {}),
        )  # fmt: skip
        made[name] = (types[name], described)
    return made


_OF_REQUEST, _OF_BUDGET = _fields_of(Request), _fields_of(ContextBudget)
_RequestFields: Any = create_model("RequestFields", __base__=Body, **_OF_REQUEST, **_OF_BUDGET)


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
        window = self.window
        if window is None:
            window = self.current_window_fingerprint
        if window is None:
            window = self.current_window_blocks or self.current_window_text
        told, budget = ({n: getattr(self, n) for n in names} for names in (_OF_REQUEST, _OF_BUDGET))
        if self.follow:
            told["query"] = read_with_topic(self.query, window)
        if not local:
            told["cwd"] = folder_name(self.cwd)
        known = None if self.context_length is None else ContextBudget(**budget)
        return Request(
            tenant=tenant, asker=asker, window=Window.of(window), context_budget=known, **told
        )


@dataclass
class ChunkOut:
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


@dataclass
class PlanOut:
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


@dataclass
class ReportOut:
    """How many candidates were kept and evicted, and the evicted ids: by stage and code, and each with its reason."""

    total_candidates: int
    kept: int
    evicted: int
    avg_entropy_kept: float
    avg_entropy_evicted: float
    evicted_by: dict[str, list[str]]
    evicted_ids: list[str]
    reasons: dict[str, str]


@dataclass
class ContextOut:
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


@router.post("/context", response_model=ContextOut)
async def build_context(
    body: ContextIn, request: HttpRequest, gate: ReadGate, caller: Reader
) -> object:
    """The best context that fits the budget and is new to the window, fenced and cited."""
    asked = body.to_request(caller.tenant, caller.key or KEYLESS, local=caller.is_local)
    built = _observe(request, await gate.acontext_for(asked))
    return context_data(built, debug=body.debug, report=body.include_report)


def _observe(request: HttpRequest, built: Context) -> Context:
    """Let log, metrics and spans see a context."""
    state = state_of(request)
    state.trace, state.tokens = built.trace, built.token_estimate
    return built


class FingerprintIn(Body):
    """What the model already sees."""

    current_window_blocks: list[str | dict[str, Any]] | None = None
    """As texts or chat messages, each a span; goes before the text."""
    current_window_text: str | None = None
    """As one text, cut into spans of 190 tokens."""
    sketch: bool = True
    """Whether to add the sketch, with which overlap is measured as exactly as with the text."""


@router.post("/fingerprint", response_model=WindowFingerprintPayload)
def fingerprint_window(body: FingerprintIn, gate: ReadGate) -> object:
    """The fingerprint of a window. Nothing of it is kept."""
    texts = Window.of(body.current_window_blocks or body.current_window_text).texts
    _check(gate.settings.limits, window_chars=sum(map(len, texts)), window_blocks=len(texts))
    return WindowFingerprint.of(texts, sketch=body.sketch).to_json()


def _check(limits: Limits, **sizes: int) -> None:
    """Refuse what a request for context would refuse too."""
    for name, size in sizes.items():
        most = getattr(limits, name)
        if size > most:
            raise LimitError(
                f"{name} is {size:,}; it must be 0 to {most:,}",
                hint=f"the limit is set by limits.{name}",
            )


Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class StrategyIn(Body):
    """A task, the size of the content, and the model's window. Sizes of files are measured by the library only."""

    query: Text = Field(examples=["compare the two contracts"])
    """The task or the question."""
    content_size_hint: Literal["tiny", "small", "medium", "large", "huge", "massive"] | None = None
    """Rough size of the content."""
    char_count: Tokens | None = None
    """Size of the content in characters; goes before the hint."""
    model_context_length: Tokens = 128_000
    """Length of the model's window, in tokens."""
    used_tokens: int = Field(0, le=MOST_TOKENS, ge=-1)
    """Tokens of the window in use; -1 if unknown."""
    threshold_tokens: Tokens = 0
    """Where the agent begins to compress, in tokens; 0 if unknown."""
    available_tools: list[Label] = Field(default_factory=list, max_length=MOST_LABELS)
    """Tools the agent has; the steps name only these."""


class StrategyOut(BaseModel):
    """The strategy with the numbers behind it, and what the window's pressure means for recall."""

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
    tier: str
    pressure: float
    limit: int
    min_trust: float
    skip: bool


@router.post("/strategy", response_model=StrategyOut)
def advise_strategy(body: StrategyIn, gate: ReadGate) -> object:
    """Whether to load content whole, to search it, or both, and the next steps."""
    policy = gate.settings.decide
    _check(gate.settings.limits, query_chars=len(body.query))
    decision = context_strategy(**body.model_dump(exclude={"threshold_tokens"}), policy=policy)
    window = ContextBudget(body.model_context_length, body.used_tokens, body.threshold_tokens)
    return decision | window_state(window, policy)


class PromptIn(Body):
    """What Claude Code gives to a hook on UserPromptSubmit, which only passes it on; other fields are left alone."""

    model_config = ConfigDict(extra="ignore")

    prompt: str = Field(examples=["how do refunds work?"])
    """The prompt."""
    session_id: SessionName = ""
    """The session it belongs to."""
    cwd: Folder = ""
    """The folder the agent works in."""


@router.post("/hooks/prompt", responses={204: {"description": "Nothing to add."}})
async def hook_prompt(
    body: PromptIn,
    request: HttpRequest,
    gate: ReadGate,
    caller: Reader,
    *,
    budget: Annotated[int, Query(ge=1, description="Most tokens of the block.")] = 1000,
    collection: Collection = "main",
) -> Any:  # noqa: ANN401  (what the hook prints)
    """Context for a prompt as the output of a hook; nothing for a blank prompt, a greeting, a command and a reply.

    What a reply such as "go on" is about stands in the prompts before it, which a hook does not see. Hooks ignore an
    empty response.
    """
    query = body.prompt.strip()[: gate.settings.limits.query_chars]
    if not asks_nothing(query) and not is_reply(query):
        cwd = body.cwd if caller.is_local else folder_name(body.cwd)
        built = await gate.acontext(
            query, budget=budget, collection=collection, session=body.session_id, cwd=cwd
        )
        if _observe(request, built).is_worth_adding:
            output = {"hookEventName": "UserPromptSubmit", "additionalContext": built.text}
            return {"hookSpecificOutput": output}
    return Response(status_code=204)
