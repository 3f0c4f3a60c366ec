"""Requests: the last ones, live, with filters and search.

Without a filter only the rows shown are read. With one, the newest five thousand are read and filtered here, which
takes about 60 ms; the page says so if there are more.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from millgate.service.dashboard.render import render
from millgate.service.dashboard.route import PageRoute
from millgate.service.dashboard.words import looped
from millgate.service.edge.paths import DASHBOARD
from millgate.service.routes.api import ReadGate
from millgate.types import TraceSummary
from millgate.types.lengths import NAME_CHARS

router = APIRouter(prefix=f"{DASHBOARD}/requests", route_class=PageRoute, include_in_schema=False)


ROWS = 50  # on one page
SEARCHED = 5_000  # rows that a filter looks through, newest first

Kind = Literal["", "context", "call", "skipped", "degraded", "cut"]
KINDS: Final[Mapping[Kind, Callable[[TraceSummary], bool]]] = {
    "": lambda _: True,
    "context": lambda row: not row.outcome,
    "call": lambda row: bool(row.outcome),
    "skipped": lambda row: row.skip and not row.outcome,
    "degraded": lambda row: bool(row.degraded),
    "cut": looped,
}


class Filter(BaseModel):
    """What is asked for; empty fields let everything through."""

    q: str = Field("", max_length=NAME_CHARS)
    session: str = Field("", max_length=NAME_CHARS)
    collection: str = Field("", max_length=NAME_CHARS)
    kind: Kind = ""

    def matches(self, row: TraceSummary) -> bool:
        """Whether a row is asked for: every word of `q` stands in its query, id or session."""
        if self.session and row.session != self.session:
            return False
        if self.collection and self.collection not in row.collection.split(", "):
            return False
        text = f"{row.query} {row.id} {row.session}".casefold()
        return KINDS[self.kind](row) and all(word in text for word in self.q.casefold().split())


class Listing(Filter):
    """A filter, and which page of what it lets through."""

    page: int = Field(1, ge=1, le=10_000)


@router.get("")
async def show_requests(
    request: Request, gate: ReadGate, listing: Annotated[Listing, Query()]
) -> Response:
    """The requests that a filter lets through, newest first."""
    asked = listing.model_dump(exclude={"page"})
    filtered = any(asked.values())
    last = ROWS * listing.page
    rows = await gate.atraces(limit=SEARCHED if filtered else last + 1)
    found = [row for row in rows if listing.matches(row)]
    return render(
        request,
        "requests.html",
        rows=found[last - ROWS : last],
        asked=asked,
        filtered=filtered,
        total=len(found),
        page=listing.page,
        more=len(found) > last,
        searched=SEARCHED if filtered and len(rows) == SEARCHED else 0,
    )
