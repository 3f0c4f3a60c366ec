"""Gate: what is worth its tokens, and fits.

Of each candidate the model of relevance says which share of the expected evidence it holds (ranking/model.py). A
chunk may take tokens for its share, as many as `floor` allows: one that is longer is shown in part, and one that would
be no more than a scrap is likely noise and left out, though there may be space. A floor drops empty text and machine
boilerplate (text that compresses to almost nothing). The best chunk comes first, and the others by
worth = share * new
where `new` is what comparing it with the window left. Candidates that no model has seen are worth their score.

`pack` fills the budget in that order. Two sections share it: main pieces and side pieces (graph paths, remembered
facts). The side section is sure of its share; what one section leaves is offered to the other. A main piece that does
not fit, or that would leave nothing for those behind it, is shown as its best strips (ranking/excerpt.py) if there are
questions to choose them by. Token counters are only nearly additive, so the packed whole is counted once more, and the
last pieces go until it fits. Invariant: count of the joined pieces <= budget.
"""

import math
import zlib
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Annotated, NamedTuple

from pydantic import Field

from millgate.errors import InputError
from millgate.protocols import TokenCounter
from millgate.ranking.excerpt import excerpt
from millgate.ranking.model import new_part
from millgate.ranking.question import Question
from millgate.text.cache import Cache
from millgate.text.entropy import count_words, information_score
from millgate.text.fence import NOTICE, fence_cost, frame
from millgate.types import GRAPH, SIDE_SHARE, SIDE_SOURCES, Candidate, Sifted
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, Tuning, Unit

# Tokens of which the floor of relevance speaks.
THOUSAND = 1000
# The share of the expected evidence from which what the window shows is all of it. Of 100 made worlds whose subject is
# in the window, junk comes into 7 at .65, 14 at .7 and 40 at .8. With half of the evidence of real questions in the
# window, .65 and .95 bring as much of the other half, since words of the question that the window lacks count first.
NEARLY_ALL = 0.65
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


class GatePolicy(Policy):
    """What is worth its tokens."""

    min_entropy: Unit = 0.0
    """Entropy score under which a chunk is dropped (0.1 in published/entropy_gating.py)."""
    min_ratio: Unit = 0.08
    """Compressed bytes over characters under which a text is boilerplate: repeated lines and rulers stand at .01-.05,
    the lowest labeled evidence of 17 sets at .11, the lowest file of the standard library at .12."""
    min_chars: Tuning[Annotated[int, Field(ge=1)]] = 200
    """Texts shorter than this are never taken for boilerplate."""
    graph_share: Tuning[Unit] = SIDE_SHARE
    """Share of the budget that graph paths and remembered facts are sure of."""


@dataclass(frozen=True, slots=True)
class Gated(Sifted):
    """What fits, and by id the strips that are shown of a chunk that fits only in part."""

    strips: Mapping[str, str] = field(default_factory=dict, compare=False)


class Shown(NamedTuple):
    """What the window shows: its part of the expected evidence, and the chunks that given edges lead to from there.

    These have places of their own behind the best.
    """

    window_share: float = 0.0
    adjacent: Container[str] = ()


NOTHING_SHOWN = Shown()


@dataclass(slots=True, eq=False)
class Piece:
    """A candidate as it would be shown, what that costs, and whether it is packed.

    `most` are the tokens that it may take: with more, its share of the evidence would be too small for them. `strips`
    are set if it is packed in part; `text` and `cost` are then those of the part.
    """

    text: str
    cost: int
    candidate: Candidate
    is_side: bool = False
    share: float = 0.0
    most: float = math.inf
    worth: float = 0.0
    entropy: float = 0.0
    is_adjacent: bool = False
    is_packed: bool = False
    strips: str = ""


