"""The nouns: frozen values that the stages hand to each other.

A Chunk is a piece of text and never changes. A Candidate is a chunk with a score and the notes of what
happened to it (notes.py). A stage returns Sifted, and the law of conservation holds for each:
kept + dropped = what came in + added. So the trace of a request is complete by construction.
Scores are 0..1 where they end, higher is better; budgets are tokens; times are seconds since the epoch.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from headgate.errors import InputError
from headgate.notes import Fate, Note, NoteCode, Stage
from headgate.text.table import clip, table

_DROP: Final = (
    Fate.DROP
)  # read thousands of times a request, and a member of an enum is slow to look up

_SUMMARY_CHARS = 500  # of a query in the summary of its trace

TITLE_CHARS = 500  # of a document or a chunk; longer ones are texts by mistake
METADATA_BYTES = 16_384  # of a document or a chunk, as JSON
GRAPH: Final = "graph"
MEMORY: Final = "memory"
TURN: Final = "turn"
SIDE: Final = frozenset({GRAPH, MEMORY})
"""Sources of knowledge rather than of documents: few and short, they are sure of a section of the budget."""
SAVED: Final = "saved_tokens"
"""The fact of a step that says how many tokens it saved."""
SIDE_SHARE: Final = 0.3
"""The share of the budget that they are sure of, published."""


class Tier(StrEnum):
    """How full the window is: plenty of room, some, or hardly any."""

    STUFF = "stuff"
    HYBRID = "hybrid"
    SELECTIVE = "selective"


class Strategy(StrEnum):
    """How content should reach the model."""

    STUFF = "STUFF"
    HYBRID = "HYBRID"
    RAG = "RAG"
    RAG_GRAPH = "RAG+GRAPH"


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """The model's window: its length, what is used, and where compression would begin (0: unknown).

    Where the agent does not compress (`compression_enabled` false), the threshold means nothing: only the window ends.
    """

    context_length: int = 0
    """Length of the model's window, in tokens; 0 where unknown."""
    used_tokens: int = 0
    """Tokens of the window in use; negative where unknown."""
    threshold_tokens: int = 0
    """Where the agent begins to compress, in tokens; 0 where unknown."""
    compression_enabled: bool = True
    """Whether the agent compresses at all."""

    def __post_init__(self) -> None:
        for name in ("context_length", "used_tokens", "threshold_tokens"):
            _check(name, getattr(self, name), int)
        for name in ("context_length", "threshold_tokens"):
            value = getattr(self, name)
            if value < 0:
                raise InputError(f"{name} is {value}; it must be 0 or more")
        if self.used_tokens < 0:  # some agents say -1 for "unknown"
            object.__setattr__(self, "used_tokens", 0)

    @property
    def pressure(self) -> float:
        """Used over threshold (over the window where there is none); may exceed 1."""
        if self.context_length <= 0:
            return 0.0
        threshold = self.threshold_tokens if self.compression_enabled else 0
        return self.used_tokens / (threshold or self.context_length)

    @property
    def tier(self) -> Tier:
        """STUFF below 0.30, HYBRID below 0.70, else SELECTIVE."""
        if self.pressure < 0.30:
            return Tier.STUFF
        return Tier.HYBRID if self.pressure < 0.70 else Tier.SELECTIVE


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of text as the store holds it. No stage ever alters one.

    `source` is its kind: document, turn, graph, memory or web. `position` counts within the document.
    `admission` is the admissibility token it was given, or None; it is carried, never made, by the pipeline.
    """

    id: str
    text: str
    document: str = ""
    collection: str = "main"
    source: str = "document"
    title: str = ""
    position: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    admission: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document and the chunks it was cut into, in reading order."""

    id: str
    collection: str = "main"
    title: str = ""
    digest: str = ""
    source: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    chunks: tuple[Chunk, ...] = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk on its way through the gate: its score now, and the notes of every stage so far."""

    chunk: Chunk
    score: float
    notes: tuple[Note, ...] = ()

    @property
    def dropped(self) -> bool:
        """Whether the last stage left it out."""
        return bool(self.notes) and self.notes[-1].fate is _DROP

    def with_note(
        self,
        stage: Stage,
        fate: Fate,
        code: NoteCode,
        *,
        score: float | None = None,
        subject: str = "",
        **numbers: float,
    ) -> "Candidate":
        """The same chunk with one more note, and a new score where one is given."""
        now = self.score if score is None else score
        note = Note(stage, fate, code, now, numbers, subject)
        return Candidate(self.chunk, now, (*self.notes, note))

    def number(self, stage: Stage, name: str) -> float | None:
        """A number that a stage noted, the first time it did; None when it never did."""
        for note in self.notes:
            if note.stage is stage and name in note.numbers:
                return note.numbers[name]
        return None


@dataclass(frozen=True, slots=True)
class Sifted:
    """What a stage made of its candidates: kept (best first), dropped, and which of both it added."""

    kept: tuple[Candidate, ...] = ()
    dropped: tuple[Candidate, ...] = ()
    added: tuple[Candidate, ...] = ()

    @classmethod
    def split(cls, judged: Iterable[Candidate], *, added: Iterable[Candidate] = ()) -> "Sifted":
        """Part the judged candidates by their last fate, keeping their order."""
        parted: tuple[list[Candidate], list[Candidate]] = ([], [])
        for candidate in judged:
            parted[candidate.dropped].append(candidate)
        return cls(tuple(parted[False]), tuple(parted[True]), tuple(added))


@dataclass(frozen=True, slots=True)
class Window:
    """What the model already sees: its texts, or a fingerprint payload where the texts are not sent."""

    texts: tuple[str, ...] = ()
    fingerprint: Mapping[str, Any] | None = field(default=None, hash=False)

    def __bool__(self) -> bool:
        return bool(self.texts) or self.fingerprint is not None

    @classmethod
    def of(cls, value: "WindowLike") -> "Window":
        """From a text, texts, chat messages, a fingerprint payload, or nothing."""
        if value is None:
            return cls()
        if isinstance(value, Window):
            return value
        if isinstance(value, str):
            return cls((value,)) if value else cls()
        if isinstance(value, Mapping):
            return cls(fingerprint=value)
        if not isinstance(value, Iterable):
            raise InputError(
                f"window is {value!r}; it must be a text, texts, chat messages or a fingerprint"
            )
        return cls(tuple(text for item in value for text in _texts_of(item)))


WindowLike = Window | str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]] | None


def _texts_of(item: object) -> Iterable[str]:
    """The texts of one block: a string, or a chat message whose content is a string or a list of parts."""
    if isinstance(item, str):
        if item:
            yield item
    elif isinstance(item, Mapping):
        content = item.get("content", item.get("text"))
        if isinstance(content, Sequence) and not isinstance(content, str):
            for part in content:
                yield from _texts_of(part)
        elif content is not None:
            yield from _texts_of(content)
    else:
        raise InputError(
            f"a window block is {type(item).__name__}",
            hint="give texts, or chat messages with a 'content'",
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the gate, and everything the caller knows about the moment it is asked in.

    `collection` is one name or several. A value of the wrong type is an InputError that names the field.
    """

    query: str
    """What the context is for."""
    budget: int = 1000
    """How large the block may be, in tokens."""
    tenant: str = "default"
    """Whose data to search."""
    collection: str | Sequence[str] = "main"
    """Which collection to search, or which ones."""
    window: Window = field(default_factory=Window)
    """What the model already sees."""
    k: int | None = None
    """How many chunks to give at most; without it, as many as fit."""
    context_budget: ContextBudget | None = None
    """How full the model's window is; the fuller, the less is given."""
    task: str | None = None
    """The kind of task, where the caller knows it."""
    session: str = ""
    """The conversation this belongs to."""
    asker: str = ""
    """Who asks, where many do: the id of a key. It bounds how many questions one of them may bring before a person."""
    cwd: str = ""
    """The caller's working folder. The nearest folder above it with a repository or a project file names the project."""
    penalize: bool = True
    """Whether to push down what the model already sees."""
    graph: bool = True
    """Whether knowledge edges take part."""
    best_effort: bool = False
    """Whether to give what the model already sees when there is nothing else."""
    detail: Literal["whole", "preview"] = "whole"
    """Whole chunks, or previews of at most 300 characters."""
    order: Literal["rank", "edges"] = "rank"
    """Best first, or the best ones at both ends."""

    def __post_init__(self) -> None:
        for name in ("query", "tenant", "session", "asker", "cwd"):
            _check(name, getattr(self, name), str)
        for name in ("penalize", "graph", "best_effort"):
            _check(name, getattr(self, name), bool)
        _check("budget", self.budget, int)
        _check("window", self.window, Window)
        _check("task", self.task, str, optional=True)
        _check("context_budget", self.context_budget, ContextBudget, optional=True)
        _check("k", self.k, int, optional=True)
        if self.k is not None and self.k < 1:
            raise InputError(f"k is {self.k}; it must be 1 or more, or None for whatever fits")
        _check_choice("detail", self.detail, ("whole", "preview"))
        _check_choice("order", self.order, ("rank", "edges"))
        object.__setattr__(self, "collection", _names("collection", self.collection))

    @property
    def collections(self) -> tuple[str, ...]:
        """The names of the collections that are asked."""
        return (self.collection,) if isinstance(self.collection, str) else tuple(self.collection)


