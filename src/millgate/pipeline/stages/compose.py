"""Compose: one fenced, cited block that fits the budget.

The gate has packed what comes here; what a search brought beside it, and the quoting, may make it too large again. Then
the last pieces go until the block fits: those of graph paths and remembered facts as long as they take more than their
share of the budget, else those of documents and turns. Pieces are laid out only then, since laying out first loses half
the evidence. "edges" puts the best first and last, where models read best. Equal input gives equal bytes. Invariants:
count(text) <= budget; every piece stands inside the fence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from millgate.errors import InputError
from millgate.protocols import TokenCounter
from millgate.text.fence import NOTICE, fence, piece
from millgate.types import GRAPH, SIDE_SHARE, SIDE_SOURCES, WEB, Candidate, Chunk, Sifted
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, PositiveCount, Tuning

PREVIEW_FRAME = "x" * 50  # characters charged for the framing of a preview


class ComposePolicy(Policy):
    """How the block is filled and laid out."""

    preview_chars: Tuning[PositiveCount] = 300
    """Longest preview of a piece when a request asks for previews."""
    notice: Tuning[str] = NOTICE
    """What the opening of the fence says about its content."""
    doubt: Tuning[str] = "it may not answer the question"
    """What it says beside that if the grade is ambiguous."""

    @property
    def longest_notice(self) -> str:
        """The notice with the doubt."""
        return f"{self.notice}; {self.doubt}"


@dataclass(frozen=True, slots=True)
class Composed:
    """The block, what went into it in the order shown, and what was left out.

    `texts` is what each chunk in it shows; `sources[n - 1]` is what citation [n] stands for. `token` is the admission
    the shown chunks share, if any.
    """

    text: str
    tokens: int
    sifted: Sifted
    shown: tuple[Chunk, ...] = ()
    texts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    graph_context: tuple[str, ...] = ()
    token: str | None = None


def compose(
    candidates: Sequence[Candidate],
    budget: int,
    count: TokenCounter,
    policy: ComposePolicy,
    *,
    secret: bytes,
    notice: str = "",
    detail: Literal["whole", "preview"] = "whole",
    order: Literal["rank", "edges"] = "rank",
    strips: Mapping[str, str] | None = None,
    side_share: float = SIDE_SHARE,
) -> Composed:
    """Take what fits in the order given, lay it out, and fence it.

    `strips` maps a chunk's id to the parts that are shown in its place; `side_share` is the share of the budget that
    graph paths and remembered facts are sure of. `notice` stands in the fence in place of the policy's.
    """
    if budget < 0:
        raise InputError(f"the budget is {budget} tokens; it must be 0 or more")
    chunks = [candidate.chunk for candidate in candidates]
    bodies = [
        (strips or {}).get(c.id, c.text).strip()
        if detail == "whole" or c.source == GRAPH
        else _preview((strips or {}).get(c.id, c.text).strip(), policy.preview_chars)
        for c in chunks
    ]
    extra = count(PREVIEW_FRAME) if detail == "preview" else 0
    costs = [
        count(piece(at, _title(chunk), body) + "\n") + (chunk.source not in SIDE_SOURCES) * extra
        for at, (chunk, body) in enumerate(zip(chunks, bodies, strict=True), 1)
    ]
    main = [at for at, chunk in enumerate(chunks) if chunk.source not in SIDE_SOURCES]
    side = [at for at, chunk in enumerate(chunks) if chunk.source in SIDE_SOURCES]
    while True:
        layout = (main[::2] + main[1::2][::-1] if order == "edges" else main) + side
        lines = [
            piece(number, _title(chunks[at]), bodies[at]) for number, at in enumerate(layout, 1)
        ]
        text = fence("\n".join(lines), secret, notice=notice or policy.notice) if lines else ""
        tokens = count(text) if text else 0
        over = tokens + extra * len(main) - budget
        if over <= 0 or not lines:
            break
        while over > 0 and (main or side):
            has_more = sum(costs[at] for at in side) > side_share * budget
            gone = (side if side and (has_more or not main) else main).pop()
            over -= max(costs[gone], 1)
    judged = [
        c.with_note(
            Stage.COMPOSE,
            *((Fate.KEEP, NoteCode.SHOWN) if at in {*layout} else (Fate.DROP, NoteCode.NO_ROOM)),
            tokens=cost,
        )
        for at, (c, cost) in enumerate(zip(candidates, costs, strict=True))
    ]
    shown = tuple(chunks[at] for at in layout)
    admissions = {chunk.admission for chunk in shown if chunk.admission is not None}
    return Composed(
        text=text,
        tokens=tokens,
        sifted=Sifted.split(judged),
        shown=shown,
        texts=tuple(bodies[at] for at in layout),
        sources=tuple(str(c.metadata.get("url") or c.document or c.id) for c in shown),
        graph_context=tuple(chunk.text for chunk in shown if chunk.source == GRAPH),
        # with none or several, each chunk speaks for itself
        token=admissions.pop() if len(admissions) == 1 else None,
    )


def _title(chunk: Chunk) -> str:
    """The title as it is shown; what was found on the web says so, lest it pass for a document of one's own."""
    if chunk.source != WEB:
        return chunk.title
    return f"web: {chunk.title}" if chunk.title else "web"


def _preview(text: str, most: int) -> str:
    """A text cut at a word, if it is longer than a preview may be."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    return (head.rsplit(None, 1)[0] if " " in head else head) + "…"
