"""Signing in: a key from a form begins a session, whose token goes into a cookie; and the end of the session.

The key is judged where all keys are (auth.py). A key that is not valid leads back here.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import AccessError
from millgate.keys import is_well_formed
from millgate.service.dashboard.render import redirect, render
from millgate.service.dashboard.route import PageRoute, read_form
from millgate.service.edge import cookies
from millgate.service.edge.paths import DASHBOARD, HOME, SIGN_IN
from millgate.service.state import service_of

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(SIGN_IN)
async def show_form(request: Request) -> Response:
    """The form."""
    return render(request, "sign_in.html", error=None)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Begin a session and open the first page."""
    key = (await read_form(request)).get("key", "").strip()
    if not is_well_formed(key):
        raise AccessError("this is not a key", hint="a key is mg_ and 43 characters")
    auth = service_of(request).auth
    valid = await auth.check(key)
    response = redirect(HOME)
    cookies.set_cookie(response, request, cookies.SESSION, await auth.signed_in.begin(valid.digest))
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
