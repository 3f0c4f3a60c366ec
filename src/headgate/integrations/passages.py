"""Passages: what Headgate makes of texts that another retriever found.

`sift` drops what the window shows already and what nearly repeats better passages, and packs the rest into the budget: the
stages penalize and gate, with the scores of the retriever that found them. Without scores the order given counts.
"""

from collections.abc import Sequence
from time import monotonic

from headgate.notes import Fate, NoteCode, Stage
from headgate.protocols import TokenCounter
from headgate.stages.gate import GatePolicy, gate
from headgate.stages.penalize import PenalizePolicy, penalize
from headgate.text.cache import WindowCache
from headgate.text.tokens import estimate_tokens
from headgate.types import Candidate, Chunk, Sifted, Window, WindowLike

FALL = 0.9  # score of a passage over that of the one before it, where the retriever gives none


def sift(
    texts: Sequence[str],
    *,
    budget: int,
    k: int | None = None,
    window: WindowLike = None,
    scores: Sequence[float | None] = (),
    count: TokenCounter = estimate_tokens,
) -> Sifted:
    """Which texts are new and fit, and why the others are not; the id of a chunk is its place in `texts`."""
    given = [score for score in scores if score is not None]
    if len(given) < len(texts):  # some are missing: then the order is all that is known of any
        given = [FALL**at for at in range(len(texts))]
    candidates = [
        Candidate(Chunk(str(at), text), score)
        for at, (text, score) in enumerate(zip(texts, given, strict=True))
    ]
    candidates.sort(key=lambda candidate: -candidate.score)
    policy = PenalizePolicy()
    fresh = penalize(candidates, Window.of(window), policy)
    single = _drop_near_copies(fresh.kept, policy.near_duplicate)
    fitting = gate(single.kept, budget, count, GatePolicy(), k=k)
    return Sifted(fitting.kept, (*fresh.dropped, *single.dropped, *fitting.dropped))


def _drop_near_copies(candidates: Sequence[Candidate], most: float) -> Sifted:
    """What is nearly all in better passages goes: mirrors and versions of a text differ in a line or two."""
    cache = WindowCache(clock=monotonic)
    kept: list[Candidate] = []
    judged = []
    for candidate in candidates:
        tokens = cache.tokens([candidate.chunk.text])
        better = cache.index([each.chunk.text for each in kept])
        if kept and (overlap := float(better.overlap(tokens)[0])) >= most:
            shares = [cache.index([each.chunk.text]).overlap(tokens)[0] for each in kept]
            repeated = kept[shares.index(max(shares))].chunk.id
            note = (Stage.PENALIZE, Fate.DROP, NoteCode.REPEATS)
            judged.append(candidate.with_note(*note, subject=repeated, overlap=overlap))
        else:
            kept.append(candidate)
            judged.append(candidate)
    return Sifted.split(judged)


def places(sifted: Sifted) -> list[int]:
    """Where the kept texts stood, best first."""
    return [int(candidate.chunk.id) for candidate in sifted.kept]
