"""Pack: which pieces fit a budget, taken in the order given.

Not a stage: `gate` and `compose` share these rules.

Two sections share the budget: main pieces and side pieces (graph paths, remembered facts). The side section is sure of
its share; what one section leaves is offered to the other. A main piece that does not fit, or that would leave nothing
for those behind it, is shown as its best strips (ranking/excerpt.py) if the caller hands over the questions to choose
them by. Token counters are only nearly additive, so the packed whole is counted once more, and the last pieces go until
it fits.
Invariant: count of the joined pieces <= budget.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from millgate.protocols import TokenCounter
from millgate.ranking.excerpt import excerpt
from millgate.ranking.question import Question
from millgate.text.fence import frame
from millgate.types import Chunk

# Tokens: less than about two sentences of a chunk are not worth showing.
MIN_PART = 48
# The share of the tokens left that the strips of a chunk may take, of the best one and of those behind it. With all
# of them, the first chunk that does not fit would shut the others out.
BEST_PART, NEXT_PART = 2 / 3, 1 / 3
# A chunk behind the best that would take more than this share of the tokens left is shown as strips too. Otherwise a
# larger budget loses what a smaller one showed.
WHOLE_PART = 2 / 3
# Pieces that are shortened at most: bounds the work, since each excerpt reads its whole chunk.
MAX_CUTS = 8


@dataclass(slots=True)
class Piece:
    """A chunk as it would be shown, what that costs, and whether it is packed.

    `most` are the tokens that it may take: with more, its part of the evidence would be too small for them. `strips`
    are set if the chunk is packed in part; `text` and `cost` are then those of the part.
    """

    text: str
    cost: int
    chunk: Chunk | None = None
    is_side: bool = False
    most: float = math.inf
    is_packed: bool = False
    strips: str = ""

    @property
    def is_too_dear(self) -> bool:
        """Whether it takes more tokens than it may."""
        return self.cost > self.most


def pack(
    pieces: Sequence[Piece],
    budget: int,
    count: TokenCounter,
    *,
    side_share: float = 0.0,
    max_main: int | None = None,
    questions: Mapping[str, Question] | None = None,
) -> None:
    """Mark the pieces that fit, at most `max_main` of the main section; `side_share` of the budget goes to the side.

    `questions` (collection -> question) choose the strips of a piece that fits only in part; without them every piece
    is taken whole or not at all.
    """
    main = [place for place, piece in enumerate(pieces) if not piece.is_side]
    side = [place for place, piece in enumerate(pieces) if piece.is_side]
    max_main = len(main) if max_main is None else max_main
    reserved = min(int(side_share * budget), sum(pieces[place].cost for place in side))
    wanted = {*main[:max_main], *side}
    packing = _Packing(pieces, wanted, count, questions or {}, left=budget - reserved)
    packing.fill(main, max_main, may_shorten=True)
    packing.left += reserved
    packing.fill(side, len(side))
    packing.fill(main, max_main - sum(pieces[place].is_packed for place in main))
    _drop_last_until_they_fit(pieces, budget, count)


class _Packing:
    """Pieces while they are packed, and the tokens that are left; `wanted` are the places that may be taken at all."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        wanted: Container[int],
        count: TokenCounter,
        questions: Mapping[str, Question],
        *,
        left: int,
    ) -> None:
        self.left = left
        self._pieces = pieces
        self._count = count
        self._questions = questions
        self._cuts = 0
        costs = [
            min(piece.cost, piece.most) if place in wanted else 0
            for place, piece in enumerate(pieces)
        ]
        total = sum(costs)
        self._cost_behind = [total - up_to for up_to in accumulate(costs)]

    def fill(self, places: Sequence[int], most: int, *, may_shorten: bool = False) -> None:
        """Take what fits in order, `most` at most; with `may_shorten`, strips of what does not fit or crowds others."""
        for place in places:
            piece = self._pieces[place]
            if most <= 0:
                return
            if piece.is_packed:
                continue
            fits = piece.cost <= min(self.left, piece.most)
            if may_shorten and (not fits or self._crowds_others(place)):
                self._shorten(place)
            if fits or piece.strips:
                piece.is_packed = True
                self.left -= piece.cost
                most -= 1

    def _crowds_others(self, place: int) -> bool:
        """Whether a piece that fits would take the tokens of too many behind it."""
        cost = self._pieces[place].cost
        is_large = place > 0 and self.left >= 4 * MIN_PART and cost > WHOLE_PART * self.left
        return is_large and self._spare(place) < cost

    def _spare(self, place: int) -> float:
        """The tokens that would be left if every wanted piece behind this one were taken whole."""
        return self.left - self._cost_behind[place]

    def _shorten(self, place: int) -> None:
        """Make a piece its best strips that fit; leave it as it is if none would help."""
        piece = self._pieces[place]
        if not self._questions or piece.chunk is None or self._cuts == MAX_CUTS or self.left <= 0:
            return
        self._cuts += 1
        budget_share = NEXT_PART if place else BEST_PART
        most = max(budget_share * self.left, self._spare(place), min(self.left, 2 * MIN_PART))
        room = int(min(most, piece.most))
        if room < MIN_PART:
            return
        first = next(iter(self._questions.values()))
        question = self._questions.get(piece.chunk.collection, first)
        strips = excerpt(piece.chunk, question, room, self._count)
        text = frame(1, piece.chunk.title, strips)
        cost = self._count(text + "\n") if strips else 0
        if 0 < cost <= self.left:
            piece.text, piece.cost, piece.strips = text, cost, strips


def _drop_last_until_they_fit(pieces: Sequence[Piece], budget: int, count: TokenCounter) -> None:
    """Take the last pieces out until the joined text fits by its own count."""
    while packed := [piece for piece in pieces if piece.is_packed]:
        over = count("\n".join(piece.text for piece in packed)) - budget
        if over <= 0:
            return
        for piece in reversed(packed):
            piece.is_packed = False
            over -= max(piece.cost, 1)
            if over <= 0:
                break
