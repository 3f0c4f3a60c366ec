"""PageRoute: routes whose errors are pages, and whose bodies are forms.

A caller who is not let in gets the sign-in page in place of the page asked for. What changes something takes a form
that carries the CSRF token.
"""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import AccessError, InputError, MillgateError
from millgate.service.dashboard.render import render
from millgate.service.edge import cookies
from millgate.service.edge.body import ClientGone, read_body

FIELDS = 100  # of a form
FORM_BYTES = 1_000_000


class PageRoute(APIRoute):
    """A route of the dashboard."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The route's handler; what it raises on purpose becomes a page."""
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
