"""Problems: every error as problem JSON (RFC 9457), with what to do about it.

{type, title, status, detail, hint, request_id}; invalid input also lists its fields under `errors`. Our own errors know
their status. Any other exception becomes a 500 that reveals nothing of the inside.
"""

import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast, get_args

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import AccessError, BusyError, MillgateError, NotReady
from millgate.service.observe.request_state import state_of
from millgate.text.meant import did_you_mean
from millgate.types.lengths import NOT_BLANK, ONE_LINE

MEDIA = "application/problem+json"
_MISMATCHES = {NOT_BLANK: "it is blank", ONE_LINE: "it holds a control character"}


def problem(
    status: int,
    detail: str,
    *,
    hint: str = "",
    kind: str = "",
    request_id: str = "",
    errors: Sequence[Mapping[str, Any]] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem as a response."""
    body: dict[str, Any] = {
        "type": f"urn:millgate:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": _printable(detail),
        "hint": _printable(hint),
        "request_id": request_id,
    }
    if errors:
        body["errors"] = list(errors)
    return Response(orjson.dumps(body), status, headers=headers, media_type=MEDIA)


def refusal(error: MillgateError, request_id: str) -> Response:
    """One of our own errors as a response."""
    headers: dict[str, str] = {}
    if isinstance(error, BusyError | NotReady):
        headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
    elif error.status == AccessError.status:
        headers["www-authenticate"] = "Bearer"
    elif error.status == 503:
        headers["retry-after"] = "5"
    kind = type(error).__name__
    return problem(
        error.status, error.message, hint=error.hint, kind=kind, request_id=request_id, headers=headers
    )  # fmt: skip


def drop_traceback(error: BaseException | None) -> None:
    """Forget where an error came from that is answered and not logged.

    A frame that it has passed often holds it, so that all those frames hold, a huge body too, would wait for the
    garbage collector.
    """
    while error is not None:
        error.__traceback__ = None
        error = error.__context__


def install(app: Starlette) -> None:
    """Make every error of an app a problem response."""
    app.add_exception_handler(MillgateError, _millgate_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _unexpected_error)


async def _millgate_error(request: Request, error: Exception) -> Response:
    drop_traceback(error)
    return refusal(cast(MillgateError, error), state_of(request).id)


async def validation_error(request: Request, error: Exception) -> Response:
    """What FastAPI refuses in a request, as a problem."""
    drop_traceback(error)
    items = cast(Any, error).errors()[:20]
    errors = [{"where": ".".join(map(str, item["loc"])), "what": _describe(item)} for item in items]
    first, item = errors[0], items[0]
    detail, hint = f"{first['where']}: {first['what']}", "see /openapi.json for the fields and their ranges"  # fmt: skip
    if item["type"] == "extra_forbidden" and (meant := _mean_field(request, item["loc"])):
        hint = meant
    elif item["type"] == "json_invalid":
        detail = (
            f"the body is not valid JSON, from character {first['where'].rpartition('.')[2]} on: "
            f"{_describe_json_error(item['ctx']['error'])}"
        )
        hint = "send one JSON object"
    elif first["where"] == "body" and not _says_json(request):
        detail, hint = "the body is not marked as JSON", "send the header content-type: application/json"  # fmt: skip
    return problem(
        422, detail, kind="InputError", hint=hint, errors=errors, request_id=state_of(request).id
    )


def _describe_json_error(reason: str) -> str:
    if "surrogate in" in reason:
        return "half a character (a lone surrogate)"
    return _printable(reason.partition(":")[0])


def _mean_field(request: Request, place: Sequence[str | int]) -> str:
    """The question which field was meant by one of the body that there is not; empty if none is alike."""
    body = getattr(request.scope.get("route"), "body_field", None)
    model: Any = body and body.field_info.annotation
    for part in place[1:-1]:
        if isinstance(part, int):
            model = next(iter(get_args(model)), None)
        else:
            field = getattr(model, "model_fields", {}).get(part)
            model = field and field.annotation
    return did_you_mean(str(place[-1]), getattr(model, "model_fields", ()))


def _describe(item: dict[str, Any]) -> str:
    if item["type"] == "extra_forbidden":
        return "there is no such field"
    if item["type"] == "string_pattern_mismatch":
        return _MISMATCHES.get(item["ctx"]["pattern"], _printable(item["msg"]))
    return _printable(item["msg"])


def _says_json(request: Request) -> bool:
    return "json" in request.headers.get("content-type", "").lower()


async def _http_error(request: Request, error: Exception) -> Response:
    http_error = cast(HTTPException, error)
    status, headers = http_error.status_code, http_error.headers
    detail, hint = str(http_error.detail), ""
    if status == 404:
        detail, hint = f"there is no route {request.url.path}", "see /openapi.json for all routes"
    elif status == 405 and headers:
        detail = f"{request.url.path} does not take {request.method}"
        hint = f"use {headers.get('Allow', 'another method')}"
    return problem(status, detail, hint=hint, headers=headers, request_id=state_of(request).id)


async def _unexpected_error(request: Request, error: Exception) -> Response:
    return problem(
        500,
        "something went wrong that should not have",
        kind=type(error).__name__,
        hint="report it with the request id; the service's log has the rest",
        request_id=state_of(request).id,
    )


def _printable(text: str) -> str:
    """Text that can be encoded as UTF-8, cut to a length that a person reads."""
    return text[:2000].encode("utf-8", "replace").decode()
