"""RequestState: what is known about one HTTP request while it is served.

It lives in the ASGI scope. Responses, the log, metrics and spans read it.
"""

import asyncio
import re
import time
from dataclasses import dataclass, field
from uuid import uuid4

from starlette.requests import HTTPConnection
from starlette.types import Scope as AsgiScope

from millgate.errors import MillgateError
from millgate.service.observe.model_call import ModelCall
from millgate.types import Trace

_SCOPE_KEY = "millgate"
_REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: for which tenant, with which scopes, by which key ("" if none was needed).

    `digest` is the hash of the key's secret, which only a holder of the key knows.
    """

    tenant: str
    scopes: frozenset[str]
    key: str = ""
    digest: str = field(default="", repr=False, compare=False)

    @property
    def is_local(self) -> bool:
        """Whether the caller is known to be on this machine: those without a key are let in from nowhere else."""
        return not self.key

    def may_use(self, upstream: str) -> bool:
        """Whether the caller may call an upstream with the key that is held for it."""
        return not {"proxy", f"proxy:{upstream}"}.isdisjoint(self.scopes)


@dataclass(slots=True)
class RequestState:
    """One request: its id, its caller and, as it goes on, its status and the trace it made.

    `started` is a time of perf_counter, `tokens` the size of the context that was given, `call` the model call that the
    proxy made, `cut_off` why it was ended before its time.
    """

    id: str
    method: str
    started: float = field(default_factory=time.perf_counter)
    caller: Caller | None = None
    status: int = 0
    trace: Trace | None = None
    tokens: int = 0
    call: ModelCall | None = None
    deadline: asyncio.Timeout | None = None
    cut_off: MillgateError | None = None


def start(scope: AsgiScope) -> RequestState:
    """Put the state of a new request into its scope. The client's request id is kept if it is valid."""
    sent = dict(scope["headers"]).get(b"x-request-id", b"")
    id = sent.decode() if _REQUEST_ID.fullmatch(sent) else uuid4().hex
    state = scope[_SCOPE_KEY] = RequestState(id, scope["method"])
    return state


def find_state(scope: AsgiScope) -> RequestState | None:
    """The state of the request with this scope; None outside of the service."""
    return scope.get(_SCOPE_KEY)


def state_of(connection: HTTPConnection) -> RequestState:
    """The state of a request."""
    state: RequestState = connection.scope[_SCOPE_KEY]
    return state


def route_of(scope: AsgiScope) -> str:
    """The route's template, such as /v1/facts/{id}. Never the path itself: a label must have few values."""
    route = scope.get("route")
    return getattr(route, "path", "") or "unknown"
