"""Chunks: pieces of text as a store holds them, the documents they were cut from, the feed of their changes, and
candidates: chunks on their way through the stages, with a score and the notes of what happened to each.

A stage returns Sifted, and the law of conservation holds for each: kept + dropped = what came in + added. So the trace
of a request is complete by construction.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from millgate.types.notes import Fate, Note, NoteCode, Stage

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


# read thousands of times a request, and a member of an enum is slow to look up
_DROP: Final = Fate.DROP


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk on its way through the gate: its score now, and the notes of every stage so far."""

    chunk: Chunk
    score: float
    notes: tuple[Note, ...] = ()

    @property
    def dropped(self) -> bool:
        """Whether the last stage left it out."""
        return bool(self.notes) and self.notes[-1].fate is _DROP

    def with_note(
        self,
        stage: Stage,
        fate: Fate,
        code: NoteCode,
        *,
        score: float | None = None,
        subject: str = "",
        **numbers: float,
    ) -> "Candidate":
        """The same chunk with one more note, and a new score if one is given."""
        now = self.score if score is None else score
        note = Note(stage, fate, code, now, numbers, subject)
        return Candidate(self.chunk, now, (*self.notes, note))

    def number(self, stage: Stage, name: str) -> float | None:
        """A number that a stage noted, the first time it did; None when it never did."""
        for note in self.notes:
            if note.stage is stage and name in note.numbers:
                return note.numbers[name]
        return None


@dataclass(frozen=True, slots=True)
class Sifted:
    """What a stage made of its candidates: kept (best first), dropped, and which of both it added."""

    kept: tuple[Candidate, ...] = ()
    dropped: tuple[Candidate, ...] = ()
    added: tuple[Candidate, ...] = ()

    @classmethod
    def split(cls, judged: Iterable[Candidate], *, added: Iterable[Candidate] = ()) -> "Sifted":
        """Part the judged candidates by their last fate, keeping their order."""
        parted: tuple[list[Candidate], list[Candidate]] = ([], [])
        for candidate in judged:
            parted[candidate.dropped].append(candidate)
        return cls(tuple(parted[False]), tuple(parted[True]), tuple(added))
