"""ServiceState: what the parts of one service share, how it is opened, and the way in before all its routes.

Nothing here imports FastAPI or a page of the dashboard. The gateway of a wrapped agent serves the proxy alone, and
without them an agent's first call waits half as long: they are half of what there is to import.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from millgate.calls.pool import WorkThreads
from millgate.errors import MillgateError
from millgate.gateway import Millgate
from millgate.protocols import ClusterStore, SharedState
from millgate.service.conversation_state import ConversationState, open_conversations
from millgate.service.edge.admission import Admission, InFlight
from millgate.service.edge.auth import Auth
from millgate.service.edge.byte_budget import (
    MEMORY_SHARE,
    ByteBudget,
    keep_heaps_small,
    machine_memory,
)
from millgate.service.edge.limits import CallerLimits
from millgate.service.edge.sign_in import SignedIn
from millgate.service.observe.log import request_logger
from millgate.service.observe.metrics import Metrics
from millgate.service.observe.request_state import Caller, RequestState
from millgate.service.observe.spans import record_spans
from millgate.settings import Settings

Check = Callable[[], Awaitable[str]]
"""Whether a part can serve: returns what is wrong with it, "" when nothing is."""


@dataclass(slots=True)
class ServiceState:
    """The gate, the metrics, the requests in flight and what they hold, who may call, what is kept of conversations,
    and the checks behind /readyz.

    Without the parts in `checks` nothing works; those in `soft_checks` only degrade an answer. `on_shutdown` closes
    what other parts opened. `whole_documents` is held while one is read: each may have megabytes.
    """

    gate: Millgate
    metrics: Metrics
    in_flight: InFlight
    budget: ByteBudget
    auth: Auth
    conversations: ConversationState
    checks: dict[str, Check] = field(default_factory=dict)
    soft_checks: dict[str, Check] = field(default_factory=dict)
    on_shutdown: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    whole_documents: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))

    def gate_for(self, caller: Caller) -> Millgate:
        """The gate of the caller's tenant."""
        return self.gate.for_tenant(caller.tenant)


def service_of(request: Request) -> ServiceState:
    """The state of the service that handles a request."""
    service: ServiceState = request.app.state.service
    return service


LOGGER = logging.getLogger("millgate.service")

# For what waits for the store or reads large bodies, started at need; one tenant gets half of them. The interpreter's
# own default is as many at most, and on two cores 6: as many calls that block stopped all.
THREADS = 32

Lifespan = Callable[[Any], AbstractAsyncContextManager[dict[str, Any]]]
ErrorResponse = Callable[[MillgateError, Scope, str], Response]


def open_gate(settings: Settings) -> Millgate:
    """The gate of a process that serves."""
    keep_heaps_small()
    gate = Millgate.open(settings=settings, wait_for_index=False)
    if isinstance(gate.store, ClusterStore) and (local := gate.store.local_tables()):
        LOGGER.warning(
            "the server of the store has Citus, and %d tables are on the coordinator alone;"
            " to spread them run: millgate store distribute",
            len(local),
        )
    return gate


def open_state(gate: Millgate, folder: str | None = None) -> ServiceState:
    """What the routes of a service over an open gate share; `folder` is where its processes share their metrics."""
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
    return ServiceState(gate, Metrics(folder), InFlight(), budget, auth, conversations)


def lifespan_of(service: ServiceState, *, close_gate: bool) -> Lifespan:
    """What happens around serving: threads are started, and in the end all that was opened is closed."""

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[dict[str, Any]]:
        threads = WorkThreads(THREADS, thread_name_prefix="millgate")
        threads.start_all()
        asyncio.get_running_loop().set_default_executor(threads)
        yield {"in_flight": service.in_flight}
        for close in service.on_shutdown:
            await close()
        if close_gate:
            service.gate.close()

    return lifespan


def add_admission(app: Starlette, service: ServiceState, error_response: ErrorResponse) -> None:
    """Put every request of an app under keys, limits, log and metrics.

    `error_response` shows a refusal before any route is reached, in the shape that the clients of this path expect.
    """
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
        error_response=error_response,
    )
