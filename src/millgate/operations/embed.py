"""Embed: compute the embeddings that the chunks of a store lack, before anybody asks.

What is done is kept, so that a run which was stopped goes on where it was.
"""

from collections.abc import Callable

from millgate.index.vectors import BATCH, EmbeddingCache
from millgate.operations.copy import WholeStore
from millgate.protocols import Embedder

OnChunks = Callable[[int, int], None]
"""Is told how many chunks are through, and how many there are."""


def embed_store(
    store: WholeStore,
    embedder: Embedder,
    *,
    collection: str | None = None,
    on_chunks: OnChunks = lambda done, total: None,
) -> int:
    """Embed what lacks it, of every tenant; how many embeddings were made."""
    made = 0
    for tenant in store.tenants():
        for name in store.collections(tenant):
            if collection in (None, name):
                made += _embed_collection(store, tenant, name, embedder, on_chunks)
    return made


def _embed_collection(
    store: WholeStore, tenant: str, name: str, embedder: Embedder, on_chunks: OnChunks
) -> int:
    """Go through the change feed once, batch by batch; how many embeddings were made."""
    cache = EmbeddingCache(store, tenant, name, embedder)
    done = seen = 0
    total = store.size(tenant, name).chunks
    while changes := store.changes(tenant, name, seen, BATCH):
        seen = changes[-1].seq
        chunks = [change.chunk for change in changes if change.chunk is not None]
        cache.rows_of(chunks, seen)
        done += len(chunks)
        on_chunks(min(done, total), total)
    return cache.made
