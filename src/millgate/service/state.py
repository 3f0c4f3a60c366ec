"""ServiceState: what the routes of one service share. It is at `app.state.service`."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from threading import Lock

from starlette.requests import Request

from millgate.gateway import Millgate
from millgate.service.conversation_state import ConversationState
from millgate.service.edge.admission import InFlight
from millgate.service.edge.auth import Auth
from millgate.service.edge.byte_budget import ByteBudget
from millgate.service.observe.metrics import Metrics
from millgate.service.observe.request_state import Caller

MAX_TENANTS = 1000  # gates kept ready; making another one takes microseconds

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
    _gates: OrderedDict[str, Millgate] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def gate_for(self, caller: Caller) -> Millgate:
        """The gate of the caller's tenant."""
        with self._lock:
            gate = self._gates.pop(caller.tenant, None) or self.gate.for_tenant(caller.tenant)
            self._gates[caller.tenant] = gate
            while len(self._gates) > MAX_TENANTS:
                self._gates.popitem(last=False)
        return gate


def service_of(request: Request) -> ServiceState:
    """The state of the service that handles a request."""
    service: ServiceState = request.app.state.service
    return service
