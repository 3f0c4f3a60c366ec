"""Internal: Policy, the parameters of one stage, as a value.

Frozen, range-checked, unknown keys refused. Each stage's policy stands beside its function and
inherits from `Policy`; the number types here give every parameter its bounds.
A field of type `Tuning[...]` is an argument of the policy in Python and no setting: a benchmark found its value,
and only a benchmark can find a better one. All other fields are settings, in file and environment too.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
)

from millgate.errors import ConfigError
from millgate.text.meant import did_you_mean

Unit = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=100)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
PositiveCount = Annotated[int, Field(ge=1)]

T = TypeVar("T")
TUNING: Final = "tuning"
Tuning = Annotated[T, TUNING]


_LOGIN = r"([^\s?#@/\\]+@)?"  # of a service that asks for a user and a password


def check_address(url: str, login: str = "") -> str:
    """An address of HTTP, without its last slash. ValueError if it is none."""
    if not re.fullmatch(rf"https?://{login}[^\s?#@/\\]+(/[^\s?#]*)?", url):
        raise ValueError(
            "it must be http:// or https://, a host and maybe a path, as https://api.openai.com/v1"
        )
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(check_address)]
OptionalAddress = Annotated[str, AfterValidator(lambda url: url and check_address(url, _LOGIN))]


class Policy(BaseModel):
    """Base of every stage's policy: immutable, range-checked, closed to unknown keys."""

    # checks are made when they are first needed: making them all takes longer than a short command does
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, defer_build=True)

    def __init__(self, /, **given: Any) -> None:  # noqa: ANN401  (each checked)
        try:
            super().__init__(**given)
        except ValidationError as invalid:
            raise _explain(type(self), invalid) from invalid

    # so that pydantic makes a policy inside a policy without it, and tells of the whole path
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def default(cls) -> Self:
        """The policy as it is when nothing is set. A test has checked the defaults, so none are made here."""
        return cls.model_construct()


def _explain(policy: type[BaseModel], invalid: ValidationError) -> ConfigError:
    """The first thing that is wrong with the arguments of a policy, by name, and what was meant or is allowed."""
    wrong = invalid.errors(include_url=False)[0]
    name = ".".join(map(str, wrong["loc"]))
    if wrong["type"] != "extra_forbidden":
        value = wrong["input"]
        # a group is not shown: it may hold a key
        shown = f" is {value!r:.200}" if isinstance(value, str | int | float | None) else ""
        said = wrong["msg"].removeprefix("Value error, ")
        said = said[:1].lower() + said[1:]
        return ConfigError(f"{policy.__name__}: {name}{shown}{': ' if name else ''}{said}")
    group: Any = policy
    for part in wrong["loc"][:-1]:
        field = getattr(group, "model_fields", {}).get(part)
        group = field and type(field.default)
    known = list(getattr(group, "model_fields", ()))
    hint = did_you_mean(str(wrong["loc"][-1]), known) or f"it takes {', '.join(known)}"
    return ConfigError(f"{policy.__name__} takes no {name}", hint=hint if known else "")


SCOPES: Final = ("session", "key", "upstream")
M = TypeVar("M", bound=str)


def check_scopes(by: Mapping[str, M]) -> Mapping[str, M]:
    """Refuse what names neither a session, nor an API key, nor an upstream."""
    for name in by:
        scope, _, value = name.partition(":")
        if scope not in SCOPES or not value:
            raise ValueError(f"{name!r} must be session:NAME, key:ID or upstream:NAME")
    return by


ByScope = Annotated[Mapping[str, M], AfterValidator(check_scopes)]
"""Modes by session, key and upstream."""


def mode_in(by: Mapping[str, M], mode: M, *, session: str, key: str, upstream: str) -> M:
    """The mode for a call: that of its session, else of its key, else of its upstream, else the general one."""
    names = f"session:{session}", f"key:{key}", f"upstream:{upstream}"
    return next((by[name] for name in names if name in by), mode)


class Limits(Policy):
    """The largest inputs a request may bring, and how much a tenant may keep; an error names the limit it broke."""

    query_chars: PositiveCount = 100_000
    """Longest query, in characters."""
    window_chars: PositiveCount = 10_000_000
    """Longest window, in characters over all its blocks; one of two million tokens has 8 000 000."""
    window_blocks: Tuning[PositiveCount] = 100_000
    """Most blocks in a window."""
    budget: Tuning[PositiveCount] = 10_000_000
    """Largest token budget of one context."""
    k: Tuning[PositiveCount] = 10_000
    """Most chunks one context may ask for."""
    tenant_bytes: PositiveCount = 10_000_000_000
    """Most bytes of documents, facts and edges that one tenant may hold in a store on disk."""


class IndexPolicy(Policy):
    """How much of a store is held as an index by one process."""

    max_open: PositiveCount = 128
    """Most collections whose indexes a process keeps open; each holds a few mapped files."""