_KINDS: Final = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    Window: "a Window",
    ContextBudget: "a ContextBudget",
}


def _check(name: str, value: object, kind: type, *, optional: bool = False) -> None:
    """An error that names the field where a value is not of its kind; True is no number."""
    if optional and value is None:
        return
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be {_KINDS[kind]}")


def _check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be {' or '.join(choices)}")


def _names(name: str, value: object) -> str | tuple[str, ...]:
    """One name, or several different ones, as given; an error for anything else."""
    if isinstance(value, str):
        given: tuple[object, ...] = (value,)
    elif isinstance(value, Sequence) and not isinstance(value, bytes) and value:
        given = tuple(value)
    else:
        raise InputError(f"{name} is {clip(repr(value), 80)}; it must be a name, or several")
    for one in given:
        _check(name, one, str)
    names = tuple(dict.fromkeys(str(one) for one in given))
    return names[0] if len(names) == 1 else names


@dataclass(frozen=True, slots=True)
class Plan:
    """What `decide` made of a request: whether to retrieve, how much, and why."""

    skip: bool
    tier: Tier
    strategy: Strategy
    budget: int
    limit: int | None = None
    min_trust: float | None = None
    confidence: float = 0.0
    task: str = "unknown"
    group: str = ""
    reasoning: str = ""
    pressure: float = 0.0
    prefetch: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of one request: how long it took, how many came, stayed and went, and what went wrong.

    `degraded` says what went wrong; `bug` that it was nothing the outside could have caused. `text` is what the model
    wrote, where the step speaks of that; it is kept only where texts are.
    """

    stage: Stage
    seconds: float
    came: int = 0
    kept: int = 0
    dropped: int = 0
    added: int = 0
    degraded: str = ""
    bug: bool = False
    facts: Mapping[str, float | str] = field(default_factory=dict, hash=False)
    text: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """What happened to one request: plan, steps, and every candidate with its notes."""

    id: str
    request: Request
    plan: Plan
    steps: tuple[Step, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    created: float = 0.0

    def find(self, chunk_id: str) -> Candidate | None:
        """The candidate with that chunk id, or None when it never was one."""
        return next((c for c in self.candidates if c.chunk.id == chunk_id), None)

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not go as planned, as 'stage: reason'."""
        return tuple(f"{s.stage}: {s.degraded}" for s in self.steps if s.degraded)


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """A request in one row; `query` is cut after 500 characters, `seconds` is the time in all stages.

    `outcome` is what became of the answer of a model call under the guard; empty where a context was asked for.
    `saved` is the tokens that were not sent or not generated.
    """

    id: str
    created: float
    query: str
    session: str
    collection: str
    strategy: str
    tier: str
    pressure: float
    skip: bool
    budget: int
    candidates: int
    kept: int
    seconds: float
    degraded: tuple[str, ...] = ()
    outcome: str = ""
    saved: int = 0

    @classmethod
    def of(cls, trace: Trace) -> "TraceSummary":
        """The summary of a trace."""
        plan = trace.plan
        return cls(
            id=trace.id,
            created=trace.created,
            query=trace.request.query[:_SUMMARY_CHARS],
            session=trace.request.session,
            collection=", ".join(trace.request.collections),
            strategy=plan.strategy.value,
            tier=plan.tier.value,
            pressure=plan.pressure,
            skip=plan.skip,
            budget=plan.budget,
            candidates=len(trace.candidates),
            kept=sum(not candidate.dropped for candidate in trace.candidates),
            seconds=sum(step.seconds for step in trace.steps),
            degraded=trace.degraded,
            outcome=next((str(s.facts.get("guard", "off")) for s in trace.steps if s.stage is Stage.MODEL), ""),
            saved=sum(int(n) for s in trace.steps if isinstance(n := s.facts.get(SAVED, 0), int | float)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """What the gate kept and evicted, with a reason for each evicted id."""

    total_candidates: int = 0
    kept: int = 0
    evicted: int = 0
    avg_entropy_kept: float = 0.0
    avg_entropy_evicted: float = 0.0
    evicted_ids: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Context:
    """The answer: a fenced, cited block that fits the budget, and the trace of how it came to be.

    `texts` has what the block shows of each of the `chunks`: all of it, or its best strips where it did not fit.
    """

    text: str
    chunks: tuple[Chunk, ...]
    token_estimate: int
    trace: Trace
    report: Report
    texts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    graph_context: tuple[str, ...] = ()
    admissibility_token: str | None = None
    fallback: str = ""
    fallback_reason: str = ""
    review: str = ""
    latency_ms: float = 0.0

    @property
    def strategy(self) -> Strategy:
        """How the plan chose to load content."""
        return self.trace.plan.strategy

    @property
    def degraded(self) -> tuple[str, ...]:
        """What did not go as planned, as 'stage: reason'."""
        return self.trace.degraded

    def why(self, chunk_id: str) -> tuple[Note, ...]:
        """The notes of one chunk: each stage's fate, reason and numbers; empty when it never was found."""
        candidate = self.trace.find(chunk_id)
        return candidate.notes if candidate else ()

    def explain(self) -> str:
        """A table for a person: every candidate, kept or dropped, its citation, by which stage, with what score and why.

        Ids are whole, to be copied. The reason has the numbers that decided.
        """
        cited = {chunk.id: f"[{number}]" for number, chunk in enumerate(self.chunks, 1)}
        rows = [("", "cited", "chunk", "stage", "score", "why", "text")]
        for candidate in self.trace.candidates:
            last = candidate.notes[-1]
            rows.append((
                Fate.DROP if candidate.dropped else Fate.KEEP,
                cited.get(candidate.chunk.id, ""),
                candidate.chunk.id,
                last.stage,
                f"{last.score:.3f}",
                last.reason_with_numbers,
                clip(candidate.chunk.text, 60),
            ))  # fmt: skip
        head = (
            f"{self.strategy.value}: {self.trace.plan.reasoning}\n"
            f"{self.token_estimate} of {self.trace.plan.budget} tokens, "
            f"{self.report.kept} kept, {self.report.evicted} dropped"
        )
        return "\n".join((head, *self.degraded, "", table(rows)))

    def as_messages(
        self, form: Literal["user", "system", "tool"] = "user", *, call_id: str = ""
    ) -> list[dict[str, str]]:
        """The block as chat messages, to stand after the stable prefix of a prompt; none for an empty context.

        "tool" gives the result of the tool call `call_id`, also when there is nothing to show.
        """
        if form == "tool":
            content = self.text or "No relevant context was found."
            return [{"role": "tool", "tool_call_id": call_id, "content": content}]
        return [{"role": form, "content": self.text}] if self.text else []


@dataclass(frozen=True, slots=True)
class Edge:
    """A piece of knowledge: subject, predicate, object, how strong, and who says so."""

    source: str
    predicate: str
    target: str
    weight: float = 1.0
    provenance: str = ""


@dataclass(frozen=True, slots=True)
class TrustChange:
    """One step of a fact's trust: from what to what, when, and why."""

    when: float
    old: float
    new: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth remembering, with the trust it has earned and how it came to it (oldest first)."""

    id: str
    content: str
    category: str = "general"
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    trust: float = 0.5
    helpful: int = 0
    unhelpful: int = 0
    recalled: int = 0
    created: float = 0.0
    updated: float = 0.0
    history: tuple[TrustChange, ...] = ()

    @property
    def key(self) -> str:
        """What makes two facts the same; a tenant has one fact of a key."""
        return fact_key(self.content)


def fact_key(content: str) -> str:
    """The content in lower case, with single spaces and without a closing stop."""
    return " ".join(content.lower().split()).rstrip(".! ")


@dataclass(frozen=True, slots=True)
class FactChange:
    """One line of the fact feed: a fact saved or amended, or (fact None) an id forgotten."""

    seq: int
    id: str
    fact: Fact | None = None


@dataclass(frozen=True, slots=True)
class Secret:
    """A signing key and until when it may verify (None: it is the one in use)."""

    key: bytes = field(repr=False)
    created: float = 0.0
    expires: float | None = None


Scope = Literal["read", "write", "review", "proxy", "admin"]


@dataclass(frozen=True, slots=True)
class Key:
    """An API key as it is kept: whose it is and what it may do, with the hash of its secret, never the secret."""

    id: str
    digest: str
    tenant: str
    scopes: tuple[str, ...] = ("read",)
    """Scopes; "proxy:NAME" is the scope proxy for one upstream alone."""
    name: str = ""
    created: float = 0.0
    revoked: float | None = None


ReviewStatus = Literal["pending", "answered", "approved", "rejected", "expired"]


@dataclass(frozen=True, slots=True)
class Review:
    """A question that waits for a person, with what the pipeline found and how it graded it."""

    id: str
    query: str
    collection: str = "main"
    status: ReviewStatus = "pending"
    grades: Mapping[str, float] = field(default_factory=dict, hash=False)
    reason: str = ""
    answer: str = ""
    who: str = ""
    note: str = ""
    created: float = 0.0
    decided: float = 0.0
    expires: float = 0.0


class Attachment(NamedTuple):
    """Bytes computed from the text of one chunk, by kind ("fingerprint/1")."""

    collection: str
    chunk: str
    kind: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a collection's change feed: a chunk written, or (chunk None) an id removed.

    `place` numbers documents in the order they first came; (place, chunk.position) is reading order,
    so the chunks beside one in that order are its neighbors, also across documents of one chunk each.
    """

    seq: int
    id: str
    chunk: Chunk | None = None
    place: int = 0


Record = tuple[str, str, "Document | Edge | Fact | Review"]
"""Something that people wrote: whose it is, its kind ("document", "edge", "fact", "review"), and itself."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much a collection holds."""

    documents: int = 0
    chunks: int = 0
    chars: int = 0


@dataclass(frozen=True, slots=True)
class Amount:
    """A size in tokens, and in millionths of a currency."""

    tokens: int = 0
    micros: int = 0


SpendScope = Literal["session", "key", "tenant"]


@dataclass(frozen=True, slots=True)
class Spend:
    """What a session, a key or a tenant (name "") has spent since it was last resumed, and in all.

    Held is what calls under way are expected to spend. A rate is a smoothed size of one call.
    """

    scope: SpendScope
    name: str = ""
    tokens: int = 0
    micros: int = 0
    calls: int = 0
    held_tokens: int = 0
    held_micros: int = 0
    held_at: float = 0.0
    total_tokens: int = 0
    total_micros: int = 0
    total_calls: int = 0
    rate_tokens: float = 0.0
    rate_micros: float = 0.0
    since: float = 0.0
    last: float = 0.0
    paused: float | None = None
