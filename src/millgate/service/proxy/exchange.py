"""Exchange: one request to a model API and its answer, which goes through the named steps of `Proxy._answer`.

The ASGI scope is read once, into the Exchange. What all exchanges of a proxy share stands in its ProxyState: what the
operator wants done, the upstreams, and what is remembered.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

from starlette.types import Scope, Send

from millgate.circles.policy import CirclesPolicy
from millgate.gateway import Millgate
from millgate.guard.dialects.dialect import Dialect
from millgate.guard.policy import GuardPolicy
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.byte_budget import ByteBudget
from millgate.service.edge.own_headers import describe_unknown
from millgate.service.edge.reply import BREAK, Reply
from millgate.service.observe.model_call import ModelCall
from millgate.service.observe.request_state import Caller, RequestState, find_state
from millgate.service.proxy.http_client import header
from millgate.service.proxy.inject import Blocks
from millgate.service.proxy.prepare import Prepared
from millgate.service.proxy.request import ProxyRequest
from millgate.service.proxy.upstreams import Upstreams
from millgate.service.wire import Headers
from millgate.sessions.compaction.account import Account
from millgate.sessions.compaction.policy import CompactionPolicy, Mode
from millgate.sessions.compaction.window import Compaction
from millgate.sessions.conversation import Conversation, Conversations, Owed, Owner
from millgate.sessions.folding.policy import FoldPolicy
from millgate.sessions.prompt_cache.segments import Prompt
from millgate.spending.spending import Hold
from millgate.types import Context
from millgate.types.policy import ProxyPolicy, ServicePolicy, UpstreamPolicy

P = ParamSpec("P")
R = TypeVar("R")

NOBODY = Caller("", frozenset())
# Without the service there are no keys: every client of the proxy may use every upstream.
ANYONE = Caller("default", frozenset({"proxy"}))
# Bytes of a request or an answer that is worked on in a thread: that takes a millisecond and more.
LARGE = 200_000


async def run_apart(body: bytes, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Do some work on a body; in a thread if it is so large that other requests would wait."""
    if len(body) <= LARGE:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


class Observer(Protocol):
    """Gets what the proxy did, for metrics, log and traces."""

    def count_context(self, context: Context) -> None:
        """A context was built for a question."""

    def observe(self, exchange: "Exchange") -> None:
        """An exchange is over."""


@dataclass
class ProxyState:
    """What all exchanges of a proxy share."""

    policy: ProxyPolicy
    guard: GuardPolicy = field(default_factory=GuardPolicy)
    _: KW_ONLY
    circles: CirclesPolicy = field(default_factory=CirclesPolicy)
    """The ladder for agents that repeat their tool calls."""
    fold: FoldPolicy = field(default_factory=FoldPolicy)
    """Whose requests are folded."""
    compaction: CompactionPolicy = field(default_factory=CompactionPolicy)
    gate_for: Callable[[Caller], Millgate] | None = None
    """A caller's Millgate, which builds contexts and counts spending; without it the proxy does neither."""
    observer: Observer | None = None
    remembered: ConversationState = field(default_factory=ConversationState)
    """What later requests of a conversation need ..."""
    folds: ConversationState | None = None
    """... and from where on each is folded, if that is kept elsewhere."""
    budget: ByteBudget = field(default_factory=ByteBudget)
    """What answers may hold in memory."""
    body_bytes: int = ServicePolicy().body_bytes
    """The most that a request may have."""
    conversations: Conversations = field(default_factory=Conversations)
    upstreams: Upstreams = field(init=False)

    def __post_init__(self) -> None:
        self.upstreams = Upstreams(self.policy)


@dataclass(slots=True)
class Noticed:
    """Whether a request's window was compacted, and what was lost."""

    mode: Mode
    turn: int = 1
    found: Compaction | None = None
    """The compaction before this very request ..."""
    told: Account | None = None
    """... and what left in it."""
    owed: Owed | None = None
    """A compaction, this or an earlier one, of which nothing was put back yet."""


@dataclass(slots=True)
class Exchange:
    """One request to a model API and its answer: what the steps of the proxy read and fill."""

    method: str
    path: str
    raw_path: str
    """The path as the client wrote it, and as the upstream gets it."""
    query: bytes
    headers: Headers = field(repr=False)
    caller: Caller
    reply: Reply
    dialect: Dialect
    call: ModelCall
    """What metrics, log and traces keep of the exchange."""
    proxy: ProxyState
    gate: Millgate | None = None
    """The caller's Millgate; None if the proxy neither injects context nor counts spending."""
    state: RequestState | None = None
    """The service's state of this HTTP request; None without the service."""
    breaks: Mapping[str, Callable[[], None]] = field(default_factory=dict)
    """How to `close` the client's connection, or to `reset` it, if the server can."""

    # What the steps find out, in their order.
    original: ProxyRequest = field(init=False)
    """The request as the client sent it."""
    request: ProxyRequest = field(init=False)
    """The request as the upstream gets it."""
    upstream: UpstreamPolicy = field(init=False)
    reply_headers: dict[str, str] = field(default_factory=dict)
    """Headers of ours on the reply."""
    prompt: Prompt | None = None
    """The request as the client sent it, cut into segments; None if it is too large to be compared."""
    last: Conversation | None = None
    """What is known of the conversation; None if it begins, or was not looked for."""
    window: Noticed | None = None
    """Whether the window was compacted; None if nobody asks."""
    blocks: dict[str, Blocks | None] = field(default_factory=dict)
    """What stands in front of a person's words, by who puts it there, in this order."""
    prepared: Prepared | None = None
    """What was done with the request; None if that failed."""
    hold: Hold | None = None
    """What the fuse holds for this call; None if its accounts have no cap."""
    guard: GuardPolicy = field(init=False)
    is_watched: bool = False
    """Whether the guard watches the answer."""
    usage_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that we added to ask for usage, which the client did not ask for."""

    @property
    def owner(self) -> Owner:
        """Whose request it is."""
        return Owner(self.caller.tenant, self.caller.key)

    @property
    def betas(self) -> str:
        """The provider's feature headers, which it keys its cache on."""
        return header(self.headers, b"anthropic-beta").decode("latin-1")

    @classmethod
    def begin(
        cls, scope: Scope, send: Send, dialect: Dialect, call: ModelCall, proxy: ProxyState
    ) -> "Exchange":
        """The exchange of an ASGI request; nothing else of the proxy reads the scope."""
        state = find_state(scope)
        caller = ANYONE if state is None else state.caller or NOBODY
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        call.ignored = describe_unknown(scope["headers"])
        return cls(
            method=scope["method"],
            path=scope["path"],
            raw_path=raw_path.split(b"?", 1)[0].decode("latin-1"),
            query=scope.get("query_string", b""),
            headers=scope["headers"],
            caller=caller,
            reply=Reply(send),
            dialect=dialect,
            call=call,
            proxy=proxy,
            gate=proxy.gate_for(caller) if proxy.gate_for is not None else None,
            state=state,
            reply_headers={"x-millgate-ignored": call.ignored} if call.ignored else {},
            breaks=scope.get("extensions", {}).get(BREAK) or {},
        )
