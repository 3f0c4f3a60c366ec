"""Grade: is it really relevant? (corrective retrieval)

A grader gives each candidate a confidence for the query: the built-in one (`calibrated_confidences`), or one that the
caller brings (`ask_grader`). The best confidence decides what to do:
  any >= upper  correct    use what passed
  any >= lower  ambiguous  use what passed, and ask the fallback too
  else          incorrect  use none of it: the fallback alone; an empty answer is a valid one
Refusing an answerable question costs more than showing a doubtful passage, so `lower` is low (docs/window.md).
Every chunk at or above the floor of its grader passes. A chunk longer than `strip_over` is refined: cut into strips of
sentences, the strips graded, the best rejoined in reading order, as a rendering; the Chunk itself never changes.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from inspect import isawaitable

from pydantic import model_validator

from headgate.errors import ConfigError, UpstreamError
from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import Policy, PositiveCount, Tuning, Unit
from headgate.protocols import Bands, Grader, GraderWithBands, Snapshot
from headgate.relevance.confidence import LOWER, UPPER, confidences
from headgate.relevance.query_terms import Question
from headgate.text.lazy_pattern import lazy_compile
from headgate.types import Candidate, Chunk, Sifted

FLOOR = 0.0005  # the built-in grader decides about the whole answer; single chunks are the gate's
_NAMED = 3  # refused chunks that a refusal names


class Action(StrEnum):
    """What the best confidence asks for."""

    CORRECT = "correct"
    AMBIGUOUS = "ambiguous"
    INCORRECT = "incorrect"


CALIBRATED_BANDS = Bands(UPPER, LOWER, FLOOR)
"""Where the confidences of the built-in grader divide."""


def calibrated_confidences(
    question: Question,
    candidates: Sequence[Candidate],
    words: Snapshot,
    *,
    found: Sequence[Candidate] = (),
    seen: Sequence[Candidate] = (),
    embedded: bool = False,
) -> list[float]:
    """The built-in grader: a confidence for each candidate by how well they cover the question, in one collection.

    `found` is the whole ranking, which tells what came from the collection, and `seen` what of it the window shows
    already, which is evidence for the collection too. With `embedded`, an embedder had a part in the ranking: words
    cannot refuse what a vector found, so the best of it is at least doubtful.
    """
    marks = confidences(question, candidates, words, found=found, seen=seen)
    lower = CALIBRATED_BANDS.lower
    ours = {c.chunk.id for c in found}
    own = [c.chunk.id in ours for c in candidates]
    known = max((mark for mark, mine in zip(marks, own, strict=True) if mine), default=1.0)
    if embedded and 0 < known < lower:
        return [
            mark * lower / known if mine else mark for mark, mine in zip(marks, own, strict=True)
        ]
    if known >= lower or max(marks) < lower:
        return marks
    # memory knows what the collection does not: what the collection found is only in the way
    return [0.0 if mine else mark for mark, mine in zip(marks, own, strict=True)]


def bands_of(grader: Grader | None) -> Bands:
    """Where the confidences of a grader divide: its own `bands` if it has any, those built in if there is no grader."""
    if grader is None:
        return CALIBRATED_BANDS
    return grader.bands if isinstance(grader, GraderWithBands) else Bands()


async def ask_grader(grader: Grader, query: str, candidates: Sequence[Candidate]) -> list[float]:
    """One confidence in 0..1 per candidate, or an UpstreamError that says what came instead."""
    answer = grader.grade(query, candidates)
    if not isawaitable(answer):
        raise ConfigError("the grader does not await", hint="write it as: async def grade(...)")
    marks = [float(mark) for mark in await answer]
    if len(marks) != len(candidates):
        raise UpstreamError(f"the grader gave {len(marks)} grades for {len(candidates)} candidates")
    wrong = [mark for mark in marks if not (math.isfinite(mark) and 0 <= mark <= 1)]
    if wrong:
        raise UpstreamError(f"the grader gave the confidence {wrong[0]}; it must be 0..1")
    return marks


class GradePolicy(Policy):
    """When found text counts as relevant. Bands that are not set are the grader's own, from its calibration."""

    enabled: bool = True
    """Off: every candidate passes, ungraded."""
    upper: Unit | None = None
    """Confidence from which one chunk makes the whole answer correct."""
    lower: Unit | None = None
    """Confidence below which, when nothing reaches it, the answer is empty."""
    floor: Unit = 0.25
    """The share of the best chunk's score under which a chunk is likely noise and left out, though there is space; the
    best three never are, and nothing that an embedder ranked. .25 costs .008 of the evidence and saves 16 % of the
    tokens, the mean of nine sets."""
    search_limit: Tuning[PositiveCount] = 8
    """Most results that a search outside may bring."""
    strip_over: Tuning[PositiveCount] = 4000
    """Chunks longer than this many characters are refined to their best strips."""
    strip_sentences: Tuning[PositiveCount] = 3
    """Sentences in a strip."""
    strip_share: Tuning[Unit] = 0.5
    """Strips below this share of the best strip's confidence are left out."""

    @model_validator(mode="after")
    def _bands_are_ordered(self) -> "GradePolicy":
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ConfigError("the bands of grade are out of order", hint="set lower <= upper")
        return self

    def bands(self, own: Bands) -> Bands:
        """The bands in force: what is set here, else the grader's own, kept in order."""
        upper = own.upper if self.upper is None else self.upper
        lower = min(own.lower, upper) if self.lower is None else self.lower
        return Bands(max(upper, lower), lower, min(own.floor, lower))


