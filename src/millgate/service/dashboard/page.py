"""Page: how every page is made: its route, its template, and what templates may call.

Jinja2 escapes every value, and nothing here marks a value as safe: markup is written in templates alone. A policy lets
a page load nothing but our own files, which have their digest in their address, so that browsers keep them until they
change. What fails on purpose becomes a page too. A form that changes something carries the CSRF token.
"""

import shlex
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import Response

from millgate import __version__
from millgate.errors import AccessError, InputError, MillgateError
from millgate.guard.report import LOOP_ERRORS
from millgate.service.edge import cookies
from millgate.service.edge.body import ClientGone, read_body
from millgate.service.edge.paths import DASHBOARD, STATIC
from millgate.service.observe.request_state import Caller, state_of
from millgate.service.routes.api import answering
from millgate.service.state import service_of
from millgate.sessions.xray.bars import HEIGHT, WIDTH
from millgate.stores.url import is_postgres
from millgate.text.table import money_of
from millgate.types import TraceSummary
from millgate.types.notes import Stage

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    # not no-referrer: with that, browsers hide the origin of forms even from ourselves
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
VIEWS = {
    "/": "Window",
    "/requests": "Requests",
    "/costs": "Costs",
    "/reviews": "Reviews",
    "/health": "Health",
}
"""The navigation."""
FIELDS = 100  # of a form
FORM_BYTES = 1_000_000


class PageRoute(APIRoute):
    """A route of the dashboard: what its function raises on purpose becomes a page."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:  # noqa: ANN401  (FastAPI's own)
        super().__init__(path, answering(endpoint), **options | {"include_in_schema": False})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler."""
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await inner(request)
            except MillgateError as error:
                return error_page(request, error)
            except RequestValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"][1:]))
                return error_page(request, InputError(f"{where}: {first['msg']}"))

        return handle


def error_page(request: Request, error: MillgateError) -> Response:
    """What went wrong and what to do, as a page; for a caller who was not let in, the sign-in page."""
    if error.status == AccessError.status:
        page = render(request, "sign_in.html", status=error.status, error=error)
        if cookies.sessions_in_cookies(request.scope):
            cookies.set_cookie(page, request, cookies.SESSION, "")
        return page
    return render(request, "error.html", status=error.status, error=error)


async def read_form(request: Request) -> Mapping[str, str]:
    """The fields of a form that changes something; ScopeError unless it carries the CSRF token."""
    try:
        body = await read_body(request.scope, request.receive, limit=FORM_BYTES, setting="that of a form")  # fmt: skip
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS))
    except (ClientGone, ValueError) as error:
        raise InputError("the form cannot be read", hint="send it from its page") from error
    cookies.check_csrf(request, fields.pop(cookies.FIELD, ""))
    return fields


def redirect(path: str) -> Response:
    """Send the browser on to a page of the dashboard, with a GET."""
    return Response(status_code=303, headers=HEADERS | {"location": path})


def render(request: Request, template: str, *, status: int = 200, **values: object) -> Response:
    """A template as a page for the caller."""
    caller = state_of(request).caller
    secret = cookies.csrf_secret(request)
    scheme = "https" if cookies.is_encrypted(request) else "http"
    common = {
        "caller": caller,
        "csrf": cookies.csrf_token(secret, caller),
        "here": request.url.path,
        # where this browser reached the service, for commands to copy
        "address": f"{scheme}://{request.url.netloc}",
        "store_option": _store_option(request, caller),
        "has_upstream": bool(service_of(request).gate.settings.proxy.upstreams),
    }
    body = environment().get_template(template).render(values | common)
    response = Response(
        body.encode("utf-8", "replace"),
        status,
        headers=HEADERS | {"cache-control": "no-store"},
        media_type="text/html",
    )
    cookies.set_cookie(response, request, cookies.SECRET, secret)
    return response


