"""GET /healthz, /readyz, /metrics: whether it runs, whether it can serve, and its numbers.

/healthz says that the process runs. /readyz checks every part at once: it reads the store, brings an index up to date,
and runs the checks in ServiceState. It responds with 503 when a part cannot serve, or while the service shuts down.
Memory providers that failed are reported, but do not make it unready: contexts are built without them. Nor do workers
of a cluster that are away: the tenants of the others are served.
"""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from millgate import __version__
from millgate.errors import MillgateError
from millgate.service.routes.api import Admin, Route, respond
from millgate.service.state import Check, ServiceState, service_of

LOGGER = logging.getLogger("millgate.readiness")

router = APIRouter(route_class=Route)

CHECK_TIMEOUT_S = 5.0


@dataclass
class HealthOut:
    """The process runs."""

    status: str
    version: str


@dataclass
class ReadyOut:
    """Whether every part can serve, and what is wrong with those that cannot."""

    ready: bool
    parts: dict[str, str]


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def health() -> HealthOut:
    """Respond at once, without checking any part."""
    return HealthOut("ok", __version__)


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", response_model=ReadyOut, responses={503: {"model": ReadyOut}})
async def readiness(request: Request) -> Response:
    """Check every part; 503 when one cannot serve."""
    found = await check_parts(service_of(request))
    return respond(found, 200 if found.ready else 503)


async def check_parts(service: ServiceState) -> ReadyOut:
    """Ask every part at once whether it can serve."""
    gate = service.gate
    soft: dict[str, Check] = {"providers": partial(gate.acheck, "providers"), **service.soft_checks}
    if gate.is_distributed:
        soft["workers"] = partial(gate.acheck, "workers")
    hard = {name: partial(gate.acheck, name) for name in ("store", "index")}
    checks: dict[str, Check] = {**hard, **service.checks, **soft}
    found = await asyncio.gather(*map(_run_check, checks.values()))
    problems = dict(zip(checks, found, strict=True))
    if service.in_flight.draining:
        problems["service"] = "shutting down"
    is_ready = not any(problem for name, problem in problems.items() if name not in soft)
    return ReadyOut(is_ready, {name: problem or "ok" for name, problem in problems.items()})


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(
    request: Request,
    _: Admin,
    prefix: Annotated[
        Literal["millgate", "context_gateway"],
        Query(
            description="What the names of the metrics begin with; the second is for dashboards that know that name."
        ),
    ] = "millgate",
) -> Response:
    """Counters and histograms of the whole service, in the Prometheus text format; no label names a tenant."""
    text = service_of(request).metrics.text(prefix)
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
