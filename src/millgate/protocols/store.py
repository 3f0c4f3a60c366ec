"""A store: everything that must not be lost, as one small protocol per kind of thing it keeps.

Every call names the tenant first. Stores are synchronous and safe to use from many threads. `Store` is what every store
has. The protocols after it are abilities that a store may have: Millgate asks with isinstance, and does without the
ability if the store lacks it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from millgate.types import (
    Attachment,
    Change,
    Chunk,
    Document,
    Edge,
    Fact,
    FactChange,
    Key,
    Review,
    Secret,
    Size,
    Spend,
    SpendScope,
    Trace,
    TraceSummary,
)


class DocumentStore(Protocol):
    """Documents and their chunks.

    `put` is one transaction: each document replaces its former self whole, keeping its place in reading
    order, and only chunks that differ reach the change feed; it returns how many did. `attachments` are bytes
    computed from these chunks' texts, written with them; those for other chunks are left out. `amend_chunks` reads,
    changes and writes the chunks with these ids as a single step, and touches nothing else of their documents; it
    returns how many differ. `remove` without
    names empties the collection; it returns how many chunks went. A document that lost a chunk this way
    loses its digest too, and one that lost all of them is gone.
    """

    def put(
        self, tenant: str, documents: Sequence[Document], *, attachments: Iterable[Attachment] = ()
    ) -> int: ...
    def amend_chunks(
        self, tenant: str, collection: str, ids: Sequence[str], change: Callable[[Chunk], Chunk]
    ) -> int: ...
    def remove(
        self,
        tenant: str,
        collection: str,
        *,
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int: ...
    def digests(
        self, tenant: str, collection: str, ids: Sequence[str] | None = None
    ) -> Mapping[str, str]: ...
    def collections(self, tenant: str) -> Mapping[str, Size]: ...
    def size(self, tenant: str, collection: str) -> Size: ...


class ChunkStore(Protocol):
    """Reading chunks: by id (in the order asked, unknown ids left out), or in reading order."""

    def chunks(self, tenant: str, collection: str, ids: Sequence[str]) -> list[Chunk]: ...
    def scan(
        self, tenant: str, collection: str, *, document: str | None = None
    ) -> Iterable[Chunk]: ...


class ChangeFeed(Protocol):
    """The change feed that derived indexes follow: `head` is the last change, `changes` what came after one.

    A chunk stands in the feed once, at its last change, and a removed one as its removal; seq only grows.
    `mark_index` notes the mark under which an index is about to be saved, beside the mark it had before; `index_marks`
    gives both. An index whose mark is not among them was made from another store, or from a later state of this one.
    """

    def head(self, tenant: str, collection: str) -> int: ...
    def changes(
        self, tenant: str, collection: str, after: int, limit: int = 10_000
    ) -> list[Change]: ...
    def index_marks(self, tenant: str, collection: str) -> tuple[str, ...]: ...
    def mark_index(self, tenant: str, collection: str, mark: str, *, former: str) -> None: ...


class AttachmentStore(Protocol):
    """Bytes computed once per chunk text and kept beside it: fingerprints and embeddings, by kind.

    `kind` names format and version ("fingerprint/1", "embedding/minilm-l6/384"). Bytes go when their chunk
    goes or its title or text changes. With `seen`, chunks that changed after that point of the feed get
    nothing, so that bytes of an older text never meet a newer one; it returns how many were attached.
    """

    def attach(
        self,
        tenant: str,
        collection: str,
        kind: str,
        values: Mapping[str, bytes],
        *,
        seen: int | None = None,
    ) -> int: ...
    def attachments(
        self, tenant: str, collection: str, kind: str, ids: Sequence[str]
    ) -> dict[str, bytes]: ...
    def kinds(self, tenant: str, collection: str) -> Mapping[str, int]: ...


class EdgeStore(Protocol):
    """Knowledge edges, one per (source, predicate, target) as spelled; linking again sets weight and provenance.

    Names of nodes are compared without case (`types.node_key`), in `edges_touching` and in `unlink`.
    `edges_touching` gives those that leave ("out"), enter ("in") or touch ("both") any of the nodes, strongest first,
    ties by source, predicate, target. `limit` holds for each node and direction, so that a hub of a million
    edges neither costs its size nor crowds the others out; an edge between two of the nodes comes once.
    A request asks `has_edges` first: most tenants have none.
    """

    def link(self, tenant: str, edges: Sequence[Edge]) -> int: ...
    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int: ...
    def has_edges(self, tenant: str) -> bool: ...
    def edges_touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]: ...


class FactFeed(Protocol):
    """Reading remembered facts: one, all, or what changed.

    `fact_changes` is the feed that a fact index follows: what was saved, amended or forgotten after a point,
    each fact once, at its last change, oldest first.
    """

    def fact(self, tenant: str, id: str) -> Fact | None: ...
    def facts(self, tenant: str) -> list[Fact]: ...
    def fact_changes(self, tenant: str, after: int) -> list[FactChange]: ...


class FactStore(FactFeed, Protocol):
    """Remembered facts, unique by `Fact.key` within a tenant: saving a repeated one gives the existing fact.

    `amend_fact` reads, changes and writes one fact as a single step, so that no feedback is lost between
    two writers.
    """

    def save_fact(self, tenant: str, fact: Fact) -> Fact: ...
    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None: ...
    def forget(self, tenant: str, id: str) -> bool: ...


class SecretStore(Protocol):
    """A tenant's signing secrets. `secret` is the one in use, made at first need and never lost.

    `rotate` makes a new one and lets the former be read until `expires` (seconds since the epoch);
    `secrets` gives all that were not removed, the one in use first, expired ones included.
    """

    def secret(self, tenant: str) -> bytes: ...
    def secrets(self, tenant: str) -> list[Secret]: ...
    def rotate(self, tenant: str, *, expires: float) -> Secret: ...


class ReviewStore(Protocol):
    """The human review queue. `decide` moves a pending review once; a second decision changes nothing.

    The store writes what follows from a decision in the same transaction: `fact` is saved, or, if the tenant knows it
    already, the known one is amended; so are the facts of `ids` that are there.
    `save_review` returns False, and saves nothing, if `most` others are pending already. With `patience_s` it waits
    no longer than that for other writers, and raises NotReady.
    """

    def save_review(
        self,
        tenant: str,
        review: Review,
        *,
        most: int | None = None,
        patience_s: float | None = None,
    ) -> bool: ...
    def review(self, tenant: str, id: str) -> Review | None: ...
    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]: ...
    def decide(
        self,
        tenant: str,
        review: Review,
        *,
        fact: Fact | None = None,
        ids: Sequence[str] = (),
        amend: Callable[[Fact], Fact] = lambda fact: fact,
    ) -> bool: ...


class TraceStore(Protocol):
    """Stored traces, at most `keep` of a tenant; `traces` lists their summaries, newest first.

    Of candidates beyond the first twenty only the last note is kept, and a text that the store holds is read from it
    again: that of a chunk which changed since may be missing. With `text` off neither query, window nor chunk text
    is kept. `prune_traces` deletes what is too old, too many, or beyond the bytes that each tenant has; it answers how
    many went.
    """

    def save_trace(
        self,
        trace: Trace,
        *,
        keep: int = 10_000,
        text: bool = True,
    ) -> None: ...
    def trace(self, tenant: str, id: str) -> Trace | None: ...
    def traces(self, tenant: str, *, limit: int = 100) -> list[TraceSummary]: ...
    def prune_traces(
        self, *, keep: int, age_s: float | None = None, max_bytes: int | None = None
    ) -> int: ...


class KeyStore(Protocol):
    """API keys. They say whose a request is, so they alone are found without a tenant: by their hash.

    `save_key` refuses an id or a hash that is taken. `keys` gives all, or one tenant's, oldest first, revoked
    ones included. `revoke` marks a key once; it returns whether there was one to mark.
    """

    def save_key(self, key: Key) -> None: ...
    def key(self, digest: str) -> Key | None: ...
    def keys(self, tenant: str | None = None) -> list[Key]: ...
    def revoke(self, tenant: str, id: str) -> bool: ...


class SpendStore(Protocol):
    """What sessions, keys and tenants have spent.

    `amend_spends` reads several rows, changes and writes them as a single step, so that nothing is lost or let through
    between two workers; a row that is not there yet begins at zero. `spends` gives those used last first.
    `forget_spends` removes sessions that were idle since then; it returns how many.
    """

    def amend_spends(
        self,
        tenant: str,
        names: Sequence[tuple[SpendScope, str]],
        change: Callable[[list[Spend]], list[Spend]],
    ) -> list[Spend]: ...
    def spends(
        self, tenant: str, *, scope: SpendScope | None = None, limit: int = 100
    ) -> list[Spend]: ...
    def forget_spends(self, tenant: str, *, idle_since: float) -> int: ...


class Store(
    DocumentStore,
    ChunkStore,
    ChangeFeed,
    AttachmentStore,
    EdgeStore,
    FactStore,
    SecretStore,
    ReviewStore,
    TraceStore,
    KeyStore,
    SpendStore,
    Protocol,
):
    """Everything that must not be lost. `millgate.testing.StoreContract` checks an implementation."""

    def close(self) -> None: ...


@runtime_checkable
class ReadOnlyStore(Protocol):
    """A store that can say that it takes no writes: Millgate then keeps no traces in it. Others take writes."""

    @property
    def read_only(self) -> bool: ...


@runtime_checkable
class TraceBatchStore(Protocol):
    """A store that saves several traces in one transaction; in others they are saved one by one."""

    def save_traces(
        self, traces: Sequence[Trace], *, keep: int = 10_000, text: bool = True
    ) -> None: ...


@runtime_checkable
class TenantListStore(Protocol):
    """A store that can name its tenants; in others what is old goes of the tenant that opened it alone."""

    def tenants(self) -> list[str]: ...


@runtime_checkable
class TenantTraceStore(Protocol):
    """A store that prunes the traces of one tenant alone; in others those of all tenants are pruned each time."""

    def prune_tenant_traces(
        self, tenant: str, *, keep: int, max_bytes: int | None = None
    ) -> int: ...


@runtime_checkable
class SharedUpkeepStore(Protocol):
    """A store whose gateways take turns at pruning the traces of all tenants.

    `lease_upkeep` gives the turn to one of them, if none had it for so many seconds: it answers the time by which the
    age of traces counts, None if it is not this one's turn. With 0 seconds the one that has it keeps it.
    """

    def tenants(self) -> list[str]: ...
    def lease_upkeep(self, seconds: float) -> float | None: ...
    def prune_tenant_traces(
        self,
        tenant: str,
        *,
        keep: int,
        created_after: float | None = None,
        max_bytes: int | None = None,
    ) -> int: ...


@runtime_checkable
class ClusterStore(Protocol):
    """A store that may lie on several servers, of which one takes all calls.

    `ping` asks that one whether it can serve, and raises what is wrong. `unreachable_workers` names the others that do
    not answer, if the rows are there (`is_distributed`). `local_tables` are those that a cluster could spread and does
    not.
    """

    is_distributed: bool

    def ping(self) -> None: ...
    def local_tables(self) -> Sequence[str]: ...
    def unreachable_workers(self) -> list[str]: ...


@runtime_checkable
class RequestScopedStore(Protocol):
    """A store that wants to know which reads belong to one request, so that it can read ahead.

    All that is read inside `one_request`, also by threads that the request starts, belongs to one request.
    """

    def one_request(self) -> AbstractContextManager[None]: ...


@runtime_checkable
class SharedState(Protocol):
    """A store in which gateways on several machines share what they count and remember beside its records.

    `take_request` takes one request out of a bucket that fills at `per_second` up to `burst`, and answers how many
    seconds to wait if there was none. `remember` keeps a value under a key, unless there is one that it does not
    `replace`, and answers the one that stays; values go after some weeks. `recall` gives the values of those keys that
    have one.
    """

    def take_request(self, tenant: str, key: str, *, per_second: float, burst: float) -> float: ...
    def remember(
        self, tenant: str, key: bytes, value: bytes, *, replace: bool = False
    ) -> bytes: ...
    def recall(self, tenant: str, keys: Sequence[bytes]) -> dict[bytes, bytes]: ...
