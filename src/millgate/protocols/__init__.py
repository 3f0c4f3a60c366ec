"""Everything that a user can replace or add: its protocol, how it is handed in, and an example.

    part       protocol                                  handed in as
    store      Store                                     Millgate.open(store=...), or the setting store
    embedder   Embedder                                  Millgate.open(embedder=...), or the settings embed.*
    grader     Grader                                    Millgate.open(grader=...), or the settings grader.*
    search     WebSearch                                 Millgate.open(search=...), or the settings search.*
    retriever  Retriever                                 Millgate.open(retriever=...)
    provider   MemoryProvider                            Millgate.open(providers=[...]), or entry points millgate.memory
    counter    TokenCounter                              Millgate.open(counter=...), or the setting tokens
    clock      Clock                                     Millgate.open(clock=...)
    detector   millgate.guard.Detector                   Guard(generate, detector=...), or the setting guard.detector
    dialect    millgate.guard.dialects.dialect.Dialect   entry points millgate.dialects
    prices     millgate.spending.prices.Price                     the setting prices

No part but a dialect needs a base class: an object fits if it has the members of its protocol. An object that is
handed in replaces the one that the settings name. The other protocols here are what our own parts read of each
other: the postings of the index, and abilities that a store may have beyond Store (store.py).

>>> import numpy as np
>>> from millgate import Chunk, Guard, Millgate
>>> rows = [{"id": "tide", "text": "The tide turns at six."}, {"id": "boat", "text": "The boat leaves at six."}]

A store keeps everything that must not be lost. millgate.testing.StoreContract is the test suite that ours pass.

>>> from millgate.stores.temporary import TemporaryStore
>>> class AuditedStore(TemporaryStore):
...     def put(self, tenant, documents, **options):
...         print(tenant, "writes", [document.id for document in documents])
...         return super().put(tenant, documents, **options)
>>> with Millgate.open(store=AuditedStore()) as gate:
...     added = gate.add(rows)
default writes ['tide', 'boat']

An embedder turns texts into unit vectors. Its name goes into the index, so that vectors of two models never meet.

>>> class LetterEmbedder:
...     name, dimension = "letters", 26
...     def embed(self, texts):
...         counts = np.array([[1 + text.count(chr(97 + n)) for n in range(26)] for text in texts], np.float32)
...         return counts / np.linalg.norm(counts, axis=1, keepdims=True)
>>> with Millgate.open(":memory:", embedder=LetterEmbedder()) as gate:
...     print(gate.embed("tide").shape)
(26,)

A grader says how likely each candidate helps to answer the query. One that also has `bands` says where its confidences
divide.

>>> class TideGrader:
...     async def grade(self, query, candidates):
...         return [1.0 if "tide" in candidate.chunk.text else 0.0 for candidate in candidates]
>>> with Millgate.open(":memory:", grader=TideGrader()) as gate:
...     added = gate.add(rows)
...     print([chunk.id for chunk in gate.context("what happens at six?", budget=100).chunks])
['tide']

A search is asked if the collection does not know. What it finds is untrusted and carries its address.

>>> class Almanac:
...     async def search(self, query, *, limit):
...         page = "https://example.org/moon"
...         return [Chunk("moon", "The moon moves the sea.", document=page, source="web")][:limit]
>>> with Millgate.open(":memory:", search=Almanac()) as gate:
...     print(gate.context("what moves the sea?", budget=100).sources)
('https://example.org/moon',)

A retriever is an engine that holds a collection too large to be indexed here. It brings the chunks that may answer, and
they are ranked, cut and packed as always.

>>> class Harbor:
...     def retrieve(self, tenant, collection, query):
...         return [Chunk(row["id"], row["text"]) for row in rows if "tide" in query]
>>> with Millgate.open(":memory:", retriever=Harbor()) as gate:
...     print(gate.context("when does the tide turn?", budget=100).chunks[0].id)
tide

A memory provider is another memory that answers in text. A package offers its own under the entry-point group
millgate.memory: each entry names a class or function that makes a provider without arguments.

>>> class Diary:
...     name = "diary"
...     def is_available(self): return True
...     def prefetch(self, query, *, session_id="", limit=None, min_trust=None): return "- deploys go out on Fridays"
>>> with Millgate.open(":memory:", providers=[Diary()]) as gate:
...     print("Fridays" in gate.context("when do deploys go out?", budget=100).text)
True

A counter counts tokens for budgets. A clock dates facts, traces, reviews, keys and turns.

>>> def count_words(text): return len(text.split())
>>> with Millgate.open(":memory:", counter=count_words, clock=lambda: 1_750_000_000.0) as gate:
...     print(gate.count_tokens("five words are counted here"), gate.remember("The quay is long.").fact.created)
5 1750000000.0

A detector watches a stream of the guard: text in, the first stall inside it out. One that also has `hold` or `prime`
holds text back, and begins behind a text after a rollback.

>>> class NeverDetector:
...     def feed(self, text): return None
...     def reset(self): pass
>>> def generate(messages): return ["again "] * 500
>>> len("".join(Guard(generate, detector=NeverDetector).iterate([])))
3000

A dialect is one model API that the proxy speaks. It extends Dialect, or one of ours if the API is much like it. A
package offers its own under the entry-point group millgate.dialects: acme = "acme_millgate:AcmeDialect".

>>> from millgate.guard.dialects.chat import ChatDialect
>>> class AcmeDialect(ChatDialect):
...     path = "/v1/acme/chat"
...     messages_field = "turns"
>>> AcmeDialect().conversation({"turns": [{"role": "user", "content": "Hello"}]})
({'role': 'user', 'content': 'Hello'},)

Prices turn the tokens of calls into money. Those of the providers come with the extra `service`; yours stand before
them. A price is that of a million tokens. It holds for the model of that name, also with a date or a region.

>>> from millgate.settings import Settings
>>> from millgate.spending.prices import Prices
>>> own = Settings(prices={"my-model": {"input": 0.5, "output": 2.0}}).prices
>>> Prices(own).find("my-model-2026-11-01").output
2.0
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from millgate.protocols.snapshot import (
    Postings,
    Snapshot,
    TermPositions,
    TokenStreams,
)
from millgate.protocols.store import (
    AttachmentStore,
    ChangeFeed,
    ChunkStore,
    ClusterStore,
    DocumentStore,
    EdgeStore,
    FactFeed,
    FactStore,
    KeyStore,
    ReadOnlyStore,
    RequestScopedStore,
    ReviewStore,
    SecretStore,
    SharedState,
    SharedUpkeepStore,
    SpendStore,
    Store,
    TenantListStore,
    TenantTraceStore,
    TraceBatchStore,
    TraceStore,
)
from millgate.types import Candidate, Chunk

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "AttachmentStore",
    "Bands",
    "ChangeFeed",
    "ChunkStore",
    "Clock",
    "ClusterStore",
    "DocumentStore",
    "EdgeStore",
    "Embedder",
    "FactFeed",
    "FactStore",
    "Grader",
    "GraderWithBands",
    "KeyStore",
    "MemoryProvider",
    "Postings",
    "ReadOnlyStore",
    "RequestScopedStore",
    "Retriever",
    "ReviewStore",
    "SecretStore",
    "SharedState",
    "SharedUpkeepStore",
    "Snapshot",
    "SpendStore",
    "Store",
    "TenantListStore",
    "TenantTraceStore",
    "TermPositions",
    "TokenCounter",
    "TokenStreams",
    "TraceBatchStore",
    "TraceStore",
    "WebSearch",
]


class Embedder(Protocol):
    """Texts to unit vectors; `name` goes into the index so that vectors of two models never meet."""

    name: str
    dimension: int

    def embed(self, texts: Sequence[str]) -> "npt.NDArray[np.float32]": ...


class Grader(Protocol):
    """A confidence in 0..1 for each candidate: does it help to answer the query?"""

    async def grade(self, query: str, candidates: Sequence[Candidate]) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Bands:
    """Where a grader's confidences divide: `floor` <= `lower` <= `upper`."""

    upper: float = 0.7
    lower: float = 0.3
    floor: float = 0.3


