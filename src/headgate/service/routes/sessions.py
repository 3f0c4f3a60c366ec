"""/v1/sessions: what sessions, keys and the tenant have spent through the proxy, and resuming what is paused."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from headgate.guard.fuse import CapStatus
from headgate.service.auth import require_scope
from headgate.service.parse import Body, Page, StrictRoute
from headgate.service.request_state import Caller
from headgate.service.responses import respond, response_schema
from headgate.service.state import service_of
from headgate.types import Spend, SpendScope

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=StrictRoute)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Reviewer = Annotated[Caller, Depends(require_scope("review"))]


class SpenderOut(BaseModel):
    """A spender, and how it stands to its cap, if it has one."""

    spend: Spend
    reading: CapStatus | None


class SessionsOut(BaseModel):
    """Spenders, those used last first."""

    sessions: list[SpenderOut]


class ResumeIn(Body):
    """Whom to resume."""

    name: str = ""
    """The session's name, or the key's id; empty for the tenant."""
    scope: SpendScope = "session"
    """What it is."""


@router.get("", summary="What was spent", responses=response_schema(SessionsOut))
async def sessions(
    request: Request,
    caller: Reader,
    scope: Annotated[SpendScope | None, Query(description="Only spenders of this kind.")] = None,
    limit: Page = 100,
) -> Response:
    """Sessions, keys and the tenant, those used last first."""
    spending = service_of(request).gate_for(caller).spending
    found = await spending.alist_spends(scope, limit=limit)
    return respond({"sessions": [{"spend": spend, "reading": read} for spend, read in found]})


@router.post("/resume", summary="Resume what is paused", responses=response_schema(Spend))
async def resume(body: ResumeIn, request: Request, caller: Reviewer) -> Response:
    """Let a session, a key or the tenant go on with its whole cap again."""
    spending = service_of(request).gate_for(caller).spending
    return respond(await spending.aresume(body.name, body.scope))
