"""Cookies: the session of the person who is signed in, and the secret behind the CSRF token.

Both are HttpOnly and SameSite=Strict, end with the browser, and are read on paths of the dashboard alone. The token
that a change must carry is an HMAC of the caller's key under the secret: neither a page of another origin nor one that
can plant cookies knows both. Over TLS their names begin with `__Host-`, so that no other host of the domain can set
them.

A host's cookies are shared by all its ports and by whatever else runs there. So a name carries the port, other cookies
may look as they like, and of several values of one name each is tried.
"""

import hmac
from secrets import token_urlsafe

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from millgate.errors import ScopeError
from millgate.service.edge.origin import is_same_origin
from millgate.service.edge.paths import DASHBOARD, is_dashboard
from millgate.service.observe.request_state import Caller, state_of

SESSION = "millgate_session"
SECRET = "millgate_csrf"  # noqa: S105  (a cookie's name)
FIELD = "csrf"
_HOST = "__Host-"  # a browser takes such a cookie only over TLS, for this host and all its paths
# Values of one name that are tried: more than one means that another program on the host set it too.
_TRIED = 4


def sessions_in_cookies(scope: Scope) -> list[str]:
    """The sessions that a request to the dashboard carries in cookies; none elsewhere."""
    return _read(scope, SESSION) if is_dashboard(scope.get("path", "")) else []


def csrf_secret(request: Request) -> str:
    """The secret of this browser; a new one if it has none yet."""
    return next(iter(_read(request.scope, SECRET)), "") or token_urlsafe(32)


def csrf_token(secret: str, caller: Caller | None) -> str:
    """What a form must carry. Its caller is known by the hash of the key, which only its holder knows."""
    digest = caller.digest if caller else ""
    return hmac.digest(secret.encode(), digest.encode(), "sha256").hex()


def check_csrf(request: Request, token: str) -> None:
    """ScopeError unless a change comes from a page of ours."""
    caller = state_of(request).caller
    expected = [csrf_token(secret, caller) for secret in _read(request.scope, SECRET)]
    is_known = any(hmac.compare_digest(one.encode(), token.encode()) for one in expected)
    if not (is_known and is_same_origin(dict(request.scope["headers"]))):
        raise ScopeError(
            "this form is not from a page of this dashboard, or too old",
            hint="open the page again and repeat what you did",
        )


def set_cookie(response: Response, request: Request, name: str, value: str) -> None:
    """Let the browser keep a value until it is closed; with an empty one, forget it."""
    encrypted = is_encrypted(request)
    name = _with_port(name, request.scope)
    response.set_cookie(
        _HOST + name if encrypted else name, value, path="/" if encrypted else DASHBOARD, httponly=True,
        samesite="strict", secure=encrypted, max_age=None if value else 0,
    )  # fmt: skip


def is_encrypted(request: Request) -> bool:
    """Whether the browser came over TLS, to us or to a proxy before us."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _read(scope: Scope, name: str) -> list[str]:
    """The values of one of our cookies, in the order in which they were sent."""
    name = _with_port(name, scope)
    sent = b";".join(value for header, value in scope["headers"] if header == b"cookie")
    pairs = (pair.partition("=") for pair in sent.decode("latin-1").split(";"))
    values = (
        value.strip(' \t"') for found, _, value in pairs if found.strip() in (name, _HOST + name)
    )
    return [value for value in dict.fromkeys(values) if value][:_TRIED]


def _with_port(name: str, scope: Scope) -> str:
    host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    port = host.rpartition(":")[2] if ":" in host else ""
    return f"{name}_{port}" if port.isdecimal() else name
