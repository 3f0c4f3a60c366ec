"""Samples: small documents and traces for store tests, and a reader that follows a change feed."""

from millgate.protocols import Store
from millgate.types import (
    Candidate,
    Chunk,
    Document,
    Plan,
    Request,
    Step,
    Strategy,
    Tier,
    Trace,
    Window,
)
from millgate.types.notes import Fate, Note, NoteCode, Stage


def document(id: str, *texts: str, collection: str = "main", digest: str = "d") -> Document:
    """A document with one chunk per text; a single one keeps the document's id."""
    names = [id] if len(texts) == 1 else [f"{id}#{n}" for n in range(len(texts))]
    chunks = tuple(
        Chunk(name, text, document=id, collection=collection, position=n)
        for n, (name, text) in enumerate(zip(names, texts, strict=True))
    )
    return Document(id, collection=collection, digest=digest, chunks=chunks)


def add(store: Store, id: str, *texts: str, digest: str = "d") -> int:
    """Put such a document into the collection "main" of the tenant "t"."""
    return store.put("t", [document(id, *texts, digest=digest)])


def texts(store: Store) -> list[str]:
    """The texts that stand there, in reading order."""
    return [chunk.text for chunk in store.scan("t", "main")]


def trace(id: str, *, tenant: str = "t", created: float = 0.0) -> Trace:
    """A trace with one of everything."""
    chunk = Chunk("a", "text", document="a", metadata={"n": 1}, admission="token")
    note = Note(Stage.RETRIEVE, Fate.KEEP, NoteCode.FOUND, 0.5, {"share": 1.25})
    return Trace(
        id,
        Request("who?", tenant=tenant, window=Window(("seen",))),
        Plan(skip=False, tier=Tier.HYBRID, strategy=Strategy.RAG_GRAPH, budget=1000),
        steps=(Step(Stage.RETRIEVE, 0.001, received=0, kept=1, added=1, facts={"hits": 1.0}),),
        candidates=(Candidate(chunk, 0.5, (note,)),),
        created=created,
    )


def follow(store: Store, tenant: str, collection: str, *, limit: int = 3) -> dict[str, Chunk]:
    """What an index that follows the feed from its beginning ends up with."""
    seen: dict[str, Chunk] = {}
    after = 0
    while lines := store.changes(tenant, collection, after, limit):
        for line in lines:
            assert line.seq > after, "the feed goes back"
            after = line.seq
            if line.chunk:
                seen[line.id] = line.chunk
            else:
                seen.pop(line.id, None)
    assert after == store.head(tenant, collection)
    return seen