class TracePolicy(Policy):
    """How long the traces of requests are kept, and whether with their text."""

    keep: Count = 10_000
    """Most traces kept for a tenant; 0 keeps none."""
    age_s: Positive | None = 30 * 86_400.0
    """Oldest trace kept, in seconds."""
    max_bytes: Tuning[PositiveCount] = 100_000_000
    """Most bytes kept for a tenant, beyond which the oldest traces go."""
    text: bool = True
    """Whether query, window and chunk texts are kept; without them a trace cannot be replayed."""


class LogPolicy(Policy):
    """One JSON line per request: what was kept, what was evicted and why, and how long each stage took."""

    enabled: bool = True
    """Whether it is written; a store in memory has no folder and writes none unless `path` is set."""
    path: str = ""
    """The file; empty: `retrieval-performance.log` in the store's folder."""
    max_bytes: Tuning[PositiveCount] = 10_000_000
    """Size at which the file is put aside and a new one begun."""
    backups: Tuning[PositiveCount] = 3
    """How many files put aside are kept."""
    text: bool = False
    """Whether the query's text is written."""


class ServicePolicy(Policy):
    """The HTTP service: where it listens, whom it lets in, and how much it takes on."""

    host: str = "127.0.0.1"
    """Address to listen on; one that others can reach is refused while no API key exists."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8642
    """Port to listen on; 0 lets the system choose one."""
    workers: Annotated[int, Field(ge=1, le=256)] = 1
    """Processes that share the port."""
    keyless: Literal["auto", "loopback", "never"] = "auto"
    """Callers without a key, from this machine only: "auto" until the first key exists, "loopback" always."""
    body_bytes: PositiveCount = 32 << 20
    """Largest request body."""
    rate: Positive = 6000.0
    """Requests a minute for one key, on average: in each process, or over all that share a PostgreSQL store.

    Callers without a key are not limited by rate.
    """
    burst: Tuning[PositiveCount] = 600
    """Requests one key may send at once after a pause."""
    concurrency: PositiveCount = 128
    """Requests of one key, or of all callers without one, that one process works on at the same time."""
    memory_bytes: Count = 0
    """Memory for request bodies and answers over 1 MiB that are held at once; 0: a quarter of the machine's memory."""
    deadline_s: Positive = 60.0
    """Longest a request may take; then it is answered with 504."""
    drain_s: Tuning[Positive] = 10.0
    """At shutdown: how long requests that are under way may still take; then they are answered with 503."""
    log: bool = True
    """Whether to write one line a request to stderr."""
    log_query: bool = False
    """Whether that line holds the query."""


class UpstreamPolicy(Policy):
    """One model service."""

    url: Address
    """Its base address, with the version: everything that a client would write before /chat/completions.

    If it lacks /v1 and nothing is found there, /v1 is tried.
    """
    models: tuple[str, ...] = ("*",)
    """Names of its models; * and ? stand for any characters and one."""
    key: SecretStr | None = None
    """A key held here; None: the client's own is passed on."""
    auth: Literal["", "bearer", "x-api-key", "x-goog-api-key"] = ""
    """How the held key is sent; empty: as the API of each call wants it."""
    headers: Mapping[str, str] = {}
    """More headers for each request."""
    proxy: OptionalAddress = ""
    """An HTTP proxy on the way to it; those of the environment are never used."""
    connect_s: Positive = 10.0
    """Longest wait for a connection."""
    answer_s: Positive = 600.0
    """Longest wait for the beginning of an answer; a long prompt takes its time."""
    idle_s: Positive = 300.0
    """Longest silence within an answer."""


class ProxyPolicy(Policy):
    """The proxy that speaks the model APIs of OpenAI and Anthropic."""

    upstreams: Mapping[str, UpstreamPolicy] = {}
    """Model services by name."""
    context: bool = False
    """Inject context into every request that does not say otherwise; off: only if a header asks for it."""
    collection: str = "main"
    """Where injected context comes from when no header says so."""
    budget: PositiveCount = 1000
    """Tokens of injected context when no header says so."""
    repair: tuple[Literal["tools", "marks"], ...] = ()
    """What is put back as it was in the last request, so that the provider's cache holds: the order of "tools", and
    "marks", the cache_control that a bridge dropped.
    """
    max_answer_bytes: Tuning[PositiveCount] = 8_388_608
    """Largest answer, not streamed, that is watched; a larger one passes on as it comes."""
    max_event_bytes: Tuning[PositiveCount] = 16_777_216
    """Largest event of a stream that is read; with a larger one the rest of the stream passes on unread."""
    max_held_bytes: Tuning[PositiveCount] = 67_108_864
    """Most memory for what waits of one stream for a verdict; beyond it the rest passes on unwatched.

    A tool call of 200 000 characters, three of them an event, takes that much while it is held whole.
    """
    max_stream_bytes: Tuning[PositiveCount] = 1_073_741_824
    """Longest stream."""
