"""The schema: every setting with its default, its type and what it does, and how to find one by its dotted name."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from millgate.circles.policy import CirclesPolicy
from millgate.guard.policy import GuardPolicy
from millgate.ingest.policy import IngestPolicy
from millgate.knowledge.facts import FactsPolicy
from millgate.knowledge.paths import GraphPolicy
from millgate.knowledge.providers import RecallPolicy
from millgate.knowledge.review import ReviewPolicy
from millgate.knowledge.slices import SlicePolicy
from millgate.models.answer import AskPolicy
from millgate.models.embed import EmbedPolicy
from millgate.models.grade import GraderPolicy
from millgate.models.search import SearchPolicy
from millgate.pipeline.stages.compose import ComposePolicy
from millgate.pipeline.stages.decide import DecidePolicy
from millgate.pipeline.stages.expand import ExpandPolicy
from millgate.pipeline.stages.gate import GatePolicy
from millgate.pipeline.stages.grade import GradePolicy
from millgate.pipeline.stages.penalize import PenalizePolicy
from millgate.pipeline.stages.propagate import PropagatePolicy
from millgate.pipeline.stages.retrieve import RetrievePolicy
from millgate.sessions.compaction.policy import CompactionPolicy
from millgate.sessions.folding.policy import FoldPolicy
from millgate.spending.prices import Price
from millgate.spending.spending import FusePolicy
from millgate.stores.url import hide_password
from millgate.types.policy import (
    TUNING,
    IndexPolicy,
    Limits,
    LogPolicy,
    Policy,
    ProxyPolicy,
    ServicePolicy,
    TracePolicy,
    Tuning,
)


class Settings(Policy):
    """Everything that can be set, with its default."""

    store: str = ".millgate"
    """Folder of the store, ':memory:', or 'postgresql://user:password@host/database' (extra 'postgres')."""
    tenant: str = "default"
    """Whose data is read and written."""
    tokens: str = "estimate"
    """Token counter: 'estimate', or an exact one by vocabulary, as 'o200k_base' (extra 'tokens')."""
    redact: bool = True
    """Whether keys and tokens of well-known forms are replaced before traces, facts, reviews and logs are stored."""
    limits: Limits = Limits.default()
    """The largest inputs a request may bring."""
    ingest: IngestPolicy = IngestPolicy.default()
    """How much is read and written at a time, and how texts are cut."""
    embed: EmbedPolicy = EmbedPolicy.default()
    """Which model turns texts into vectors."""
    decide: DecidePolicy = DecidePolicy.default()
    """Whether to retrieve, and how much."""
    retrieve: RetrievePolicy = RetrievePolicy.default()
    """How chunks are found and scored."""
    propagate: PropagatePolicy = PropagatePolicy.default()
    """How far hits lift what they are wired to."""
    facts: FactsPolicy = FactsPolicy.default()
    """How remembered facts are trusted, found and forgotten."""
    recall: RecallPolicy = RecallPolicy.default()
    """How long memory providers may take, and when they are left alone."""
    graph: GraphPolicy = GraphPolicy.default()
    """How far knowledge is followed, and what a path is worth."""
    slice: Tuning[SlicePolicy] = SlicePolicy.default()
    """How far admissibility reaches from an anchor turn."""
    penalize: PenalizePolicy = PenalizePolicy.default()
    """How hard what the model already sees is pushed down."""
    expand: ExpandPolicy = ExpandPolicy.default()
    """When and how to ask a second time."""
    gate: GatePolicy = GatePolicy.default()
    """What is worth its tokens."""
    grade: GradePolicy = GradePolicy.default()
    """When found text counts as relevant."""
    grader: GraderPolicy = GraderPolicy.default()
    """Which language model grades relevance."""
    ask: AskPolicy = AskPolicy.default()
    """Which model answers `millgate ask`."""
    search: SearchPolicy = SearchPolicy.default()
    """Where to look when a collection does not know."""
    review: ReviewPolicy = ReviewPolicy.default()
    """When a person is asked, and what an answer is worth."""
    compose: ComposePolicy = ComposePolicy.default()
    """How the block is filled and laid out."""
    log: LogPolicy = LogPolicy.default()
    """The line per request beside the store."""
    index: IndexPolicy = IndexPolicy.default()
    """How much of a store one process indexes."""
    trace: TracePolicy = TracePolicy.default()
    """How long traces are kept."""
    guard: GuardPolicy = GuardPolicy.default()
    """How the model's stream is watched, held back and resumed."""
    circles: CirclesPolicy = CirclesPolicy.default()
    """What is done about an agent that repeats the same tool calls with the same results."""
    compaction: CompactionPolicy = CompactionPolicy.default()
    """What is done when an agent compacts its window."""
    fold: FoldPolicy = FoldPolicy.default()
    """Whether what already stands in the window is folded into pointers to it."""
    fuse: FusePolicy = FusePolicy.default()
    """How much sessions, keys and tenants may spend."""
    prices: Mapping[str, Price] = {}
    """Prices of a million tokens by model, before those of the providers' lists:
    {"our-model" = {input = 1.25, output = 10}}.
    """
    proxy: ProxyPolicy = ProxyPolicy.default()
    """The endpoints that speak like OpenAI and Anthropic."""
    service: ServicePolicy = ServicePolicy.default()
    """The HTTP service."""

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The settings for `repr`, with the store's password left out."""
        for name, value in super().__repr_args__():
            yield name, hide_password(value) if name == "store" else value


