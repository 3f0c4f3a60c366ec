"""App: the service as an ASGI app, made by a factory.

`create(gate)` gives an app over an open gate. Parts that bring routes of their own (the proxy) are plugs: functions
that get the app and its hub, called after our routes, so that ours win.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import FastAPI

from headgate import __version__
from headgate.gateway import Headgate
from headgate.service import log, problems, spans
from headgate.service.admission import Desk, Door
from headgate.service.auth import Auth
from headgate.service.limits import Limits
from headgate.service.metrics import Metrics
from headgate.service.openapi import describe
from headgate.service.parse import Strict
from headgate.service.proxy import app as proxy
from headgate.service.routes import ROUTERS
from headgate.service.state import Hub
from headgate.settings import Settings

Plug = Callable[[FastAPI, Hub], None]

ABOUT = """The gate between an LLM agent and its model: context that is relevant, new to the window and within the budget,
with the fate of every candidate."""


def plugs() -> Sequence[Plug]:
    """The parts that bring their own routes."""
    return (proxy.plug,)


def create(gate: Headgate, *, owns: bool = False, folder: str | None = None) -> FastAPI:
    """The service over an open gate; with `owns` the gate is closed when the service ends.

    `folder` is where the processes of one service share their metrics and rates.
    """
    settings = gate.parts.settings
    hub = Hub(gate, Metrics(folder), Desk())

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        for end in hub.endings:
            await end()
        hub.metrics.close()
        if owns:
            gate.close()

    app = FastAPI(
        title="Headgate",
        version=__version__,
        description=ABOUT,
        lifespan=lifespan,
        docs_url=None,  # its page loads scripts from afar; the schema itself is at /openapi.json
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.hub = hub
    app.router.route_class = Strict
    app.add_middleware(
        Door,
        policy=settings.service,
        auth=Auth(gate.parts.store, settings.tenant, keyless=settings.service.keyless),
        limits=Limits(settings.service, folder),
        desk=hub.desk,
        watches=(hub.metrics.watch, log.watch(settings.service), spans.watch),
        shape=proxy.refused,
    )
    problems.install(app)
    for router in ROUTERS:
        app.include_router(router)
    for plug in plugs():
        plug(app, hub)
    describe(app)
    return app


def from_settings(settings: Settings, folder: str | None = None) -> FastAPI:
    """The service that some settings describe."""
    return create(Headgate.open(settings=settings), owns=True, folder=folder)
