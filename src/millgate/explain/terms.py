"""Terms: what a chunk's score is made of, and what the model of relevance makes of the score, in one line.

The terms are read from the notes of the stages, so they add up to the score that the chunk ended with.
"""

from collections.abc import Sequence
from typing import Final

from millgate.notes import Note, NoteCode, Stage

_FOUND_TERMS: Final = ("words", "phrases", "heads", "related")
# what a change of the score is called, by the stage that made it; others by the stage's own name
_CHANGES: Final = {Stage.PROPAGATE: "names", Stage.PENALIZE: "in the window"}
_LEAST = 0.005  # smaller terms would read as 0.00


def score_terms(notes: Sequence[Note]) -> dict[str, float]:
    """What words, names, the window and other stages added to a chunk's score, in the order in which they did."""
    terms: dict[str, float] = {}
    score = 0.0
    for note in notes:
        if note.code is NoteCode.FOUND and "words" in note.numbers:
            terms |= {name: note.numbers.get(name, 0.0) for name in _FOUND_TERMS}
        else:
            name = (
                "edges" if note.code is NoteCode.CONNECTED else _CHANGES.get(note.stage, note.stage)
            )
            terms[name] = terms.get(name, 0.0) + note.score - score
        score = note.score
    return terms


def describe_terms(notes: Sequence[Note]) -> str:
    """The terms of a chunk's score with their signs, and its share, chance and confidence; "" if it has no notes.

    For example "words +0.04, names +0.22 = 0.26; 1% of the expected evidence; the collection knows 0.99".
    """
    if not notes:
        return ""
    terms = {name: term for name, term in score_terms(notes).items() if abs(term) >= _LEAST}
    parts = ", ".join(f"{name} {term:+.2f}" for name, term in terms.items())
    said = [f"{parts} = {notes[-1].score:.2f}" if parts else f"score {notes[-1].score:.2f}"]
    numbers = {name: value for note in notes for name, value in _read_judgment(note)}
    if "share" in numbers:
        said.append(f"{numbers['share']:.0%} of the expected evidence")
    if "known" in numbers:
        said.append(f"the collection knows {numbers['known']:.2f}")
    if "confidence" in numbers:
        said.append(f"confidence {numbers['confidence']:.2f}")
    return "; ".join(said)


def _read_judgment(note: Note) -> Sequence[tuple[str, float]]:
    """What the model said; a found chunk's `share` is one of words, and another thing."""
    return list(note.numbers.items()) if note.stage in (Stage.GATE, Stage.GRADE) else []
