"""Render: templates to responses, under a policy that lets a page load nothing but our own files.

Jinja2 escapes every value. Nothing here marks a value as safe: markup is written in templates alone. Files have their
digest in their address, so that browsers keep them until they change.
"""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from millgate import __version__
from millgate.service.dashboard.plots import Unit
from millgate.service.dashboard.words import count, describe_outcome, looped, other_reasons
from millgate.service.edge import cookies
from millgate.service.edge.paths import DASHBOARD, STATIC
from millgate.service.observe.request_state import Caller, state_of
from millgate.service.state import service_of
from millgate.sessions.xray.bars import HEIGHT, WIDTH
from millgate.stores.url import is_postgres
from millgate.text.table import money_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    # not no-referrer: with that, browsers hide the origin of forms even from ourselves
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
SHORT = 8  # digits of an id that a person reads, as the command line prints them
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


class View(NamedTuple):
    """An entry of the navigation."""

    path: str
    name: str


VIEWS = (
    View("/", "Window"),
    View("/requests", "Requests"),
    View("/streams", "Streams"),
    View("/costs", "Costs"),
    View("/reviews", "Reviews"),
    View("/health", "Health"),
)


class StaticFile(NamedTuple):
    """A file that pages load, as it is sent."""

    body: bytes
    kind: str
    digest: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Our stylesheet, scripts and icon by name."""
    folder = files("millgate.service.dashboard") / "static"
    found = {}
    for file in folder.iterdir():
        kind = KINDS.get(file.name.rpartition(".")[2])
        if kind:
            body = file.read_bytes()
            found[file.name] = StaticFile(body, kind, sha256(body).hexdigest()[:12])
    return found


def static_url(name: str) -> str:
    """The address of a file; it changes with its content."""
    return f"{STATIC}{name}?v={static_files()[name].digest}"


def render(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    """A template as a page for the caller."""
    caller = state_of(request).caller
    secret = cookies.csrf_secret(request)
    body = environment().get_template(template).render(
        values
        | {
            "caller": caller,
            "csrf": cookies.csrf_token(secret, caller),
            "here": request.url.path,
            "address": address(request),
            "store_option": _store_option(request, caller),
            "has_upstream": bool(service_of(request).gate.settings.proxy.upstreams),
            "may": lambda scope: _has_scope(caller, scope),
            "signed_in": bool(caller and caller.key),
            "views": VIEWS,
        }
    )  # fmt: skip
    response = Response(
        body.encode("utf-8", "replace"),
        status,
        headers=HEADERS | {"cache-control": "no-store"},
        media_type="text/html",
    )
    cookies.set_cookie(response, request, cookies.SECRET, secret)
    return response


def address(request: Request) -> str:
    """Where this browser reached the service, for commands to copy."""
    return f"http{'s' if cookies.is_encrypted(request) else ''}://{request.url.netloc}"


def _store_option(request: Request, caller: Caller | None) -> str:
    """Which store a command on this machine must name; only who may see its paths is told."""
    if caller is None or "admin" not in caller.scopes:
        return ""
    gate = service_of(request).gate_for(caller)
    option = "" if is_postgres(gate.settings.store) or not gate.folder else f" --store {shlex.quote(str(gate.folder.absolute()))}"  # fmt: skip
    return (
        option
        if gate.tenant == gate.settings.tenant
        else f"{option} --tenant {shlex.quote(gate.tenant)}"
    )


def redirect(path: str) -> Response:
    """Send the browser on to a page of the dashboard, with a GET."""
    return Response(status_code=303, headers=HEADERS | {"location": path})


def link(path: str, **query: object) -> str:
    """The address of a page of the dashboard; parts of the path are quoted by `quote_part`."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{DASHBOARD}{path}" + (f"?{urlencode(given)}" if given else "")


def quote_part(value: str) -> str:
    """A value as one part of a path."""
    return quote(value, safe="")


@cache
def environment() -> Environment:
    """The templates, and what they may call."""
    made = Environment(
        loader=PackageLoader("millgate.service.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "link": link, "static": static_url, "version": __version__, "plot_size": (WIDTH, HEIGHT),
        "describe_outcome": describe_outcome, "looped": looped, "other_reasons": other_reasons,
    }  # fmt: skip
    made.filters |= {
        "part": quote_part,
        "thousands": lambda value: f"{value:,}",
        "count": count,
        "amount": _amount,
        "number_head": lambda name: f"#{name}",
        "short": lambda text: text[:SHORT],
        "ms": _milliseconds,
        "share": lambda value: f"{100 * value:.0f} %",
        "figure": _figure,
        "money": money_of,
        "iso": lambda when: _moment(when).isoformat(timespec="seconds"),
        "clock": lambda when: f"{_moment(when):%Y-%m-%d %H:%M:%S} UTC",
    }
    return made


def _has_scope(caller: Caller | None, scope: str) -> bool:
    return caller is not None and scope in caller.scopes


def _figure(value: object) -> str:
    """A number in few digits; anything else as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _amount(value: float, unit: Unit) -> str:
    """A number of a plot with its unit."""
    if unit == "ms":
        return _milliseconds(value)
    if unit == "money":
        return money_of(value)
    return f"{100 * value:.0f} %" if unit == "share" else _figure(value)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _milliseconds(seconds: float) -> str:
    value: Any = 1000 * seconds
    return f"{value:,.0f} ms" if value >= 10 or not value else f"{value:.1f} ms"
