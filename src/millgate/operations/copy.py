"""Copy: all of a store into another, between SQLite and PostgreSQL in either direction, and proof that it arrived.

Documents go in reading order, with what is attached to them; then edges, facts, reviews, secrets, spends, keys and
traces. Each batch is one transaction and a batch that is there already is skipped, so a copy that was stopped goes on
where it was when it is started again. At the end both stores are read through and compared, kind by kind: how many
there are, and a checksum of them all. What is derived (indexes) is made anew.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Protocol

from millgate.protocols import Store
from millgate.stores.codec import encode
from millgate.types import Attachment, Document, Edge, Fact, Record, Review, Secret, Spend

_BATCH = 1_000  # chunks, or edges, written in one transaction
_ALL = 2**31  # more traces and spends than any tenant has

OnChunks = Callable[[int, int, str], None]
"""Is told how many chunks are through, how many there are, and what is being done."""


class WholeStore(Store, Protocol):
    """A store that can be read and written as a whole."""

    @property
    def id(self) -> str:
        """What tells this store from every other, however its address was written."""

    def tenants(self) -> list[str]:
        """Every tenant that has anything."""

    def records(self, tenant: str | None = None) -> Iterator[Record]:
        """Every document, edge, fact and review, documents in reading order."""

    def put_secrets(self, tenant: str, secrets: list[Secret]) -> None:
        """Let a tenant have these secrets and no others."""


KindSum = tuple[int, int]
"""How many there are of a kind, and a checksum that no order changes."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One kind of one tenant in both stores: how many each has, and whether they are the same."""

    tenant: str
    kind: str
    source: int
    target: int
    equal: bool


