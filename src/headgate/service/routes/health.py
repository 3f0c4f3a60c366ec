"""GET /healthz, /readyz, /metrics: alive, able to serve, and in numbers.

/healthz says that the process answers. /readyz asks every part, now: the store is read, the indexes are compared with it,
plugs add their own checks; it says 503 when one of them, or the whole service while it shuts down, cannot serve.
Memory providers that rest after failures are told, but do not make it unready: answers go on without them.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headgate import __version__
from headgate.errors import HeadgateError
from headgate.service.auth import need
from headgate.service.parse import Strict
from headgate.service.request_state import Caller
from headgate.service.responses import gives, reply
from headgate.service.state import Check, Hub, hub_of

router = APIRouter(tags=["service"], route_class=Strict)

PATIENCE_S = 5.0  # how long a part may take to say that it is well
PROBE = "headgate-readiness"  # a tenant that nobody has, so that no check reads anybody's data


class Health(BaseModel):
    """The process answers."""

    status: str
    version: str


class Ready(BaseModel):
    """Whether every part can serve, and what is wrong with those that cannot."""

    ready: bool
    parts: dict[str, str]


@router.get("/healthz", summary="Is the process alive?", responses=gives(Health))
async def health() -> Response:
    """Alive, as far as answering goes."""
    return reply({"status": "ok", "version": __version__})


@router.get("/readyz", summary="Can it serve?", responses=gives(Ready) | gives(Ready, 503))
async def ready(request: Request) -> Response:
    """Every part asked now; 503 when one cannot serve."""
    hub = hub_of(request)
    vital: dict[str, Check] = {"store": lambda: _store(hub), "index": lambda: _index(hub), **hub.checks}  # fmt: skip
    aside: dict[str, Check] = {"providers": lambda: _providers(hub), **hub.asides}
    both = vital | aside
    parts = dict(zip(both, await asyncio.gather(*map(_ask, both.values())), strict=True))
    if hub.desk.draining:
        parts["service"] = "shutting down"
    well = not any(wrong for name, wrong in parts.items() if name not in aside)
    told = {name: wrong or "ok" for name, wrong in parts.items()}
    return reply({"ready": well, "parts": told}, 200 if well else 503)


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"description": "All numbers, in the Prometheus text format."}},
)
async def metrics(request: Request, _: Annotated[Caller, Depends(need("admin"))]) -> Response:
    """Counters and histograms of the whole service; they speak of no tenant."""
    text = await asyncio.to_thread(hub_of(request).metrics.text)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _ask(check: Check) -> str:
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await check()
    except TimeoutError:
        return f"no answer within {PATIENCE_S:g} seconds"
    except HeadgateError as error:
        return error.message
    except (OSError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


async def _store(hub: Hub) -> str:
    await asyncio.to_thread(hub.gate.parts.store.collections, PROBE)
    return ""


async def _index(hub: Hub) -> str:
    view = await asyncio.to_thread(hub.gate.parts.indexes.snapshot, PROBE, "main")
    return view.degraded


async def _providers(hub: Hub) -> str:
    health = hub.gate.parts.memory.providers.health().items()
    return "; ".join(
        f"{name}: {how.last_error or 'late'}" for name, how in health if how.failures_in_a_row
    )
