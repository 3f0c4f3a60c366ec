"""Passages: what Millgate makes of texts that another retriever found.

`sift` drops what the window shows already and what nearly repeats better passages, and packs the rest into the budget:
the stages penalize and gate, with the scores of the retriever that found them. Without scores the order given counts.
"""

from collections.abc import Sequence

from millgate.pipeline.stages.gate import GatePolicy, gate
from millgate.pipeline.stages.penalize import PenalizePolicy, penalize
from millgate.protocols import TokenCounter
from millgate.text.tokens import estimate_tokens
from millgate.types import Candidate, Chunk, Sifted, Window, WindowLike

# Score of a passage over that of the one before it, if the retriever gives none. Chosen, not measured: the order of the
# retriever stays, and the tenth passage still has four tenths of the first one's score.
FALL = 0.9


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
    fresh = penalize(candidates, Window.of(window), PenalizePolicy())
    fitting = gate(fresh.kept, budget, count, GatePolicy(), k=k)
    return Sifted(fitting.kept, (*fresh.dropped, *fitting.dropped))


def places(sifted: Sifted) -> list[int]:
    """Where the kept texts stood, best first."""
    return [int(candidate.chunk.id) for candidate in sifted.kept]