def _store_option(request: Request, caller: Caller | None) -> str:
    """Which store a command on this machine must name; only who may see its paths is told."""
    if caller is None or "admin" not in caller.scopes:
        return ""
    gate, option = service_of(request).gate_for(caller), ""
    if gate.folder and not is_postgres(gate.settings.store):
        option = f" --store {shlex.quote(str(gate.folder.absolute()))}"
    if gate.tenant != gate.settings.tenant:
        option += f" --tenant {shlex.quote(gate.tenant)}"
    return option


def link(path: str, **query: object) -> str:
    """The address of a page of the dashboard; parts of the path are quoted by the filter `part`."""
    given = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{DASHBOARD}{path}" + (f"?{urlencode(given)}" if given else "")


class StaticFile(NamedTuple):
    """A file that pages load, as it is sent, and its address, which changes with it."""

    body: bytes
    kind: str
    address: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Our stylesheet, scripts and icon by name."""
    kinds = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
    found = {}
    for file in (files(__package__) / "static").iterdir():
        if kind := kinds.get(file.name[file.name.rfind(".") :]):
            body = file.read_bytes()
            address = f"{STATIC}{file.name}?v={sha256(body).hexdigest()[:12]}"
            found[file.name] = StaticFile(body, kind, address)
    return found


@cache
def environment() -> Environment:
    """The templates, and what they may call."""
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "link": link, "static": static_files(), "version": __version__, "plot_size": (WIDTH, HEIGHT),
        "views": VIEWS, "describe_outcome": describe_outcome, "other_reasons": other_reasons, "stages": Stage,
    }  # fmt: skip
    made.filters |= {
        "part": lambda value: quote(value, safe=""),
        "thousands": lambda value: f"{value:,}",
        "count": count,
        "amount": lambda value, unit: _UNITS.get(unit, figure)(value),
        "number_head": lambda name: f"#{name}",
        "short": lambda text: text[:8],  # as the command line prints ids
        "figure": figure,
        "iso": lambda when: _moment(when).isoformat(timespec="seconds"),
        "clock": lambda when: f"{_moment(when):%Y-%m-%d %H:%M:%S} UTC",
        **_UNITS,
    }
    return made


def figure(value: object) -> str:
    """A number in few digits; anything else as text."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def _milliseconds(seconds: float) -> str:
    value = 1000 * seconds
    return f"{value:,.0f} ms" if value >= 10 or not value else f"{value:.1f} ms"


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


_UNITS: Mapping[str, Callable[[float], str]] = {
    "ms": _milliseconds,
    "money": money_of,
    "share": lambda value: f"{100 * value:.0f} %",
}


# Words


def count(number: float, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 fold", "2,000 folds"."""
    return f"{number:,.0f} {noun if number == 1 else plural or noun + 's'}"


_ENDINGS = {
    "off": "not watched",
    "clean": "no loop",
    "recovered": "a loop was cut",
    "passed": "passed on as it was",
    "abandoned": "given up by the agent",
    "failed": "the answer broke off",
    "broken": "the answer broke off",
    "ended": "ended: a circle of tool calls",
}


def describe_outcome(outcome: str, degraded: Sequence[str], status: float = 0) -> str:
    """What became of a model call."""
    if outcome == "unanswered":
        return f"no answer: {figure(status) if status else 'not reached'}"
    if outcome == "failed" and any(map(_is_of_loop, degraded)):
        return "the model kept looping"
    return _ENDINGS.get(outcome, outcome)


def looped(row: TraceSummary) -> bool:
    """Whether a loop was cut from the answer of a model call."""
    is_lost = row.outcome == "failed" and any(map(_is_of_loop, row.degraded))
    return row.outcome == "recovered" or is_lost


def other_reasons(row: TraceSummary) -> list[str]:
    """What else did not go as planned: what the outcome says already is left out."""
    return [one for one in row.degraded if row.outcome != "failed" or not _is_of_loop(one)]


def _is_of_loop(reason: str) -> bool:
    """Each reason is 'stage: error'."""
    return reason.rpartition(": ")[2] in LOOP_ERRORS
