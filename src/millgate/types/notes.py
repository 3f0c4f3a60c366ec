"""Notes: what each stage decided about each candidate, as codes and numbers.

A Note is data: stage, fate, code, the score after the decision, and the numbers behind it by name. Programs read those.
The sentence for a person, `reason`, is rendered from them when it is asked for, here and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Stage(StrEnum):
    """The steps of a request, in the order in which they run."""

    DECIDE = "decide"
    INDEX = "index"
    EMBED = "embed"
    RETRIEVE = "retrieve"
    EDGES = "edges"
    PROPAGATE = "propagate"
    MEMORY = "memory"
    GRAPH = "graph"
    PENALIZE = "penalize"
    EXPAND = "expand"
    GATE = "gate"
    GRADE = "grade"
    SEARCH = "search"
    REVIEW = "review"
    COMPOSE = "compose"
    TRACE = "trace"
    LOG = "log"
    MODEL = "model"
    WINDOW = "window"
    CACHE = "cache"
    COMPACTION = "compaction"
    CUT = "cut"
    CIRCLES = "circles"
    FOLD = "fold"
    FUSE = "fuse"


class Fate(StrEnum):
    """What a stage did with a candidate."""

    ADD = "add"
    KEEP = "keep"
    DROP = "drop"


class NoteCode(StrEnum):
    """Why a stage did it. SENTENCES says which numbers each code comes with."""

    NOT_SEARCHED = "not_searched"
    NEVER_FOUND = "never_found"
    FOUND = "found"
    LOADED_WHOLE = "loaded_whole"
    AS_FOUND = "as_found"
    SHARES_NAME = "shares_name"
    CONNECTED = "connected"
    OUTRANKED = "outranked"
    PATH = "path"
    NO_SIGNAL = "no_signal"
    TOO_MANY_PATHS = "too_many_paths"
    FACT = "fact"
    RECALLED = "recalled"
    LOW_TRUST = "low_trust"
    LOW_RELEVANCE = "low_relevance"
    BEYOND_LIMIT = "beyond_limit"
    NEW = "new"
    PARTLY_IN_WINDOW = "partly_in_window"
    MOSTLY_IN_WINDOW = "mostly_in_window"
    NEARLY_IN_WINDOW = "nearly_in_window"
    IN_WINDOW = "in_window"
    BEST_EFFORT = "best_effort"
    REPEATS = "repeats"
    FOUND_AGAIN = "found_again"
    FOUND_AGAIN_IN_WINDOW = "found_again_in_window"
    NOISE = "noise"
    EMPTY = "empty"
    BOILERPLATE = "boilerplate"
    LOW_ENTROPY = "low_entropy"
    FITS = "fits"
    FITS_IN_PART = "fits_in_part"
    ADJACENT = "adjacent"
    NO_ROOM = "no_room"
    BEYOND_K = "beyond_k"
    GRADED = "graded"
    NOT_GRADED = "not_graded"
    LEFT_OVER = "left_over"
    ALL_INCORRECT = "all_incorrect"
    LOW_CONFIDENCE = "low_confidence"
    FOUND_OUTSIDE = "found_outside"
    SHOWN = "shown"
    NOT_NEEDED = "not_needed"


SENTENCES: Final[Mapping[NoteCode, str]] = {
    NoteCode.NOT_SEARCHED: "nothing was searched: {subject}",
    NoteCode.NEVER_FOUND: "not among the candidates",
    NoteCode.FOUND: "found",
    NoteCode.LOADED_WHOLE: "loaded whole",
    NoteCode.AS_FOUND: "as found",
    NoteCode.SHARES_NAME: "shares the name {subject!r}",
    NoteCode.CONNECTED: "connected to what was found",
    NoteCode.OUTRANKED: "outranked",
    NoteCode.PATH: "path of {edges:.0f}",
    NoteCode.NO_SIGNAL: "no telling predicate",
    NoteCode.TOO_MANY_PATHS: "beyond the first {keep:.0f} paths",
    NoteCode.FACT: "relevance {relevance:.2f}, trust {trust:.2f}",
    NoteCode.RECALLED: "recalled by {subject}",
    NoteCode.LOW_TRUST: "trust {trust:.2f} below {min_trust:.2f}",
    NoteCode.LOW_RELEVANCE: "relevance {relevance:.2f} below {min_relevance:.2f}",
    NoteCode.BEYOND_LIMIT: "beyond limit {limit:.0f}",
    NoteCode.NEW: "new to the window",
    NoteCode.PARTLY_IN_WINDOW: "overlaps the window",
    NoteCode.MOSTLY_IN_WINDOW: "mostly in the window",
    NoteCode.NEARLY_IN_WINDOW: "nearly all in the window",
    NoteCode.IN_WINDOW: "already in the window",
    NoteCode.BEST_EFFORT: "already in the window, best effort",
    NoteCode.REPEATS: "repeats chunk {subject}",
    NoteCode.FOUND_AGAIN: "found by asking again",
    NoteCode.FOUND_AGAIN_IN_WINDOW: "found again, mostly in the window",
    NoteCode.NOISE: "likely noise: {density:.3f} of the evidence in 1,000 tokens, under the floor {floor:g}",
    NoteCode.EMPTY: "empty text",
    NoteCode.BOILERPLATE: "boilerplate, compresses to {ratio:.2f}",
    NoteCode.LOW_ENTROPY: "entropy {entropy:.2f} is under the floor",
    NoteCode.FITS: "fits {tokens:,.0f} tokens",
    NoteCode.FITS_IN_PART: "fits {tokens:,.0f} tokens as its best strips",
    NoteCode.ADJACENT: "adjacent: a given edge leads to it, {tokens:,.0f} tokens",
    NoteCode.NO_ROOM: "no room for {tokens:,.0f} tokens",
    NoteCode.BEYOND_K: "beyond k",
    NoteCode.GRADED: "{subject}, confidence {confidence:.2f}",
    NoteCode.NOT_GRADED: "not graded",
    NoteCode.LEFT_OVER: "says less than what the window shows already",
    NoteCode.ALL_INCORRECT: "nothing reaches {lower:g}, this has {confidence:.2f}",
    NoteCode.LOW_CONFIDENCE: "confidence {confidence:.3f} under the floor {floor:g}",
    NoteCode.FOUND_OUTSIDE: "found outside",
    NoteCode.SHOWN: "shown in {tokens:,.0f} tokens",
    NoteCode.NOT_NEEDED: "not put back: {subject}",
}
"""A sentence for each code; the names in braces are the numbers it needs (`subject` is the note's own)."""


@dataclass(frozen=True, slots=True, repr=False)
class Note:
    """What one stage did to one candidate, and why.

    `score` is the candidate's score afterwards. `subject` is who the code speaks of, if it speaks of someone:
    a shared name, the chunk that is repeated, the provider that recalled it, the grader's verdict.
    """

    stage: Stage
    fate: Fate
    code: NoteCode
    score: float
    numbers: Mapping[str, float] = field(default_factory=dict, hash=False)
    subject: str = ""

    @property
    def reason(self) -> str:
        """The note as a sentence for a person."""
        sentence = SENTENCES[self.code]
        if "{" not in sentence:
            return sentence
        return sentence.format_map({**self.numbers, "subject": self.subject})

    @property
    def reason_with_numbers(self) -> str:
        """The sentence, and behind it those of its numbers that it does not name."""
        rest = [
            f"{name} {f'{value:.4f}'.rstrip('0').rstrip('.')}"
            for name, value in self.numbers.items()
            if f"{{{name}" not in SENTENCES[self.code]
        ]
        return f"{self.reason} ({', '.join(rest)})" if rest else self.reason

    def __repr__(self) -> str:
        return f"<Note {self.stage} {self.fate} {self.score:.3f}: {self.reason}>"
