"""App: the service as an ASGI app.

`create(gate)` makes an app over an open gate. The proxy's routes take none of our paths.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response
from starlette.types import Scope

from headgate import __version__
from headgate.errors import HeadgateError
from headgate.gateway import Headgate
from headgate.protocols import ClusterStore, SharedState
from headgate.service import mcp, problems
from headgate.service.admission import Admission, InFlight
from headgate.service.auth import Auth
from headgate.service.byte_budget import (
    MEMORY_SHARE,
    ByteBudget,
    keep_heaps_small,
    machine_memory,
)
from headgate.service.dashboard import app as dashboard
from headgate.service.dashboard.sessions import SignedIn
from headgate.service.limits import CallerLimits
from headgate.service.log import request_logger
from headgate.service.metrics import Metrics
from headgate.service.openapi import install_schema
from headgate.service.parse import StrictRoute
from headgate.service.paths import is_dashboard
from headgate.service.proxy import app as proxy
from headgate.service.proxy.conversation_state import open_conversations
from headgate.service.request_state import RequestState
from headgate.service.routes import ROUTERS
from headgate.service.spans import record_spans
from headgate.service.state import ServiceState
from headgate.settings import Settings
from headgate.thread_work import WorkThreads

LOGGER = logging.getLogger("headgate.service")
ABOUT = """The gate between an LLM agent and its model: context that is relevant, new to the window and within the budget,
with the fate of every candidate."""

# For what waits for the store or reads large bodies, started at need; one tenant gets half of them. The interpreter's
# own default is as many at most, and on two cores 6: as many calls that block stopped all.
THREADS = 32


def create(gate: Headgate, *, close_gate: bool = False, folder: str | None = None) -> FastAPI:
    """The service over an open gate; with `close_gate` the gate is closed when the service ends.

    `folder` is where the processes of one service share their metrics.
    """
    policy = gate.settings.service
    memory = policy.memory_bytes or machine_memory() // MEMORY_SHARE
    budget = ByteBudget(max(1, memory // policy.workers))
    conversations = open_conversations(gate.store, gate.settings)
    auth = Auth(
        gate.keys,
        gate.settings.tenant,
        keyless=policy.keyless,
        signed_in=SignedIn(conversations),
    )
    service = ServiceState(gate, Metrics(folder), InFlight(), budget, auth, conversations)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        threads = WorkThreads(THREADS, thread_name_prefix="headgate")
        threads.start_all()
        asyncio.get_running_loop().set_default_executor(threads)
        yield {"in_flight": service.in_flight}
        for close in service.on_shutdown:
            await close()
        if close_gate:
            gate.close()

    app = FastAPI(
        title="Headgate",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from elsewhere; the schema itself is at /openapi.json
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # spans.py has our own
    )
    app.state.service = service
    app.router.route_class = StrictRoute
    _add_admission(app, service)
    problems.install(app)
    for router in ROUTERS:
        app.router.routes += router.routes  # one list: routers are asked in turn
    mcp.mount(app, service)
    dashboard.mount(app)
    proxy.mount(app, service)
    install_schema(app)
    return app


def from_settings(settings: Settings, folder: str | None = None) -> FastAPI:
    """The service that some settings describe, in a process of its own."""
    keep_heaps_small()
    gate = Headgate.open(settings=settings, wait_for_index=False)
    if isinstance(gate.store, ClusterStore) and (local := gate.store.local_tables()):
        LOGGER.warning(
            "the server of the store has Citus, and %d tables are on the coordinator alone;"
            " to spread them run: headgate store distribute",
            len(local),
        )
    return create(gate, close_gate=True, folder=folder)


def _add_admission(app: FastAPI, service: ServiceState) -> None:
    """Put every request of the app under keys, limits, log and metrics."""
    gate = service.gate
    policy = gate.settings.service

    def count_lost_writes(_: RequestState, __: Scope) -> None:
        service.metrics.count_lost_writes(gate.lost_writes)

    app.add_middleware(
        Admission,
        policy=policy,
        auth=service.auth,
        limits=CallerLimits(
            policy, shared=gate.store if isinstance(gate.store, SharedState) else None
        ),
        budget=service.budget,
        in_flight=service.in_flight,
        observers=(
            service.metrics.count_request,
            count_lost_writes,
            request_logger(policy),
            record_spans,
        ),
        error_response=_error_response,
    )


def _error_response(error: HeadgateError, scope: Scope, request_id: str) -> Response:
    """A refusal before any route is reached, in the shape that the clients of this path expect."""
    if is_dashboard(scope["path"]):
        return dashboard.error_response(error, scope)
    return proxy.error_response(error, scope, request_id)
