"""Compose: one fenced, cited block that fits the budget.

Graph paths and remembered facts are sure of 30 % of the budget; what they do not use, documents and turns may. Pieces
are filled in the order they come (best first) and only then laid out, since laying out first loses half the evidence.
"edges" puts the best first and last, where models read best. Equal input gives equal bytes. Invariants: count(text) <=
budget; every piece stands inside the fence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from millgate.errors import InputError
from millgate.pipeline.stages.pack import Piece, pack
from millgate.protocols import TokenCounter
from millgate.text.fence import NOTICE, fence, fence_cost, piece
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

    def for_verdict(self, *, is_doubtful: bool) -> "ComposePolicy":
        """The policy for an answer of which grading is sure, or in doubt."""
        if not is_doubtful:
            return self
        return self.model_copy(update={"notice": self.longest_notice})


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
    detail: Literal["whole", "preview"] = "whole",
    order: Literal["rank", "edges"] = "rank",
    strips: Mapping[str, str] | None = None,
    side_share: float = SIDE_SHARE,
) -> Composed:
    """Fill the budget in the order given, lay the pieces out, and fence them.

    `strips` maps a chunk's id to the refined rendering that is shown in its place; `side_share` is the share of the
    budget that graph paths and remembered facts are sure of.
    """
    if budget < 0:
        raise InputError(f"the budget is {budget} tokens; it must be 0 or more")
    bodies = [_body(c.chunk, detail, policy, strips or {}) for c in candidates]
    aside = [c.chunk.source in SIDE_SOURCES for c in candidates]
    extra = count(PREVIEW_FRAME) if detail == "preview" else 0
    pieces = [
        piece(at, _title(c.chunk), body)
        for at, (c, body) in enumerate(zip(candidates, bodies, strict=True), 1)
    ]
    costs = [count(p + "\n") + (0 if g else extra) for p, g in zip(pieces, aside, strict=True)]
    for_pieces = budget - fence_cost(count, policy.notice)
    chosen = list(range(len(pieces)))
    # counted at once, since the costs of single pieces are rounded up
    if count("\n".join(pieces)) + extra * aside.count(False) > for_pieces:
        packing = [
            Piece(text, cost, is_side=is_side)
            for text, cost, is_side in zip(pieces, costs, aside, strict=True)
        ]
        pack(packing, for_pieces, count, side_share=side_share)
        chosen = [at for at, one in enumerate(packing) if one.is_packed]
    while True:
        layout = _layout(chosen, aside, order)
        text = _block([(candidates[at].chunk, bodies[at]) for at in layout], secret, policy)
        tokens = count(text) if text else 0
        if tokens <= budget:
            break
        chosen.pop()
    inside = set(chosen)
    judged = [_judge(c, costs[at], fits=at in inside) for at, c in enumerate(candidates)]
    shown = tuple(candidates[at].chunk for at in layout)
    return Composed(
        text=text,
        tokens=tokens,
        sifted=Sifted.split(judged),
        shown=shown,
        texts=tuple(bodies[at] for at in layout),
        sources=tuple(source_of(chunk) for chunk in shown),
        graph_context=tuple(chunk.text for chunk in shown if chunk.source == GRAPH),
        token=_shared_admission(shown),
    )


def source_of(chunk: Chunk) -> str:
    """What a citation stands for: the address if the chunk has one, else its document, else its id."""
    address = chunk.metadata.get("url")
    return str(address) if address else chunk.document or chunk.id


def _title(chunk: Chunk) -> str:
    """The title as it is shown; what was found on the web says so, lest it pass for a document of one's own."""
    if chunk.source != WEB:
        return chunk.title
    return f"web: {chunk.title}" if chunk.title else "web"


def _body(chunk: Chunk, detail: str, policy: ComposePolicy, strips: Mapping[str, str]) -> str:
    """The text of a chunk as it is shown: its strips, a preview, or all of it."""
    text = strips.get(chunk.id, chunk.text).strip()
    if detail != "preview" or chunk.source == GRAPH or len(text) <= policy.preview_chars:
        return text
    head = text[: policy.preview_chars - 1]
    return (head.rsplit(None, 1)[0] if " " in head else head) + "…"


def _layout(chosen: Sequence[int], aside: Sequence[bool], order: str) -> list[int]:
    """Documents, then graph paths and facts; with "edges" the documents run 1 3 5 ... 6 4 2."""
    documents = [at for at in chosen if not aside[at]]
    paths = [at for at in chosen if aside[at]]
    if order == "edges":
        documents = documents[::2] + documents[1::2][::-1]
    return documents + paths


def _block(rows: Sequence[tuple[Chunk, str]], secret: bytes, policy: ComposePolicy) -> str:
    if not rows:
        return ""
    lines = [piece(number, _title(chunk), body) for number, (chunk, body) in enumerate(rows, 1)]
    return fence("\n".join(lines), secret, notice=policy.notice)


def _judge(candidate: Candidate, cost: int, *, fits: bool) -> Candidate:
    fate, code = (Fate.KEEP, NoteCode.SHOWN) if fits else (Fate.DROP, NoteCode.NO_ROOM)
    return candidate.with_note(Stage.COMPOSE, fate, code, tokens=cost)


def _shared_admission(shown: Sequence[Chunk]) -> str | None:
    """The one admission that the shown chunks carry; with none or several, each chunk speaks for itself."""
    tokens = {chunk.admission for chunk in shown if chunk.admission is not None}
    return tokens.pop() if len(tokens) == 1 else None
