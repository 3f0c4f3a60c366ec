"""Protocols: the parts that a user may replace, each as a small protocol.

`Headgate.open` takes an object of your own for each: `store` (Store), `embedder` (Embedder), `grader` (Grader),
`search` (WebSearch), `providers` (MemoryProvider), `counter` (TokenCounter) and `clock` (Clock). No base class is
needed: an object fits when it has the methods. docs/bring-your-own.md has an example of each. A Store is composed of
one small protocol per kind of thing it keeps. Postings is what ranking reads of the derived index.
"""

from headgate.protocols.posting_store import (
    BLOCK_BITS,
    Block,
    DraftRows,
    KeyLists,
    Placement,
    PostingStore,
    Totals,
)
from headgate.protocols.postings import (
    ChunkReader,
    Hits,
    NameIndex,
    Postings,
    ReadingOrder,
    Sequences,
    Spots,
    TermIndex,
    VectorIndex,
    Vocabulary,
)
from headgate.protocols.services import (
    Clock,
    Embedder,
    Grader,
    MemoryProvider,
    SharedState,
    TokenCounter,
    WebSearch,
)
from headgate.protocols.store import (
    AttachmentStore,
    ChangeFeed,
    ChunkStore,
    DocumentStore,
    EdgeStore,
    FactFeed,
    FactStore,
    KeyStore,
    ReviewStore,
    SecretStore,
    SpendStore,
    Store,
    TraceStore,
)

__all__ = [
    "BLOCK_BITS",
    "AttachmentStore",
    "Block",
    "ChangeFeed",
    "ChunkReader",
    "ChunkStore",
    "Clock",
    "DocumentStore",
    "DraftRows",
    "EdgeStore",
    "Embedder",
    "FactFeed",
    "FactStore",
    "Grader",
    "Hits",
    "KeyLists",
    "KeyStore",
    "MemoryProvider",
    "NameIndex",
    "Placement",
    "PostingStore",
    "Postings",
    "ReadingOrder",
    "ReviewStore",
    "SecretStore",
    "Sequences",
    "SharedState",
    "SpendStore",
    "Spots",
    "Store",
    "TermIndex",
    "TokenCounter",
    "Totals",
    "TraceStore",
    "VectorIndex",
    "Vocabulary",
    "WebSearch",
]