def gate(
    candidates: Sequence[Candidate],
    budget: int,
    count: TokenCounter,
    policy: GatePolicy,
    *,
    evidence_shares: Sequence[float] | None = None,
    floor: float = 0.0,
    shown: Shown = NOTHING_SHOWN,
    k: int | None = None,
    questions: Mapping[str, Question] | None = None,
    preview_chars: int | None = None,
    notice: str = NOTICE,
) -> Gated:
    """Keep what is worth its tokens and fits `budget` with its framing, at most `k` beside those of graph and memory.

    `questions` (collection -> question) choose the strips of a chunk that fits only in part; `preview_chars` is the
    length at which a preview cuts a text, None if pieces are shown whole. `notice` stands in the fence around them.
    `evidence_shares` are the candidates' parts of the expected evidence. A chunk may take 1,000 tokens for each `floor`
    of it that it holds. If the window has `shown` nearly all of it, every chunk is left over but what is adjacent.
    """
    if budget < 0:
        raise InputError(f"the budget is {budget} tokens; it must be 0 or more")
    for_pieces = budget - fence_cost(count, notice)
    by_model = evidence_shares is not None
    pieces = []
    for at, candidate in enumerate(candidates):
        chunk = candidate.chunk
        # what compose will show, at its least: the number has one digit, and quoting is left to compose
        text = frame(1, chunk.title, chunk.text[: None if chunk.source == GRAPH else preview_chars])
        share = _finite_score(candidate) if evidence_shares is None else evidence_shares[at]
        is_side, is_adjacent = chunk.source in SIDE_SOURCES, chunk.id in shown.adjacent
        cost = count(text + "\n")
        pieces.append(Piece(text, cost, candidate, is_side, share, is_adjacent=is_adjacent))
    if floor:
        _bound(pieces, floor)
    likely, noise = _cut_noise(pieces, floor, shown.window_share)
    worthy, dropped = _weigh(likely, policy, by_model=by_model)
    whole_costs = [piece.cost for piece in worthy]
    pack(
        worthy,
        for_pieces,
        count,
        side_share=policy.graph_share,
        max_main=k,
        questions=questions if preview_chars is None else None,
    )
    packed = [piece for piece in worthy if piece.is_packed]
    left = for_pieces - sum(piece.cost for piece in packed)
    k_is_full = k is not None and sum(not piece.is_side for piece in packed) >= k
    left_out = [
        _note_noise(piece, floor)
        if piece.cost > piece.most and left >= MIN_PART
        else _note(piece, Fate.DROP, NoteCode.BEYOND_K if k_is_full and not piece.is_side else NoteCode.NO_ROOM, cost)
        for piece, cost in zip(worthy, whole_costs, strict=True)
        if not piece.is_packed
    ]  # fmt: skip
    kept = []
    for piece in packed:
        code = NoteCode.ADJACENT if piece.is_adjacent else NoteCode.FITS
        code = NoteCode.FITS_IN_PART if piece.strips else code
        kept.append(_note(piece, Fate.KEEP, code, piece.cost))
    strips = {piece.candidate.chunk.id: piece.strips for piece in packed if piece.strips}
    return Gated(tuple(kept), (*left_out, *dropped, *noise), strips=strips)


def _note(piece: Piece, fate: Fate, code: NoteCode, tokens: float) -> Candidate:
    return piece.candidate.with_note(
        Stage.GATE, fate, code, tokens=tokens, share=piece.share, entropy=piece.entropy
    )


def _cut_noise(
    pieces: Sequence[Piece], floor: float, window_share: float
) -> tuple[list[Piece], list[Candidate]]:
    """Those that may take tokens enough for more than a scrap, and the others; graph paths and facts stay."""
    likely, noise = list[Piece](), list[Candidate]()
    for piece in pieces:
        if window_share >= NEARLY_ALL and not (piece.is_side or piece.is_adjacent):
            noise.append(piece.candidate.with_note(Stage.GATE, Fate.DROP, NoteCode.LEFT_OVER))
        elif piece.most >= min(piece.cost, MIN_PART):
            likely.append(piece)
        else:
            noise.append(_note_noise(piece, floor))
    return likely, noise


def _weigh(
    likely: Sequence[Piece], policy: GatePolicy, *, by_model: bool
) -> tuple[list[Piece], list[Candidate]]:
    """What stands above the floor of the policy, in the order in which it is packed, and what does not.

    A candidate is worth its share as far as it is new to the window; one that no model has seen is worth its score.
    """
    worthy, dropped = list[Piece](), list[Candidate]()
    measured = measure_all([piece.candidate.chunk.text for piece in likely])
    for piece, (entropy, ratio) in zip(likely, measured, strict=True):
        judged = _floor(piece.candidate, policy, entropy, ratio)
        if judged.dropped:
            dropped.append(judged)
            continue
        piece.entropy = entropy
        piece.worth = piece.share * (new_part(piece.candidate) if by_model else 1.0)
        worthy.append(piece)
    main = [piece for piece in worthy if not piece.is_side]
    # small ones must not displace the best-ranked chunk
    best = max(main, key=lambda piece: _finite_score(piece.candidate), default=None)
    worthy.sort(key=lambda one: (one is best, one.is_adjacent, one.worth), reverse=True)
    return worthy, dropped


def _bound(pieces: Sequence[Piece], floor: float) -> None:
    """Set the tokens that each piece may take for its share.

    Graph paths, facts, the best chunk and what is adjacent are not bound, and the second best is sure of some
    sentences: a document that repeats the question must not keep all others out. What matches nothing has a score of 0,
    and is sure of nothing.
    """
    main = [piece for piece in pieces if not piece.is_side]
    for piece in main:
        piece.most = math.inf if piece.is_adjacent else THOUSAND * piece.share / floor
    first = sorted((p for p in main if p.candidate.score > 0), key=lambda piece: -piece.share)
    for piece, least in zip(first, (math.inf, 2 * MIN_PART), strict=False):
        piece.most = max(piece.most, least)


def _note_noise(piece: Piece, floor: float) -> Candidate:
    """A candidate that is left out because it holds too little of the evidence for its tokens."""
    density = THOUSAND * piece.share / max(piece.cost, 1)
    return piece.candidate.with_note(
        Stage.GATE, Fate.DROP, NoteCode.NOISE, share=piece.share, density=density, floor=floor
    )


def _finite_score(candidate: Candidate) -> float:
    return candidate.score if math.isfinite(candidate.score) else 0.0