def copy_store(
    source: WholeStore,
    target: WholeStore,
    *,
    traces: bool = True,
    on_chunks: OnChunks = lambda done, total, what: None,
) -> list[Comparison]:
    """Copy everything and compare both stores; what stands in the target already under the same name is replaced."""
    tenants = source.tenants()
    total = sum(size.chunks for name in tenants for size in source.collections(name).values())
    done = 0
    for tenant in tenants:
        for batch in _batches(source.records(tenant)):
            _write(source, target, tenant, batch)
            done += sum(len(item.chunks) for item in batch if isinstance(item, Document))
            on_chunks(done, total, "copying chunks")
        _copy_state(source, target, tenant)
        if traces:
            _copy_traces(source, target, tenant)
    found = []
    for number, tenant in enumerate(tenants, 1):
        found += compare(source, target, tenant, traces=traces)
        on_chunks(total * number // len(tenants), total, "comparing chunks")
    return found


def compare(
    source: WholeStore, target: WholeStore, tenant: str, *, traces: bool = True
) -> list[Comparison]:
    """Every kind that either store holds of a tenant, in both."""
    one, two = tally(source, tenant, traces=traces), tally(target, tenant, traces=traces)
    found = []
    for kind in dict.fromkeys((*one, *two)):
        here, there = one.get(kind, (0, 0)), two.get(kind, (0, 0))
        found.append(Comparison(tenant, kind, here[0], there[0], here == there))
    return found


def tally(store: WholeStore, tenant: str, *, traces: bool = True) -> dict[str, KindSum]:
    """How much of each kind a store holds of a tenant."""
    found: dict[str, KindSum] = {}
    for kind, value in chain(
        _read_written(store, tenant), _read_kept(store, tenant, traces=traces)
    ):
        digest = blake2b(encode(value).encode(), digest_size=8).digest()
        count, checksum = found.get(kind, (0, 0))
        found[kind] = count + 1, (checksum + int.from_bytes(digest, "big")) % 2**64
    return found


def _read_written(store: WholeStore, tenant: str) -> Iterator[tuple[str, object]]:
    """What people wrote, by kind, with its attachments."""
    places: dict[str, int] = {}
    for batch in _batches(store.records(tenant)):
        for item in batch:
            if isinstance(item, Document):  # reading order is part of what is compared
                place = places[item.collection] = places.get(item.collection, 0) + 1
                yield "documents", (place, item)
                yield from (("chunks", chunk) for chunk in item.chunks)
            else:
                yield f"{type(item).__name__.lower()}s", item
        for attachment in _attachments(store, tenant, batch):
            yield "attachments", (*attachment[:3], attachment.value.hex())


def _read_kept(store: WholeStore, tenant: str, *, traces: bool) -> Iterator[tuple[str, object]]:
    """What the gateway keeps for itself, by kind."""
    for secret in store.secrets(tenant):
        yield "secrets", (secret.key.hex(), secret.created, secret.expires)
    yield from (("keys", key) for key in store.keys(tenant))
    yield from (("spends", spend) for spend in store.spends(tenant, limit=_ALL))
    if traces:
        yield from (("traces", summary) for summary in store.traces(tenant, limit=_ALL))


Item = Document | Edge | Fact | Review


def _batches(records: Iterator[Record]) -> Iterator[list[Item]]:
    batch: list[Item] = []
    size = 0
    for _, _, item in records:
        batch.append(item)
        size += max(1, len(item.chunks)) if isinstance(item, Document) else 1
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _write(source: WholeStore, target: WholeStore, tenant: str, batch: list[Item]) -> None:
    documents = [item for item in batch if isinstance(item, Document)]
    if not _are_there(target, tenant, documents):
        target.put(tenant, documents, attachments=_attachments(source, tenant, documents))
    write_records(target, tenant, batch)


def write_records(target: Store, tenant: str, records: Sequence[Item]) -> None:
    """Write edges, facts and reviews; a review that was decided in the target stays as it is."""
    target.link(tenant, [item for item in records if isinstance(item, Edge)])
    for item in records:
        if isinstance(item, Fact) and target.fact(tenant, item.id) != item:
            target.save_fact(tenant, item)
        elif isinstance(item, Review):
            held = target.review(tenant, item.id)
            if held is None or (held.status == item.status == "pending"):
                target.save_review(tenant, item)
            elif held.status == "pending":
                target.decide(tenant, item)


def _are_there(target: WholeStore, tenant: str, documents: list[Document]) -> bool:
    """Whether the target has all of these; the digest tells, as it is written together with the document."""
    held = {
        name: target.digests(tenant, name, [d.id for d in documents if d.collection == name])
        for name in {document.collection for document in documents}
    }
    return all(d.digest and held[d.collection].get(d.id) == d.digest for d in documents)


def _attachments(store: Store, tenant: str, items: list[Item] | list[Document]) -> list[Attachment]:
    ids: dict[str, list[str]] = {}
    for item in items:
        if isinstance(item, Document):
            ids.setdefault(item.collection, []).extend(chunk.id for chunk in item.chunks)
    return [
        Attachment(collection, id, kind, value)
        for collection, some in ids.items()
        for kind in store.kinds(tenant, collection)
        for id, value in store.attachments(tenant, collection, kind, some).items()
    ]


def _copy_state(source: WholeStore, target: WholeStore, tenant: str) -> None:
    """Copy secrets, keys and spends; they are few rows, so they are written each time."""
    target.put_secrets(tenant, source.secrets(tenant))
    for key in source.keys(tenant):
        if target.key(key.digest) is None:
            target.save_key(key)
    spends = source.spends(tenant, limit=_ALL)

    def replace(_: list[Spend]) -> list[Spend]:
        return spends

    if spends:
        target.amend_spends(tenant, [(row.scope, row.name) for row in spends], replace)


def _copy_traces(source: WholeStore, target: WholeStore, tenant: str) -> None:
    """Copy traces, the oldest first, so that they keep their order."""
    there = {summary.id for summary in target.traces(tenant, limit=_ALL)}
    for summary in reversed(source.traces(tenant, limit=_ALL)):
        if summary.id not in there and (trace := source.trace(tenant, summary.id)):
            target.save_trace(trace, keep=_ALL)
