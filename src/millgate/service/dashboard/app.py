"""App: the dashboard in the service, under the same keys, limits, log and metrics as every other route."""

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from millgate.errors import MillgateError, NotFound
from millgate.service.dashboard import (
    costs,
    health,
    replay,
    request,
    requests,
    reviews,
    sign_in,
    streams,
    window,
)
from millgate.service.dashboard.render import HEADERS, redirect, static_files
from millgate.service.dashboard.route import PageRoute, error_page
from millgate.service.edge.paths import DASHBOARD, HOME, STATIC
from millgate.service.routes.api import Id

router = APIRouter(route_class=PageRoute, include_in_schema=False)


VIEWS = (
    sign_in.router,
    window.router,
    requests.router,
    replay.router,
    request.router,
    streams.router,
    costs.router,
    reviews.router,
    health.router,
    router,
)


def mount(app: FastAPI) -> None:
    """Add the pages to a service."""
    for part in VIEWS:
        app.router.routes += part.routes


def error_response(error: MillgateError, scope: Scope) -> Response:
    """What is refused before a page is reached, as a page."""
    return error_page(Request(scope), error)


@router.get("/")
async def enter() -> Response:
    """Send a browser to the first page."""
    return redirect(HOME)


@router.get(DASHBOARD)
async def enter_dashboard() -> Response:
    """The same for an address without the last slash."""
    return redirect(HOME)


@router.get(STATIC + "{name}")
async def static_file(name: Id) -> Response:
    """A stylesheet, script or picture of ours."""
    file = static_files().get(name)
    if file is None:
        raise NotFound(f"there is no file {name!r}")
    kept = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(file.body, headers=HEADERS | kept, media_type=file.kind)


@router.api_route(DASHBOARD + "{rest:path}", methods=["GET", "POST"])
async def unknown(rest: Id) -> Response:
    """Any other path of the dashboard."""
    raise NotFound(f"there is no page {rest!r}", hint="the views are in the navigation")