def values(model: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of a policy by its dotted name, with its value; tuning arguments are left out."""
    for key, field in type(model).model_fields.items():
        if TUNING in field.metadata:
            continue
        value = getattr(model, key)
        if isinstance(value, Policy):
            yield from values(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def names() -> list[str]:
    """The dotted names of all settings."""
    return [name for name, _ in values(Settings())]


def names_in(group: str) -> list[str]:
    """What a group holds: its settings and its arguments in Python; the groups and settings at the top for ""."""
    inner: Any = Settings
    for part in group.split(".") if group else ():
        field = getattr(inner, "model_fields", {}).get(part)
        inner = field and field.annotation
    return list(getattr(inner, "model_fields", ()))


def describe(name: str) -> str:
    """What a setting does."""
    *_, (model, _) = _fields_along(name)
    return " ".join(field_docs(model)[name.rpartition(".")[2]].split())


def is_secret(name: str) -> bool:
    """Whether a name is one that holds a secret: a key, or a header that may carry one."""
    return not {"key", "headers"}.isdisjoint(name.split("."))


def hide_secrets(value: object) -> object:
    """A value to be shown, with the headers of upstreams (some services want their key there) hidden, and passwords of
    stores.
    """
    if isinstance(value, str):
        return hide_password(value)
    if isinstance(value, BaseModel):
        value = {key: getattr(value, key) for key in type(value).model_fields}
    if not isinstance(value, Mapping):
        return value
    return {
        key: dict.fromkeys(inner, "**********") if key == "headers" else hide_secrets(inner)
        for key, inner in value.items()
    }


def is_tuning(name: str) -> bool:
    """Whether a name is an argument in Python, or one in a group of them: no setting."""
    return any(TUNING in field.metadata for _, field in _fields_along(name))


def _fields_along(name: str) -> Iterator[tuple[type[BaseModel], FieldInfo]]:
    """The fields on the way to a dotted name, each with the class that has it, as far as they are known."""
    model: type[BaseModel] = Settings
    for part in name.split("."):
        field = model.model_fields.get(part)
        if field is None:
            return
        yield model, field
        inner = field.annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return
        model = inner


@cache
def field_docs(noun: type) -> dict[str, str]:
    """The docstring below each field of a class, those that it inherits in the package included."""
    package = noun.__module__.partition(".")[0]
    ours = [base for base in reversed(noun.__mro__) if base.__module__.startswith(package)]
    return {name: doc for base in ours for name, doc in _own_docs(base).items()}


def _own_docs(noun: type) -> dict[str, str]:
    body = ast.parse(dedent(inspect.getsource(noun))).body[0].body  # type: ignore[attr-defined]
    return {
        ast.unparse(field.target): inspect.cleandoc(str(doc.value.value))
        for field, doc in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(doc, ast.Expr)
        and isinstance(doc.value, ast.Constant)
    }
