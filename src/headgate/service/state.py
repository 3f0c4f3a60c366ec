"""Hub: what the routes of one service share; every route finds it at the app's state."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from threading import Lock

from starlette.requests import Request

from headgate.gateway import Headgate
from headgate.service.admission import Desk
from headgate.service.metrics import Metrics
from headgate.service.request_state import Caller

TENANTS = 1000  # gates kept ready; another tenant's is made again in microseconds

Check = Callable[[], Awaitable[str]]
"""A part's readiness: what is wrong with it, "" when nothing is."""


@dataclass(slots=True)
class Hub:
    """The gate, the metrics, what is under way, and the checks behind /readyz.

    `checks` are of parts without which nothing works; `asides` of parts whose failure only degrades an answer;
    `endings` close what other parts opened.
    """

    gate: Headgate
    metrics: Metrics
    desk: Desk
    checks: dict[str, Check] = field(default_factory=dict)
    asides: dict[str, Check] = field(default_factory=dict)
    endings: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    _gates: OrderedDict[str, Headgate] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def gate_for(self, caller: Caller) -> Headgate:
        """The gate of the caller's tenant."""
        with self._lock:
            gate = self._gates.pop(caller.tenant, None) or self.gate.for_tenant(caller.tenant)
            self._gates[caller.tenant] = gate
            while len(self._gates) > TENANTS:
                self._gates.popitem(last=False)
        return gate


def hub_of(request: Request) -> Hub:
    """The hub of the app that serves a request."""
    hub: Hub = request.app.state.hub
    return hub
