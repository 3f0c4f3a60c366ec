"""Fates: the candidates of a trace as rows, each with its scores stage by stage and the numbers a person asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

from millgate.explain.passages import Passage, find_passages, mark
from millgate.types import Candidate, Trace
from millgate.types.notes import Note, Stage

AROUND = 240  # characters of the window shown around a passage

Piece = tuple[str, bool]
"""A piece of text, and whether it is marked."""


@dataclass(frozen=True, slots=True)
class Score:
    """What a stage did to a candidate: its score before (None if the stage found it) and after."""

    before: float | None
    note: Note


@dataclass(frozen=True, slots=True)
class FateRow:
    """One candidate."""

    id: str
    title: str
    source: str
    kept: bool
    last: Note | None
    scores: tuple[Score, ...]
    overlap: float | None
    confidence: float | None
    tokens: int | None


@dataclass(frozen=True, slots=True)
class SideBySide:
    """A chunk and the window blocks that hold words of it, both in marked pieces."""

    chunk: tuple[Piece, ...]
    blocks: tuple[tuple[int, tuple[Piece, ...]], ...]


def fate_rows(trace: Trace) -> list[FateRow]:
    """Every candidate, those that were kept first, each group in the order of the trace."""
    rows = map(fate_row, trace.candidates)
    return sorted(rows, key=lambda row: not row.kept)


def fate_row(candidate: Candidate) -> FateRow:
    """One candidate as a row."""
    notes = candidate.notes
    before: list[float | None] = [None, *(note.score for note in notes[:-1])]
    return FateRow(
        candidate.chunk.id,
        candidate.chunk.title,
        candidate.chunk.source,
        kept=not candidate.dropped,
        last=notes[-1] if notes else None,
        scores=tuple(Score(was, note) for was, note in zip(before, notes, strict=True)) if notes else (),
        overlap=candidate.number(Stage.PENALIZE, "overlap"),
        confidence=candidate.number(Stage.GRADE, "confidence"),
        tokens=_tokens(notes),
    )  # fmt: skip


def side_by_side(candidate: Candidate, trace: Trace) -> SideBySide | None:
    """A chunk beside what of the window it repeats; None if the texts are not kept or nothing repeats."""
    text, blocks = candidate.chunk.text, trace.request.window.texts
    passages = find_passages(text, blocks)
    if not passages:
        return None
    chunk = mark(text, ((p.start, p.end) for p in passages))
    numbers = sorted({p.block for p in passages})
    return SideBySide(
        tuple(chunk),
        tuple((n, tuple(_excerpt(blocks[n], [p for p in passages if p.block == n]))) for n in numbers),
    )  # fmt: skip


def _excerpt(block: str, passages: Sequence[Passage]) -> list[Piece]:
    """A block of the window from a little before its first passage to a little behind the last."""
    low = max(0, min(p.block_start for p in passages) - AROUND)
    high = min(len(block), max(p.block_end for p in passages) + AROUND)
    spans = ((p.block_start - low, p.block_end - low) for p in passages)
    pieces = mark(block[low:high], spans)
    return [*([("… ", False)] if low else []), *pieces, *([(" …", False)] if high < len(block) else [])]  # fmt: skip


def _tokens(notes: Sequence[Note]) -> int | None:
    """What it cost, by the last stage that counted."""
    counted = [note.numbers["tokens"] for note in notes if "tokens" in note.numbers]
    return int(counted[-1]) if counted else None
