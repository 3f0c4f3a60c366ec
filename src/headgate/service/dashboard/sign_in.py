"""Signing in: a key from a form into a cookie, and out of it again.

The key is judged where all keys are (auth.py): signing in only stores it and opens the first page, and a key that is
not valid leads back here. So guesses are counted as they are everywhere.
"""

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from headgate.errors import AccessError
from headgate.keys import is_well_formed
from headgate.service.dashboard import cookies
from headgate.service.dashboard.render import redirect, render
from headgate.service.dashboard.route import PageRoute, read_form
from headgate.service.paths import DASHBOARD, HOME, SIGN_IN

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get(SIGN_IN)
async def show_form(request: Request) -> Response:
    """The form."""
    return render(request, "sign_in.html", error=None)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Keep the key in the cookie and open the first page."""
    key = (await read_form(request)).get("key", "").strip()
    if not is_well_formed(key):
        raise AccessError("this is not a key", hint="a key is hg_ and 43 characters")
    response = redirect(HOME)
    cookies.set_cookie(response, request, cookies.KEY, key)
    return response


@router.post(f"{DASHBOARD}/sign-out")
async def sign_out(request: Request) -> Response:
    """Forget the key."""
    await read_form(request)
    response = redirect(SIGN_IN)
    cookies.set_cookie(response, request, cookies.KEY, "")
    return response
