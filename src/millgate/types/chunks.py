"""Chunks: pieces of text as a store holds them, the documents they were cut from, and the feed of their changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

GRAPH: Final = "graph"
MEMORY: Final = "memory"
TURN: Final = "turn"
WEB: Final = "web"
SIDE_SOURCES: Final = frozenset({GRAPH, MEMORY})
"""Sources of knowledge rather than of documents: few and short, they are sure of a section of the budget."""
SIDE_SHARE: Final = 0.3
"""The share of the budget that they are sure of."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of text as the store holds it. No stage ever alters one.

    `source` is its kind: document, turn, graph, memory or web. `position` counts within the document.
    `admission` is the admissibility token it was given, or None; it is carried, never made, by the pipeline.
    """

    id: str
    text: str
    document: str = ""
    collection: str = "main"
    source: str = "document"
    title: str = ""
    position: int = 0
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    admission: str | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A document and the chunks it was cut into, in reading order."""

    id: str
    collection: str = "main"
    title: str = ""
    digest: str = ""
    source: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    chunks: tuple[Chunk, ...] = ()


class Attachment(NamedTuple):
    """Bytes computed from the text of one chunk, by kind ("fingerprint/1")."""

    collection: str
    chunk: str
    kind: str
    value: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a collection's change feed: a chunk written, or (chunk None) an id removed.

    `place` numbers documents in the order they first came; (place, chunk.position) is reading order,
    so the chunks beside one in that order are its neighbors, also across documents of one chunk each.
    """

    seq: int
    id: str
    chunk: Chunk | None = None
    place: int = 0


@dataclass(frozen=True, slots=True)
class Size:
    """How much a collection holds."""

    documents: int = 0
    chunks: int = 0
    chars: int = 0
