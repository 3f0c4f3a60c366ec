"""App: the dashboard in the service, under the same keys, limits, log and metrics as every other route.

Signing in with a key begins a session, whose token goes into a cookie (edge/cookies.py). The key is judged where all
keys are (edge/auth.py); one that is not valid leads back to the form.
"""

from fastapi import APIRouter, FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from millgate.errors import AccessError, MillgateError, NotFound
from millgate.keys import is_well_formed
from millgate.service.dashboard import costs, health, requests, reviews, window
from millgate.service.dashboard.page import (
    HEADERS,
    PageRoute,
    error_page,
    read_form,
    redirect,
    render,
    static_files,
)
from millgate.service.edge import cookies
from millgate.service.edge.paths import DASHBOARD, HOME, SIGN_IN, STATIC
from millgate.service.routes.api import Id
from millgate.service.state import service_of

router = APIRouter(route_class=PageRoute)


def mount(app: FastAPI) -> None:
    """Add the pages to a service."""
    for part in (window, requests, costs, reviews, health):
        app.router.routes += part.router.routes
    app.router.routes += router.routes


def error_response(error: MillgateError, scope: Scope) -> Response:
    """What is refused before a page is reached, as a page."""
    return error_page(Request(scope), error)


@router.get("/")
@router.get(DASHBOARD)
async def enter() -> Response:
    """Send a browser to the first page."""
    return redirect(HOME)


@router.get(SIGN_IN)
def show_form(request: Request) -> Response:
    """The form to sign in."""
    return render(request, "sign_in.html", error=None)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Begin a session and open the first page."""
    key = (await read_form(request)).get("key", "").strip()
    if not is_well_formed(key):
        raise AccessError("this is not a key", hint="a key is mg_ and 43 characters")
    auth = service_of(request).auth
    session = await auth.signed_in.begin((await auth.check(key)).digest)
    response = redirect(HOME)
    cookies.set_cookie(response, request, cookies.SESSION, session)
    return response


@router.post(f"{DASHBOARD}/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session, and forget its token."""
    await read_form(request)
    for token in cookies.sessions_in_cookies(request.scope):
        await service_of(request).auth.signed_in.end(token)
    response = redirect(SIGN_IN)
    cookies.set_cookie(response, request, cookies.SESSION, "")
    return response


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
