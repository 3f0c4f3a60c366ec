"""GET /healthz, /readyz, /metrics: whether it runs, whether it can serve, and its numbers.

/healthz says that the process runs. /readyz checks every part at once: it reads the store, brings an index up to date,
and runs the checks in ServiceState. It responds with 503 when a part cannot serve, or while the service shuts down.
Memory providers that failed are reported, but do not make it unready: contexts are built without them. Nor do workers
of a cluster that are away: the tenants of the others are served.
"""

import asyncio
import logging
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from millgate import __version__
from millgate.errors import MillgateError
from millgate.service.routes.callers import Admin
from millgate.service.routes.parse import StrictRoute
from millgate.service.routes.responses import respond, response_schema
from millgate.service.state import Check, ServiceState, service_of

LOGGER = logging.getLogger("millgate.readiness")

router = APIRouter(tags=["service"], route_class=StrictRoute)

CHECK_TIMEOUT_S = 5.0


class HealthOut(BaseModel):
    """The process runs."""

    status: str
    version: str


class ReadyOut(BaseModel):
    """Whether every part can serve, and what is wrong with those that cannot."""

    ready: bool
    parts: dict[str, str]


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", summary="Is the process alive?", responses=response_schema(HealthOut))
async def health() -> Response:
    """Respond at once, without checking any part."""
    return respond({"status": "ok", "version": __version__})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Can it serve?",
    responses=response_schema(ReadyOut) | response_schema(ReadyOut, 503),
)
async def ready(request: Request) -> Response:
    """Check every part; 503 when one cannot serve."""
    found = await check_parts(service_of(request))
    return respond(found, 200 if found.ready else 503)


async def check_parts(service: ServiceState) -> ReadyOut:
    """Ask every part at once whether it can serve."""
    hard: dict[str, Check] = {
        "store": lambda: _check_store(service),
        "index": lambda: _check_index(service),
        **service.checks,
    }
    soft: dict[str, Check] = {"providers": lambda: _check_providers(service), **service.soft_checks}
    if service.gate.is_distributed:
        soft["workers"] = lambda: _check_workers(service)
    checks = hard | soft
    found = await asyncio.gather(*map(_run_check, checks.values()))
    problems = dict(zip(checks, found, strict=True))
    if service.in_flight.draining:
        problems["service"] = "shutting down"
    is_ready = not any(problem for name, problem in problems.items() if name not in soft)
    parts = {name: problem or "ok" for name, problem in problems.items()}
    return ReadyOut(ready=is_ready, parts=parts)


@router.get(
    "/metrics",
    summary="Numbers for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"description": "All numbers, in the Prometheus text format."}},
)
async def metrics(
    request: Request,
    _: Admin,
    prefix: Annotated[
        Literal["millgate", "context_gateway"],
        Query(
            description="What the names of the metrics begin with; the second is for dashboards that know that name."
        ),
    ] = "millgate",
) -> Response:
    """Counters and histograms of the whole service; no label names a tenant."""
    text = await asyncio.to_thread(service_of(request).metrics.text, prefix)
    return PlainTextResponse(text, media_type="text/plain; version=0.0.4")


async def _run_check(check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            return await check()
    except TimeoutError:
        return f"no answer within {CHECK_TIMEOUT_S:g} seconds"
    except (MillgateError, OSError, ValueError, RuntimeError) as error:
        # Everybody may ask; paths and addresses are for the log.
        LOGGER.warning("a part cannot serve: %s: %s", type(error).__name__, error)
        return "cannot serve; the service's log says why"


async def _check_store(service: ServiceState) -> str:
    return await service.gate.acheck("store")


async def _check_index(service: ServiceState) -> str:
    return await service.gate.acheck("index")


async def _check_providers(service: ServiceState) -> str:
    return await service.gate.acheck("providers")


async def _check_workers(service: ServiceState) -> str:
    return await service.gate.acheck("workers")