@runtime_checkable
class GraderWithBands(Grader, Protocol):
    """A grader that knows where its confidences divide. For any other the bands are `Bands()`."""

    @property
    def bands(self) -> Bands: ...


class WebSearch(Protocol):
    """Looks a query up outside; the chunks it returns are untrusted and carry their address."""

    async def search(self, query: str, *, limit: int) -> Sequence[Chunk]: ...


class Retriever(Protocol):
    """An engine that brings the chunks of a collection that may answer a query: some hundred of them, best first.

    They need not be in the store. `retrieve` may be called by several threads at once.
    """

    def retrieve(self, tenant: str, collection: str, query: str) -> Sequence[Chunk]: ...


@runtime_checkable
class MemoryProvider(Protocol):
    """A memory that can be asked. Older providers may lack `limit` and `min_trust`.

    A provider may be async. It may also have `initialize(tenant, session_id)` and `close()`, and its `prefetch` may
    take a `tenant`.
    """

    name: str

    def is_available(self) -> bool: ...
    def prefetch(
        self, query: str, *, session_id: str, limit: int | None, min_trust: float | None
    ) -> str: ...


class TokenCounter(Protocol):
    """Counts tokens; additive enough that a budget held piece by piece holds for the whole."""

    def __call__(self, text: str, /) -> int: ...


class Clock(Protocol):
    """Seconds since the epoch."""

    def __call__(self) -> float: ...
