"""Candidates: chunks on their way through the stages, with a score and the notes of what happened to each.

A stage returns Sifted, and the law of conservation holds for each: kept + dropped = what came in + added. So the trace
of a request is complete by construction.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from millgate.types.chunks import Chunk
from millgate.types.notes import Fate, Note, NoteCode, Stage

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
