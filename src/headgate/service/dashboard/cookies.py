"""Cookies: the key of whoever is signed in, and the secret behind the CSRF token.

Both are HttpOnly and SameSite=Strict, end with the browser, and go to paths of the dashboard alone. The token that a
change must carry is an HMAC of the caller's key under the secret: neither a page of another origin nor one that can
plant cookies knows both.
"""

import hmac
from http.cookies import CookieError, SimpleCookie
from secrets import token_urlsafe

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from headgate.errors import ScopeError
from headgate.service.origin import is_same_origin
from headgate.service.paths import DASHBOARD, is_dashboard

KEY = "headgate_key"
SECRET = "headgate_csrf"  # noqa: S105  (a cookie's name)
FIELD = "csrf"


def key_in_cookie(scope: Scope) -> str:
    """The key that a request to the dashboard carries in its cookie; "" elsewhere."""
    return _read(scope, KEY) if is_dashboard(scope.get("path", "")) else ""


def csrf_secret(request: Request) -> str:
    """The secret of this browser; a new one where it has none yet."""
    return _read(request.scope, SECRET) or token_urlsafe(32)


def csrf_token(secret: str, key: str) -> str:
    """What a form must carry, for the holder of a key ("" where none was needed)."""
    return hmac.digest(secret.encode(), key.encode(), "sha256").hex()


def check_csrf(request: Request, token: str) -> None:
    """ScopeError unless a change comes from a page of ours."""
    secret = _read(request.scope, SECRET)
    expected = csrf_token(secret, key_in_cookie(request.scope))
    is_ours = is_same_origin(dict(request.scope["headers"]))
    if not (secret and is_ours and hmac.compare_digest(expected.encode(), token.encode())):
        raise ScopeError(
            "this form is not from a page of this dashboard, or too old",
            hint="open the page again and repeat what you did",
        )


def set_cookie(response: Response, request: Request, name: str, value: str) -> None:
    """Let the browser keep a value until it is closed; with an empty one, forget it."""
    encrypted = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))
    response.set_cookie(
        name, value, path=DASHBOARD, httponly=True, samesite="strict", secure=encrypted,
        max_age=None if value else 0,
    )  # fmt: skip


def _read(scope: Scope, name: str) -> str:
    sent = "; ".join(v.decode("latin-1") for n, v in scope["headers"] if n == b"cookie")
    try:
        cookie = SimpleCookie(sent)
    except CookieError:
        return ""
    return cookie[name].value if name in cookie else ""