def _floor(candidate: Candidate, policy: GatePolicy, bits: float, ratio: float) -> Candidate:
    """Drop what no budget should pay for: empty text, boilerplate, entropy under the floor."""
    text = candidate.chunk.text
    if not text or text.isspace():
        return candidate.with_note(Stage.GATE, Fate.DROP, NoteCode.EMPTY, entropy=0.0)
    if ratio < policy.min_ratio and len(text) >= policy.min_chars:
        return candidate.with_note(
            Stage.GATE, Fate.DROP, NoteCode.BOILERPLATE, ratio=ratio, entropy=bits
        )
    if bits < policy.min_entropy:
        return candidate.with_note(Stage.GATE, Fate.DROP, NoteCode.LOW_ENTROPY, entropy=bits)
    return candidate


# Hash of a text -> its entropy score and compression ratio. A request takes 23 % more CPU without it, since the same
# chunks come back request after request.
_MEASURED = Cache[int, tuple[float, float]](3_000_000, lambda _, found: getsizeof(found))


def measure_all(texts: Sequence[str]) -> list[tuple[float, float]]:
    """Entropy score and compression ratio of each text."""
    return list(map(_measure, texts))


def _measure(text: str) -> tuple[float, float]:
    """The entropy score of a text, and its compressed bytes over its characters, 1 at most."""
    key = hash(text)
    if known := _MEASURED.get(key):
        return known
    words: Counter[str] = count_words(text)
    total, ratio = words.total(), 1.0
    least = 0.6 * total
    is_prose = total * 15 >= len(text) and (len(words) >= least or len(set(text.split())) >= least)
    if text and not is_prose:  # prose whose words hardly repeat is not worth compressing
        data = text.encode("utf-8", "surrogatepass")
        ratio = min(1.0, len(zlib.compress(data, 6)) / len(text))
    found = information_score(text, words), ratio
    _MEASURED.put(key, found)
    return found


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
    main = [piece for piece in pieces if not piece.is_side]
    side = [piece for piece in pieces if piece.is_side]
    max_main = len(main) if max_main is None else max_main
    reserved = min(int(side_share * budget), sum(piece.cost for piece in side))
    packing = _Packing(pieces, {*main[:max_main], *side}, count, questions or {}, budget - reserved)
    packing.fill(main, max_main, may_shorten=True)
    packing.left += reserved
    packing.fill(side, len(side))
    packing.fill(main, max_main - sum(piece.is_packed for piece in main))
    packed = [piece for piece in pieces if piece.is_packed]
    while packed and (over := count("\n".join(p.text for p in packed)) - budget) > 0:
        while packed and over > 0:
            last = packed.pop()
            last.is_packed = False
            over -= max(last.cost, 1)


class _Packing:
    """Pieces while they are packed, and the tokens that are left; only those that are `wanted` may be taken at all."""

    def __init__(
        self,
        pieces: Sequence[Piece],
        wanted: Container[Piece],
        count: TokenCounter,
        questions: Mapping[str, Question],
        left: int,
    ) -> None:
        self.left = left
        self._first = pieces[0] if pieces else None
        self._count, self._questions = count, questions
        self._cuts = 0
        self._cost_behind: dict[Piece, float] = {}
        total = 0.0
        for piece in reversed(pieces):
            self._cost_behind[piece] = total
            total += min(piece.cost, piece.most) if piece in wanted else 0.0

    def fill(self, some: Sequence[Piece], most: int, *, may_shorten: bool = False) -> None:
        """Take what fits in order, `most` at most; with `may_shorten`, strips of what does not fit or crowds others."""
        for piece in some:
            if most <= 0:
                return
            if piece.is_packed:
                continue
            # the tokens that would be left if every wanted piece behind this one were taken whole
            spare = self.left - self._cost_behind[piece]
            crowds_others = (
                piece is not self._first
                and self.left >= 4 * MIN_PART
                and piece.cost > max(WHOLE_PART * self.left, spare)
            )
            fits = piece.cost <= min(self.left, piece.most)
            if may_shorten and (not fits or crowds_others):
                self._shorten(piece, spare)
            if fits or piece.strips:
                piece.is_packed = True
                self.left -= piece.cost
                most -= 1

    def _shorten(self, piece: Piece, spare: float) -> None:
        """Make a piece its best strips that fit; leave it as it is if none would help."""
        if not self._questions or self._cuts == MAX_CUTS or self.left <= 0:
            return
        self._cuts += 1
        part = BEST_PART if piece is self._first else NEXT_PART
        room = int(min(max(part * self.left, spare, min(self.left, 2 * MIN_PART)), piece.most))
        if room < MIN_PART:
            return
        chunk = piece.candidate.chunk
        first = next(iter(self._questions.values()))
        question = self._questions.get(chunk.collection, first)
        strips = excerpt(chunk, question, room, self._count)
        text = frame(1, chunk.title, strips)
        cost = self._count(text + "\n") if strips else 0
        if 0 < cost <= self.left:
            piece.text, piece.cost, piece.strips = text, cost, strips
