"""App: the service as an ASGI app.

`create(gate)` makes an app over an open gate. The proxy's routes take none of our paths.
"""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.responses import Response
from starlette.types import Scope

from millgate import __version__
from millgate.errors import MillgateError
from millgate.gateway import Millgate
from millgate.service.dashboard import app as dashboard
from millgate.service.edge import problems
from millgate.service.edge.paths import is_dashboard
from millgate.service.proxy import app as proxy
from millgate.service.routes import ROUTERS, mcp
from millgate.service.routes.openapi import install_schema
from millgate.service.state import add_admission, lifespan_of, open_gate, open_state
from millgate.settings import Settings

ABOUT = """The gate between an LLM agent and its model: context that is relevant, new to the window and within the budget,
with the fate of every candidate."""


def create(gate: Millgate, *, close_gate: bool = False, folder: str | None = None) -> FastAPI:
    """The service over an open gate; with `close_gate` the gate is closed when the service ends.

    `folder` is where the processes of one service share their metrics.
    """
    service = open_state(gate, folder)
    app = FastAPI(
        title="Millgate",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan_of(service, close_gate=close_gate),
        docs_url=None,  # its page loads scripts from elsewhere; the schema itself is at /openapi.json
        redoc_url=None,
        redirect_slashes=False,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # spans.py has our own
    )
    app.state.service = service
    add_admission(app, service, _error_response)
    problems.install(app)
    app.add_exception_handler(RequestValidationError, problems.validation_error)
    for router in ROUTERS:
        app.router.routes += router.routes  # one list: routers are asked in turn
    mcp.mount(app, service)
    dashboard.mount(app)
    proxy.mount(app, service)
    install_schema(app)
    return app


def from_settings(settings: Settings, folder: str | None = None) -> FastAPI:
    """The service that some settings describe, in a process of its own."""
    return create(open_gate(settings), close_gate=True, folder=folder)


def _error_response(error: MillgateError, scope: Scope, request_id: str) -> Response:
    """A refusal before any route is reached, in the shape that the clients of this path expect."""
    if is_dashboard(scope["path"]):
        return dashboard.error_response(error, scope)
    return proxy.error_response(error, scope, request_id)
