"""Penalize: lower the score of what the model can already see.

A chunk that repeats the window costs tokens and adds nothing, so its score falls with its overlap r,
gently at first:  score · (1 - weight · r^exponent).  An exact repeat (r = 1) falls to 0 and is left out.
Of a turn what was said is measured: the date and the speaker that Millgate put in front of it are not in the window.
A heading alone is nothing new: a text that the window holds without its headings is a repeat too. No other part may be
missing, however small, since one number can be what is asked for.
Of several candidates with the same words, or nearly so, only the best stays, window or not. A brief one that a longer
one contains goes only if both are from one document: of two documents each may be the one that is asked for.
The stage only reorders and drops. It never alters a chunk, its admission included; with no window, or
switched off, no score changes by a bit.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from millgate.published.self_reference import (
    DUP_HAMMING,
    EXPONENT,
    GRAPH_WEIGHT,
    NEAR_DUPLICATE,
    NOVEL,
    SELF_REFERENTIAL,
    WEIGHT,
    adjust_score,
    classify_overlap,
    compute_overlaps,
)
from millgate.text.coverage import Shares, WindowIndex, copies, near_copies
from millgate.text.fingerprint import FORMAT_VERSION, MINHASH_PERM, SHINGLE, WindowFingerprint
from millgate.text.hashes import Tokens
from millgate.text.lazy_pattern import lazy_compile
from millgate.types import TURN, Candidate, Chunk, Sifted, Window
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Count, Policy, Positive, Tuning, Unit

# Lines of one to six # and a title, and the blank lines around them.
_HEADINGS = lazy_compile(r"\A(?:\s*#{1,6} [^\n]*(?:\n|\Z))++\s*")
_CODES: Final = {
    "near_duplicate": NoteCode.NEARLY_IN_WINDOW,
    "self_referential": NoteCode.MOSTLY_IN_WINDOW,
    "partial": NoteCode.PARTLY_IN_WINDOW,
    "novel": NoteCode.NEW,
}


def _forbid_change(expected: int) -> AfterValidator:
    """A number that stored fingerprints are made with: it may be named, not changed."""

    def check(value: int) -> int:
        if value != expected:
            message = f"fingerprint format {FORMAT_VERSION} is made with {expected}; leave it at {expected}"
            raise ValueError(message)
        return value

    return AfterValidator(check)


class PenalizePolicy(Policy):
    """How hard to push repeated text down."""

    enabled: bool = True
    """Off: the stage hands its candidates on untouched."""
    weight: Unit = WEIGHT
    """Share of the score that a full repeat loses."""
    weight_by_source: Tuning[Mapping[str, Unit]] = Field(default={"graph": GRAPH_WEIGHT})
    """Another weight for chunks of a source."""
    exponent: Positive = EXPONENT
    """Above 1, small overlaps cost little."""
    near_duplicate: Tuning[Unit] = NEAR_DUPLICATE
    """Overlap from which a chunk is called nearly all in the window."""
    self_referential: Tuning[Unit] = SELF_REFERENTIAL
    """Overlap from which a chunk mostly repeats the window."""
    novel: Tuning[Unit] = NOVEL
    """Overlap below which a chunk is new."""
    copy_overlap: Tuning[Unit] = 0.95
    """Overlap with better candidates from which a chunk is their copy; at .85 tools go whose descriptions differ in the
    one word that matters.
    """
    shingle_size: Annotated[int, _forbid_change(SHINGLE)] = SHINGLE
    """Tokens in a shingle; part of the fingerprint format."""
    minhash_perm: Annotated[int, _forbid_change(MINHASH_PERM)] = MINHASH_PERM
    """Permutations of MinHash; part of the fingerprint format."""
    dup_hamming: Annotated[Count, Field(le=64)] = DUP_HAMMING
    """SimHash distance of near-duplicates, if only fingerprints are known."""


def penalize(candidates: Sequence[Candidate], window: Window, policy: PenalizePolicy) -> Sifted:
    """Rescore by overlap with the window; drop repeats of it and of better candidates. Best first."""
    if not policy.enabled or not candidates:
        return Sifted(kept=tuple(candidates))
    texts = [c.chunk.text for c in candidates]
    tokens = Tokens.of(texts)
    judged, order = list(candidates), list(range(len(candidates)))
    if window:
        said = [message_of(c.chunk) for c in candidates]
        measure = overlap_with(window, policy)
        overlaps = measure(said, tokens if said == texts else Tokens.of(said)).tolist()
        nearly = [i for i, r in enumerate(overlaps) if policy.self_referential <= r < 1]
        # a text of headings alone stays as it is
        bodies = {i: _HEADINGS.sub("", said[i]) or said[i] for i in nearly}
        bodies = {i: body for i, body in bodies.items() if body != said[i]}
        if rest := list(bodies.values()):
            for i, overlap in zip(bodies, measure(rest, Tokens.of(rest)).tolist(), strict=True):
                overlaps[i] = max(overlaps[i], overlap)
        judged = [_judge(c, r, policy) for c, r in zip(candidates, overlaps, strict=True)]
        order = sorted(range(len(judged)), key=lambda i: -judged[i].score)
    alive = [i for i in order if not judged[i].dropped]
    found = copies(tokens, alive)
    others = [i for i in alive if i not in found]
    found |= near_copies(tokens, others, least=policy.copy_overlap)
    sizes = tokens.counts.tolist()
    for late, early in found.items():
        one, repeated = judged[late], judged[early].chunk
        is_brief = sizes[late] < policy.copy_overlap * sizes[early]
        is_part = repeated.document and one.chunk.document == repeated.document
        if is_part or not is_brief:
            judged[late] = one.with_note(
                Stage.PENALIZE, Fate.DROP, NoteCode.REPEATS, subject=repeated.id
            )
    return Sifted.split(judged[i] for i in order)


def _judge(candidate: Candidate, overlap: float, policy: PenalizePolicy) -> Candidate:
    """The candidate with its score and a note on its overlap; one that the window holds is dropped."""
    weight = policy.weight_by_source.get(candidate.chunk.source, policy.weight)
    score = adjust_score(candidate.score, overlap, weight=weight, exponent=policy.exponent)
    fate, code = Fate.DROP, NoteCode.IN_WINDOW
    if overlap < 1:
        bounds = {
            name: getattr(policy, name) for name in ("near_duplicate", "self_referential", "novel")
        }
        fate, code = Fate.KEEP, _CODES[classify_overlap(overlap, **bounds)]
    return candidate.with_note(Stage.PENALIZE, fate, code, score=score, overlap=overlap)


def is_in_window(candidate: Candidate) -> bool:
    """Whether it was left out because the window holds it, and not because it repeats another candidate."""
    last = candidate.notes[-1] if candidate.dropped else None
    return bool(last and last.stage is Stage.PENALIZE and last.code is not NoteCode.REPEATS)


def is_shown(candidate: Candidate) -> bool:
    """Whether the window holds it, or nearly all of it."""
    codes = {note.code for note in candidate.notes if note.stage is Stage.PENALIZE}
    return not codes.isdisjoint({NoteCode.IN_WINDOW, NoteCode.NEARLY_IN_WINDOW})


def message_of(chunk: Chunk) -> str:
    """What a chunk says: of a turn the message itself, without the `[date] Speaker:` that stands in front of it."""
    if chunk.source != TURN:
        return chunk.text
    text = chunk.text.partition("] ")[2] if chunk.text.startswith("[") else chunk.text
    return text.removeprefix(f"{chunk.metadata.get('speaker', '')}: ") or chunk.text


def overlap_with(
    window: Window, policy: PenalizePolicy
) -> Callable[[Sequence[str], Tokens], Shares]:
    """How to measure overlap with this window: by its fingerprint if one is given, else by its texts."""
    if window.fingerprint is None:
        index = WindowIndex.of(window.texts)
        return lambda _, tokens: index.overlap(tokens)
    known = WindowFingerprint.from_json(window.fingerprint)
    if (sketch := known.sketch) is not None:
        return lambda _, tokens: sketch.overlap(tokens)
    return lambda texts, _: compute_overlaps(known, texts, hamming=policy.dup_hamming)
