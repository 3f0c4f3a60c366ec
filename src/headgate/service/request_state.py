"""Visit: what is known about one HTTP request while it is served, for answers, log, metrics and spans."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from uuid import uuid4

from starlette.requests import HTTPConnection
from starlette.types import Scope as Asgi

from headgate.types import Scope, Trace

_NAME = "headgate"
_FIT = re.compile(rb"[\w.:-]{1,128}")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: for which tenant, with which scopes, by which key ("" where none was needed)."""

    tenant: str
    scopes: frozenset[Scope]
    key: str = ""


@dataclass(slots=True)
class Visit:
    """One request: its id, who asks, and, as it goes on, its status and the trace it made."""

    id: str
    method: str
    began: float = field(default_factory=time.perf_counter)
    caller: Caller | None = None
    status: int = 0
    trace: Trace | None = None
    tokens: int = 0
    deadline: asyncio.Timeout | None = None


def begin(scope: Asgi) -> Visit:
    """The visit of a new request; it takes over the caller's request id where that is a fitting one."""
    asked = dict(scope["headers"]).get(b"x-request-id", b"")
    id = asked.decode() if _FIT.fullmatch(asked) else uuid4().hex
    visit = scope[_NAME] = Visit(id, scope["method"])
    return visit


def visit_of(connection: HTTPConnection) -> Visit:
    """The visit that a request belongs to."""
    visit: Visit = connection.scope[_NAME]
    return visit


def route_of(scope: Asgi) -> str:
    """The route's template, one of a few: never the path itself, which has no bounds."""
    route = scope.get("route")
    return getattr(route, "path", "") or "unknown"
