"""Store: the collections, their documents and chunks in reading order, search, and removal after a question.

The first pages of a collection are read from the store. Later ones come through its index, which knows the reading
order of all chunks, so the last page costs little more than the first. A removal is asked for on a page of its own:
nothing goes by one click.
"""

import asyncio
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from millgate.errors import NotFound
from millgate.gateway import Millgate
from millgate.pipeline.stages.retrieve import retrieve
from millgate.service.dashboard.render import link, redirect, render
from millgate.service.dashboard.route import PageRoute, read_form
from millgate.service.edge.auth import require_scope
from millgate.service.edge.paths import DASHBOARD
from millgate.service.observe.request_state import Caller
from millgate.service.state import service_of
from millgate.types import Chunk, Size
from millgate.types.lengths import NAME_CHARS

router = APIRouter(prefix=f"{DASHBOARD}/store", route_class=PageRoute, include_in_schema=False)

Reader = Annotated[Caller, Depends(require_scope("read"))]
Writer = Annotated[Caller, Depends(require_scope("write"))]
Name = Annotated[str, Query(max_length=NAME_CHARS)]
PageNumber = Annotated[int, Query(ge=1, le=1_000_000)]

ROWS = 50  # chunks on one page
FEW = 2000  # chunks that are quickly read or indexed
PREVIEW = 400  # characters of a chunk in a list


@dataclass(frozen=True, slots=True)
class Listing:
    """Chunks to show: in reading order, or those that a search found, with their scores."""

    chunks: tuple[Chunk, ...]
    more: bool = False
    scores: tuple[float, ...] = ()
    degraded: str = ""


@dataclass(slots=True)
class DocumentPage:
    """What is shown of a document. It may have tens of thousands of chunks, so the others are counted and dropped."""

    title: str = ""
    total: int = 0
    chars: int = 0
    chunks: list[Chunk] = field(default_factory=list)


@router.get("")
async def show_collections(request: Request, caller: Reader) -> Response:
    """What the tenant has."""
    found = await service_of(request).gate_for(caller).acollections()
    return render(request, "collections.html", collections=found)


@router.get("/collection")
async def show_collection(
    request: Request,
    caller: Reader,
    name: Name,
    *,
    q: Annotated[str, Query(max_length=10_000)] = "",
    page: PageNumber = 1,
    removed: Annotated[int | None, Query(ge=0)] = None,
) -> Response:
    """The chunks of a collection, or those that fit a search."""
    gate = service_of(request).gate_for(caller)
    size = await _size(gate, name)
    if q.strip():
        listing = await asyncio.to_thread(_search, gate, name, q, wait=size.chunks <= FEW)
    else:
        listing = await asyncio.to_thread(_browse, gate, name, ROWS * (page - 1))
    return render(
        request, "collection.html",
        name=name, size=size, q=q, page=page, listing=listing, removed=removed, first=ROWS * (page - 1) + 1, preview=PREVIEW,
    )  # fmt: skip


@router.get("/document")
async def show_document(
    request: Request, caller: Reader, collection: Name, id: Name, page: PageNumber = 1
) -> Response:
    """A document: its chunks whole, in reading order."""
    service, start = service_of(request), ROWS * (page - 1)
    async with service.whole_documents:
        found = await asyncio.to_thread(
            _read_document, service.gate_for(caller), collection, id, start
        )
    return render(
        request, "document.html",
        id=id, collection=collection, chunks=found.chunks, total=found.total, page=page, more=found.total > start + ROWS,
        title=found.title, chars=found.chars,
    )  # fmt: skip


@router.get("/remove")
async def ask_removal(
    request: Request, caller: Writer, collection: Name, document: Name = "", chunk: Name = ""
) -> Response:
    """Ask whether a chunk, a document or a whole collection shall go."""
    service = service_of(request)
    gate = service.gate_for(caller)
    async with service.whole_documents:
        first, count = await asyncio.to_thread(_find, gate, collection, document, chunk)
    size = await _size(gate, collection)
    return render(
        request, "remove.html",
        collection=collection, document=document, chunk=chunk, first=first, count=count or size.chunks, preview=PREVIEW,
    )  # fmt: skip


@router.post("/remove")
async def remove(request: Request, caller: Writer) -> Response:
    """Remove what the form names."""
    form = await read_form(request)
    collection, document, chunk = (form.get(n, "") for n in ("collection", "document", "chunk"))
    gate = service_of(request).gate_for(caller)
    await _size(gate, collection)
    removed = await gate.aremove(
        collection=collection,
        documents=[document] if document and not chunk else None,
        chunks=[chunk] if chunk else None,
        everything=form.get("everything") == "yes",
    )
    if collection in await gate.acollections():
        return redirect(link("/store/collection", name=collection, removed=removed))
    return redirect(link("/store"))


async def _size(gate: Millgate, collection: str) -> Size:
    size = (await gate.acollections()).get(collection)
    if size is None:
        raise NotFound(f"there is no collection {collection!r}", hint="see the list under Store")
    return size


def _find(gate: Millgate, collection: str, document: str, chunk: str) -> tuple[Chunk | None, int]:
    """The first chunk that a removal names, and how many it names; none if it names a whole collection."""
    if not chunk:
        read = _read_document(gate, collection, document) if document else DocumentPage()
        return next(iter(read.chunks), None), read.total
    found = gate.store.chunks(gate.tenant, collection, [chunk])
    if not found:
        raise NotFound(f"there is no chunk {chunk!r} in {collection!r}")
    return found[0], len(found)


def _read_document(gate: Millgate, collection: str, id: str, start: int = 0) -> DocumentPage:
    read = DocumentPage()
    for at, chunk in enumerate(gate.scan_document(id, collection=collection)):
        read.title = read.title if at else chunk.title
        read.total += 1
        read.chars += len(chunk.text)
        if start <= at < start + ROWS:
            read.chunks.append(chunk)
    return read


def _browse(gate: Millgate, collection: str, start: int) -> Listing:
    if start + ROWS < FEW:
        scanned = gate.store.scan(gate.tenant, collection)
        read = list(islice(scanned, start, start + ROWS + 1))
        return Listing(tuple(read[:ROWS]), len(read) > ROWS)
    view = gate.index(collection, wait=False)
    _, standing = view.reading_order()
    ids = view.ids(standing[start : start + ROWS])
    return Listing(tuple(view.read(ids)), len(standing) > start + ROWS, degraded=view.degraded)


def _search(gate: Millgate, collection: str, query: str, *, wait: bool) -> Listing:
    view = gate.index(collection, wait=wait)
    found = retrieve(query, view, gate.settings.retrieve, vector=gate.embed(query)).kept
    # an id that was pasted in stands first
    named = gate.store.chunks(gate.tenant, collection, [query.strip()])
    rest = [c for c in found if c.chunk.id not in {chunk.id for chunk in named}]
    rest = rest[: ROWS - len(named)]
    chunks = (*named, *(c.chunk for c in rest))
    scores = (*(1.0 for _ in named), *(c.score for c in rest))
    return Listing(chunks, scores=scores, degraded=view.degraded)
