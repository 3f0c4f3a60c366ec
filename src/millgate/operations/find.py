"""Find: a document, chunk, fact, trace or review by its id or the beginning of it."""

from collections.abc import Iterator
from dataclasses import dataclass

from millgate.errors import InputError, NotFound
from millgate.gateway import Millgate
from millgate.operations.presence import did_you_mean, enumerate_names
from millgate.text.table import clip
from millgate.types import Chunk, Fact, Review, Trace

_SHORTEST = 2  # characters that may stand for a whole id


@dataclass(frozen=True, slots=True)
class Match:
    """What has an id: its kind, where it is, and itself; a document is its chunks in reading order."""

    kind: str
    id: str
    collection: str
    value: tuple[Chunk, ...] | Fact | Trace | Review

    def __str__(self) -> str:
        return f"{self.kind} {self.id}" + (f" in {self.collection}" if self.collection else "")


def find(gate: Millgate, id: str) -> Match:
    """The one thing that has this id, or whose id begins so; an error that lists them if there are several."""
    found = list(_exact(gate, id))
    if not found and len(id) >= _SHORTEST:
        names = dict.fromkeys(_begin(gate, id))
        found = [match for name in names for match in _exact(gate, name)]
    if not found:
        known = [name for c in gate.collections() for name in gate.store.digests(gate.tenant, c)]
        meant = did_you_mean(id, known[:20_000])
        raise NotFound(
            f"nothing has the id {clip(id, 80)!r}", hint=f"{meant}see: millgate store list"
        )
    if len(found) > 1:
        raise InputError(
            f"{clip(id, 80)!r} stands for {len(found)} things",
            hint=f"one of: {enumerate_names([str(one) for one in found])}",
        )
    return found[0]


def _exact(gate: Millgate, id: str) -> Iterator[Match]:
    store, tenant = gate.store, gate.tenant
    for collection in gate.collections():
        if chunks := tuple(store.scan(tenant, collection, document=id)):
            yield Match("document", id, collection, chunks)
        elif chunks := tuple(store.chunks(tenant, collection, [id])):
            yield Match("chunk", id, collection, chunks)
    one: Fact | Trace | Review | None
    for kind, one in (
        ("fact", store.fact(tenant, id)),
        ("trace", store.trace(tenant, id)),
        ("review", store.review(tenant, id)),
    ):
        if one is not None:
            yield Match(kind, id, "", one)


def _begin(gate: Millgate, id: str) -> Iterator[str]:
    """The ids that begin so. Chunks are named after their documents, so only those are looked through."""
    store, tenant = gate.store, gate.tenant
    for collection in gate.collections():
        for name in store.digests(tenant, collection):
            if name.startswith(id):
                yield name
            elif id.startswith(f"{name}#"):
                chunks = store.scan(tenant, collection, document=name)
                yield from (chunk.id for chunk in chunks if chunk.id.startswith(id))
    yield from (fact.id for fact in store.facts(tenant) if fact.id.startswith(id))
    traces = gate.traces(limit=gate.settings.trace.keep)
    yield from (trace.id for trace in traces if trace.id.startswith(id))
    yield from (review.id for review in store.reviews(tenant) if review.id.startswith(id))
