"""Callers: the parameters by which a route asks for a scope. Each gives the caller, or the gate of its tenant."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from millgate.gateway import Millgate
from millgate.service.edge.auth import require_scope
from millgate.service.observe.request_state import Caller
from millgate.service.state import service_of
from millgate.types import Scope


def _gate_with(scope: Scope) -> Callable[[Request], Awaitable[Millgate]]:
    require = require_scope(scope)

    async def find(request: Request) -> Millgate:
        return service_of(request).gate_for(await require(request))

    return find


Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]
Reviewer = Annotated[Caller, Depends(require_scope("review"))]
Admin = Annotated[Caller, Depends(require_scope("admin"))]
ReadGate = Annotated[Millgate, Depends(_gate_with("read"))]
WriteGate = Annotated[Millgate, Depends(_gate_with("write"))]
ReviewGate = Annotated[Millgate, Depends(_gate_with("review"))]
AdminGate = Annotated[Millgate, Depends(_gate_with("admin"))]