@dataclass(frozen=True, slots=True)
class Graded:
    """The verdict: what passed, what to do, each chunk's confidence, and the strips shown for long chunks."""

    sifted: Sifted
    action: Action
    confidences: Mapping[str, float] = field(default_factory=dict)
    strips: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> float:
        """The highest confidence; 0 if nothing was graded."""
        return max(self.confidences.values(), default=0.0)

    @property
    def refusal(self) -> str:
        """The best three that were refused, with their confidence; "" if none was."""
        ranked = sorted(self.confidences.items(), key=lambda item: -item[1])[:_NAMED]
        return ", ".join(f"{id} ({mark:.2f})" for id, mark in ranked)


def grade(candidates: Sequence[Candidate], marks: Sequence[float], bands: Bands) -> Graded:
    """Judge the candidates by their confidences; keeps their order."""
    if not candidates:
        return Graded(Sifted(), Action.INCORRECT)
    action = decide_action(max(marks), bands)
    judged = [_judge(c, mark, action, bands) for c, mark in zip(candidates, marks, strict=True)]
    by_id = {c.chunk.id: mark for c, mark in zip(candidates, marks, strict=True)}
    return Graded(Sifted.split(judged), action, by_id)


def pass_ungraded(candidates: Sequence[Candidate]) -> Graded:
    """Let every candidate pass, because grading is off."""
    passed = [c.with_note(Stage.GRADE, Fate.KEEP, NoteCode.NOT_GRADED) for c in candidates]
    return Graded(Sifted.split(passed), Action.CORRECT)


def decide_action(best: float, bands: Bands) -> Action:
    """The action that the best confidence asks for."""
    if best >= bands.upper:
        return Action.CORRECT
    return Action.AMBIGUOUS if best >= bands.lower else Action.INCORRECT


def strips_of_long(
    candidates: Sequence[Candidate], policy: GradePolicy
) -> dict[str, list[Candidate]]:
    """For each chunk that is longer than `strip_over`, its strips as candidates to be graded, in reading order."""
    return {
        candidate.chunk.id: [
            Candidate(replace(candidate.chunk, id=f"{candidate.chunk.id}#{n}", text=strip), 1.0)
            for n, strip in enumerate(split_strips(candidate.chunk.text, policy.strip_sentences))
        ]
        for candidate in candidates
        if len(candidate.chunk.text) > policy.strip_over
    }


def join_best_strips(
    strips: Sequence[Candidate], marks: Sequence[float], policy: GradePolicy
) -> str:
    """The strips worth reading, joined in reading order."""
    least = policy.strip_share * max(marks)
    return " … ".join(c.chunk.text for c, mark in zip(strips, marks, strict=True) if mark >= least)


def split_strips(text: str, sentences: int) -> list[str]:
    """The text as strips of this many sentences each, in reading order; nothing but white space is lost."""
    parts = [part for part in _SENTENCE.split(text) if part.strip()]
    return [
        " ".join(part.strip() for part in parts[at : at + sentences])
        for at in range(0, len(parts), sentences)
    ] or [text]


def outside_candidates(
    chunks: Sequence[Chunk], *, best: float = 1.0, taken: Container[str] = ()
) -> Sifted:
    """Chunks from a fallback as candidates: marked untrusted, scored by their rank, best first, ids once.

    A candidate is known by its id, and a search may give any. One that is `taken` gets "web:" before it.
    """
    first: dict[str, Chunk] = {}
    for chunk in chunks:
        first.setdefault(chunk.id, chunk)
    found: dict[str, Candidate] = {}
    for id, chunk in first.items():
        free = id
        while free in taken or free in found:
            free = f"web:{free}"
        metadata = {**chunk.metadata, "untrusted": True}
        marked = Candidate(
            replace(chunk, id=free, metadata=metadata, admission=None), best / (1 + len(found))
        )
        found[free] = marked.with_note(Stage.SEARCH, Fate.ADD, NoteCode.FOUND_OUTSIDE)
    added = tuple(found.values())
    return Sifted(kept=added, added=added)


def wants_search(action: Action) -> bool:
    """Whether the verdict asks for the first fallback."""
    return action is not Action.CORRECT


def review_reason(
    graded: Graded | None,
    searched: Action | None,
    *,
    in_danger: bool = False,
    empty: Sequence[str] = (),
) -> str:
    """Why a person should look, or "" if none needs to; a refusal names the best that it refused.

    `graded` is None if nothing was graded; `searched` is the verdict on what the search brought, None if search is
    off or failed. `empty` are the collections that were asked, if none of them has anything.
    """
    if in_danger:
        return "a crisis question"
    if graded is None or graded.action is not Action.INCORRECT:
        return ""
    if searched not in {None, Action.INCORRECT}:
        return ""
    here = f"nothing is in collection {', '.join(empty)}" if empty else "nothing relevant found"
    reason = f"{here}, " + ("and no search could help" if searched is None else "nor by search")
    return f"{reason}; the best refused: {graded.refusal}" if graded.refusal else reason


_SENTENCE = lazy_compile(r"(?<=[.!?。！？])\s+|\n{2,}|(?<=[。！？])")


def _judge(candidate: Candidate, mark: float, action: Action, bands: Bands) -> Candidate:
    if action is Action.INCORRECT:
        return candidate.with_note(
            Stage.GRADE, Fate.DROP, NoteCode.ALL_INCORRECT, confidence=mark, lower=bands.lower
        )
    if mark < bands.floor:
        return candidate.with_note(
            Stage.GRADE, Fate.DROP, NoteCode.LOW_CONFIDENCE, confidence=mark, floor=bands.floor
        )
    return candidate.with_note(
        Stage.GRADE, Fate.KEEP, NoteCode.GRADED, subject=action, confidence=mark
    )
