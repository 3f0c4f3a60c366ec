"""Find: a document, chunk, fact, trace or review by its id or the beginning of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from millgate.errors import InputError, NotFound
from millgate.gateway import Millgate
from millgate.operations.presence import did_you_mean
from millgate.text.table import clip
from millgate.types import Chunk, Fact, Review, Trace

Kind = Literal["document", "chunk", "fact", "trace", "review"]
_LISTED = 8  # things that an error lists
_SHORTEST = 2  # characters that may stand for a whole id


@dataclass(frozen=True, slots=True)
class Match:
    """What has an id: its kind, where it is, and itself; a document is its chunks in reading order."""

    kind: Kind
    id: str
    collection: str = ""
    value: tuple[Chunk, ...] | Fact | Trace | Review | None = None


def find(gate: Millgate, id: str) -> Match:
    """The one thing that has this id, or whose id begins so; an error that lists them if there are several."""
    found = list(_exact(gate, id)) or (list(_begin(gate, id)) if len(id) >= _SHORTEST else [])
    if not found:
        known = [name for c in gate.collections() for name in gate.store.digests(gate.tenant, c)]
        meant = did_you_mean(id, known[:20_000])
        raise NotFound(
            f"nothing has the id {clip(id, 80)!r}", hint=f"{meant}see: millgate store list"
        )
    if len(found) > 1:
        names = [f"{one.kind} {one.id}" + (f" in {one.collection}" if one.collection else "") for one in found]  # fmt: skip
        rest = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        raise InputError(
            f"{clip(id, 80)!r} stands for {len(names)} things",
            hint=f"one of: {', '.join(names[:_LISTED])}{rest}",
        )
    return _load(gate, found[0])


def _exact(gate: Millgate, id: str) -> Iterator[Match]:
    store, tenant = gate.store, gate.tenant
    for collection in gate.collections():
        if store.digests(tenant, collection, [id]):
            yield Match("document", id, collection)
        elif store.chunks(tenant, collection, [id]):
            yield Match("chunk", id, collection)
    if store.fact(tenant, id):
        yield Match("fact", id)
    if store.trace(tenant, id):
        yield Match("trace", id)
    if store.review(tenant, id):
        yield Match("review", id)


def _begin(gate: Millgate, id: str) -> Iterator[Match]:
    """What has an id that begins so. Chunks are named after their documents, so only those are looked through."""
    store, tenant = gate.store, gate.tenant
    for collection in gate.collections():
        for name in store.digests(tenant, collection):
            if name.startswith(id):
                yield Match("document", name, collection)
            elif id.startswith(f"{name}#"):
                chunks = store.scan(tenant, collection, document=name)
                yield from (Match("chunk", c.id, collection) for c in chunks if c.id.startswith(id))
    yield from (Match("fact", f.id) for f in store.facts(tenant) if f.id.startswith(id))
    traces = gate.traces(limit=gate.settings.trace.keep)
    yield from (Match("trace", t.id) for t in traces if t.id.startswith(id))
    yield from (Match("review", r.id) for r in store.reviews(tenant) if r.id.startswith(id))


def _load(gate: Millgate, found: Match) -> Match:
    """A match together with the value it stands for."""
    store, tenant, id = gate.store, gate.tenant, found.id
    value: tuple[Chunk, ...] | Fact | Trace | Review | None
    match found.kind:
        case "document":
            value = tuple(store.scan(tenant, found.collection, document=id))
        case "chunk":
            value = tuple(store.chunks(tenant, found.collection, [id]))
        case "fact":
            value = store.fact(tenant, id)
        case "trace":
            value = store.trace(tenant, id)
        case "review":
            value = store.review(tenant, id)
    return Match(found.kind, id, found.collection, value)
