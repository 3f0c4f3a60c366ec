"""Candidates: what an engine of the user's own brings for a query, as a collection of these chunks alone.

The usual ranking reads them. How common a term is counts among them, so a few hundred rank well and ten do not.
"""

from millgate.calls.parts import ThreadCalls
from millgate.errors import ConfigError
from millgate.index.segment_list import absorb
from millgate.index.snapshot import SegmentSnapshot
from millgate.index.vectors import EmbedderFailed, EmbeddingCache
from millgate.protocols import Embedder, Retriever, Store
from millgate.types import Change, Chunk


class CandidateIndex:
    """Asks the engine, each time in a thread with a limit of time (calls/parts.py)."""

    def __init__(
        self, retriever: Retriever, store: Store, embedder: Embedder | None, timeout_s: float
    ) -> None:
        self._retriever, self._timeout_s = retriever, timeout_s
        self._store, self._embedder = store, embedder
        self._calls = ThreadCalls("retriever")

    def snapshot(self, tenant: str, collection: str, query: str) -> SegmentSnapshot:
        """The chunks that the engine brings, each once, in its order."""
        brought = self._calls.call(
            self._timeout_s, self._retriever.retrieve, tenant, collection, query
        )
        if not all(isinstance(chunk, Chunk) for chunk in brought):
            raise ConfigError("the retriever gave something else than chunks")
        chunks = {chunk.id: chunk for chunk in brought}
        documents = {id: n for n, id in enumerate(dict.fromkeys(c.document for c in brought))}
        seen = self._store.head(tenant, collection)
        changes = [Change(seen, id, one, documents[one.document]) for id, one in chunks.items()]
        where, degraded, lives = (self._store, tenant, collection), "", None
        if self._embedder is not None:
            try:
                lives = absorb((), changes, EmbeddingCache(*where, self._embedder))
            except EmbedderFailed as error:
                degraded = f"words rank alone: {error.message}"
        if lives is None:
            lives = absorb((), changes)
        return SegmentSnapshot(
            lives, lambda ids: [chunks[id] for id in ids if id in chunks], degraded=degraded
        )

    def close(self) -> None:
        """Wait for no call any more."""
        self._calls.close()
