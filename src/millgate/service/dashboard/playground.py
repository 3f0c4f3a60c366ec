"""Playground: a question of one's own, the context for it, sliders that change how it is made, and a test to keep.

Nothing is stored: a question that is only tried leaves no trace, and asks neither a person nor the world outside. The
test is what `millgate test --record` writes, for a file that the person keeps.
"""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.evaluate.regression import case_of
from millgate.evaluate.regression_file import as_toml
from millgate.gateway import Millgate
from millgate.keys import KEYLESS
from millgate.service.dashboard.context import read_block
from millgate.service.dashboard.fates import fate_rows
from millgate.service.dashboard.render import HEADERS, render
from millgate.service.dashboard.replay import Slider, changes_of, sliders
from millgate.service.dashboard.route import PageRoute
from millgate.service.edge.auth import require_scope
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.request_state import Caller
from millgate.service.state import service_of
from millgate.types import Context
from millgate.types import Request as ContextRequest
from millgate.types.lengths import NAME_CHARS

router = APIRouter(prefix=f"{DASHBOARD}/playground", route_class=PageRoute, include_in_schema=False)

LEFT_OUT = (
    15  # chunks that are listed of those left out, as many as `millgate context --explain` prints
)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Question = Annotated[str, Query(max_length=10_000)]
Name = Annotated[str, Query(max_length=NAME_CHARS)]


class Tried(NamedTuple):
    """A question that was tried: the sliders as they stand, and the context; None without a question."""

    sliders: Sequence[Slider]
    context: Context | None


@router.get("")
async def show_playground(
    request: Request, caller: Reader, q: Question = "", collection: Name = ""
) -> Response:
    """The form, and under it the context for the question."""
    gate = service_of(request).gate_for(caller)
    collections = await gate.acollections()
    chosen = collection or ("main" if "main" in collections else next(iter(collections), "main"))
    tried = await _try(gate, request, caller, q, chosen)
    made, changes = tried.context, changes_of(tried.sliders)
    left_out = [row for row in fate_rows(made.trace) if not row.kept] if made is not None else []
    return render(
        request,
        "playground.html",
        q=q,
        collections=collections,
        chosen=chosen,
        sliders=tried.sliders,
        # a test has the fields of a request; settings belong into the settings file
        settings={name: value for name, value in changes.items() if "." in name},
        made=made,
        block=None if made is None else read_block(made.trace, made.text, [c.id for c in made.chunks], made.token_estimate),
        left_out=left_out[:LEFT_OUT],
        more=max(0, len(left_out) - LEFT_OUT),
        test=as_toml(case_of(gate, made.trace)) if made else "",
        asked={"q": q, "collection": chosen} | changes,
    )  # fmt: skip


@router.get("/test")
async def download_test(
    request: Request, caller: Reader, q: Question, collection: Name = "main"
) -> Response:
    """The question as a test, for a file of tests."""
    gate = service_of(request).gate_for(caller)
    made = (await _try(gate, request, caller, q, collection)).context
    kept = {"cache-control": "no-store", "content-disposition": 'attachment; filename="context.toml"'}  # fmt: skip
    body = as_toml(case_of(gate, made.trace)) if made is not None else ""
    return Response(body, headers=HEADERS | kept, media_type="application/toml")


async def _try(
    gate: Millgate, request: Request, caller: Caller, query: str, collection: str
) -> Tried:
    """Build the context for a question as the sliders stand."""
    asked = ContextRequest(query, tenant=gate.tenant, collection=collection, asker=caller.key or KEYLESS)  # fmt: skip
    placed = sliders(asked, gate.settings, request.query_params)
    if not query.strip():
        return Tried(placed, None)
    return Tried(placed, await gate.atry_context(asked, changes_of(placed)))
