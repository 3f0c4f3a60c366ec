"""Embed: compute the embeddings that the chunks of a store lack, before anybody asks.

A PostgreSQL store hands out parts of the work (stores/postgres/embedding_work.py): start as many workers as you like,
on as many machines. In any other store one process goes through the feed. Either way what is done is kept, so that a
run which was stopped goes on where it was. If a collection is narrowed in the database, its postings and the
neighbor graph of its vectors are made too.
"""

import time
from collections.abc import Callable

from millgate.index.large.narrowed import NarrowedCollection
from millgate.index.vectors import BATCH, EmbeddingCache
from millgate.operations.copy import WholeStore
from millgate.protocols import Embedder, EmbeddingWorkStore, VectorGraphStore

_POLL_S = 0.5  # between looks at parts that other workers hold

OnChunks = Callable[[int, int], None]
"""Is told how many chunks are through, and how many there are."""


def embed_store(
    store: WholeStore,
    embedder: Embedder,
    *,
    collection: str | None = None,
    on_chunks: OnChunks = lambda done, total: None,
) -> int:
    """Embed what lacks it, of every tenant; how many embeddings this process made.

    It returns when nothing is lacking, so it waits for parts that other workers hold, and does those of workers that
    die.
    """
    made = 0
    for tenant, name in _places(store, collection):
        cache = EmbeddingCache(store, tenant, name, embedder)
        if isinstance(store, EmbeddingWorkStore):
            made += _share(store, tenant, name, cache, on_chunks)
        else:
            made += _embed_alone(store, tenant, name, cache, on_chunks)
    return made


def build_graphs(
    store: WholeStore, embedder: Embedder, *, max_chunks: int, collection: str | None = None
) -> int:
    """Make the neighbor graphs of collections that are narrowed, with more chunks than this; how many were made.

    StoreError says what a database lacks for it.
    """
    if not isinstance(store, VectorGraphStore):
        return 0
    made = 0
    for tenant, name in _places(store, collection):
        if store.size(tenant, name).chunks <= max_chunks:
            continue
        narrowed = NarrowedCollection(store, tenant, name, embedder=embedder)
        while not narrowed.follow_batch():
            pass
        made += store.build_graph(tenant, name, EmbeddingCache(store, tenant, name, embedder).kind)
    return made


def _places(store: WholeStore, collection: str | None) -> list[tuple[str, str]]:
    return [
        (tenant, name)
        for tenant in store.tenants()
        for name in store.collections(tenant)
        if collection in (None, name)
    ]


def _share(
    store: EmbeddingWorkStore, tenant: str, name: str, cache: EmbeddingCache, on_chunks: OnChunks
) -> int:
    """Do parts until no process holds one and no chunk lacks its embedding; how many were made here."""
    here, made = (tenant, name, cache.kind), 0
    while total := store.offer_embeddings(*here):
        on_chunks(0, total)
        while left := store.embeddings_left(*here):
            on_chunks(max(total - left, 0), total)
            done = store.embed_part(*here, cache.compute)
            if done is None:
                time.sleep(_POLL_S)
            made += done or 0
        on_chunks(total, total)
    return made


def _embed_alone(
    store: WholeStore, tenant: str, name: str, cache: EmbeddingCache, on_chunks: OnChunks
) -> int:
    """Go through the change feed once, batch by batch; how many embeddings were made."""
    made = done = seen = 0
    total = store.size(tenant, name).chunks
    while changes := store.changes(tenant, name, seen, BATCH):
        seen = changes[-1].seq
        chunks = [change.chunk for change in changes if change.chunk is not None]
        made += cache.add_missing(chunks, seen)
        done += len(chunks)
        on_chunks(min(done, total), total)
    return made
