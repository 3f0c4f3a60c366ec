"""Gate: what is worth its tokens, and fits.

Of each candidate the model of relevance says which share of the expected evidence it holds (ranking/model.py). A
chunk may take tokens for its share, as many as `floor` allows: one that is longer is shown in part, and one that would
be no more than a scrap is likely noise and left out, though there may be space. A floor drops empty text and machine
boilerplate (text that compresses to almost nothing). Of the rest the chunk with the largest share comes first, the
others follow by
value = share * new / tokens ** .6
where `new` is what comparing it with the window left. They are packed into the budget with their framing; pack.py holds
the rules and constants of packing. If `k` bounds the answer and the budget does not, length does not count. Accepted
chunks are returned best first. Candidates that no model has seen are worth their score.
"""

import math
import zlib
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import getsizeof
from typing import Annotated, NamedTuple

from pydantic import Field

from millgate.errors import InputError
from millgate.pipeline.stages.pack import MIN_PART, Piece, pack
from millgate.protocols import TokenCounter
from millgate.published.entropy_gating import annotate_chunks, eviction_report, prune_to_budget
from millgate.ranking.model import new_part
from millgate.ranking.question import Question
from millgate.text.cache import Cache
from millgate.text.entropy import count_words, information_score
from millgate.text.fence import NOTICE, fence_cost, frame
from millgate.types import GRAPH, SIDE_SHARE, SIDE_SOURCES, Candidate, Report, Sifted
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, Tuning, Unit

# Tokens of which the floor of relevance speaks.
THOUSAND = 1000
# The share of the expected evidence from which what the window shows is all of it. Of 100 made worlds whose subject is
# in the window, junk comes into 7 at .65, 14 at .7 and 40 at .8. With half of the evidence of real questions in the
# window, .65 and .95 bring as much of the other half, since words of the question that the window lacks count first.
NEARLY_ALL = 0.65

_NOISE = Stage.GATE, Fate.DROP, NoteCode.NOISE
_LEFT_OVER = Stage.GATE, Fate.DROP, NoteCode.LEFT_OVER

__all__ = ["GatePolicy", "Gated", "annotate_chunks", "eviction_report", "gate", "prune_to_budget"]


class GatePolicy(Policy):
    """What is worth its tokens."""

    length_power: Tuning[Unit] = 0.6
    """Value is worth over tokens to this power: between 0 and 1 evidence changes by .003 at most."""
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
    priced = _price(candidates, evidence_shares, count, preview_chars)
    for entry in priced:
        entry.is_adjacent = entry.candidate.chunk.id in shown.adjacent
    if floor:
        _bound(priced, floor)
    likely, noise = _cut_noise(priced, floor, shown.window_share)
    entries, dropped = _weigh(likely, policy, by_model=evidence_shares is not None)
    main = [entry for entry in entries if not entry.piece.is_side]
    best = max(main, key=lambda entry: _finite_score(entry.candidate), default=None)
    by_worth = _best_first(entries, [entry.worth for entry in entries], best)
    affordable = [entry.cost for entry in by_worth if not entry.piece.is_too_dear]
    k_pieces_fit = k is not None and sum(affordable[:k]) <= for_pieces
    if not k_pieces_fit:
        for entry in entries:
            entry.value = entry.worth / max(entry.cost, 1) ** policy.length_power
    ranking = _best_first(entries, [entry.value for entry in entries], best)
    pack(
        [entry.piece for entry in ranking],
        for_pieces,
        count,
        side_share=policy.graph_share,
        max_main=k,
        questions=questions if preview_chars is None else None,
    )
    packed_main = sum(e.piece.is_packed and not e.piece.is_side for e in entries)
    k_is_full = k is not None and packed_main >= k
    left = for_pieces - sum(e.piece.cost for e in entries if e.piece.is_packed)
    left_out = [
        _note_noise(e, floor)
        if e.piece.is_too_dear and left >= MIN_PART
        else e.judge(k_is_full=k_is_full)
        for e in ranking
        if not e.piece.is_packed
    ]
    return Gated(
        tuple(e.judge(k_is_full=k_is_full) for e in by_worth if e.piece.is_packed),
        (*left_out, *dropped, *noise),
        strips={
            e.candidate.chunk.id: e.piece.strips
            for e in ranking
            if e.piece.is_packed and e.piece.strips
        },
    )


@dataclass(slots=True, eq=False)
class _Entry:
    """A candidate on the scales: its part of the expected evidence, the piece to pack, and what that costs whole.

    `worth`, `value` (worth for its tokens) and `entropy` are known of those that are likely evidence.
    """

    candidate: Candidate
    evidence_share: float
    piece: Piece
    cost: int
    worth: float = 0.0
    value: float = 0.0
    entropy: float = 0.0
    is_adjacent: bool = False

    def judge(self, *, k_is_full: bool) -> Candidate:
        """The candidate with the gate's note."""
        piece = self.piece
        if piece.is_packed:
            whole = NoteCode.ADJACENT if self.is_adjacent else NoteCode.FITS
            fate, code = Fate.KEEP, NoteCode.FITS_IN_PART if piece.strips else whole
        else:
            beyond_k = k_is_full and not piece.is_side
            fate, code = Fate.DROP, NoteCode.BEYOND_K if beyond_k else NoteCode.NO_ROOM
        tokens = piece.cost if piece.is_packed else self.cost
        return self.candidate.with_note(
            Stage.GATE,
            fate,
            code,
            tokens=tokens,
            share=self.evidence_share,
            value=self.value,
            entropy=self.entropy,
        )


def _price(
    candidates: Sequence[Candidate],
    evidence_shares: Sequence[float] | None,
    count: TokenCounter,
    preview_chars: int | None,
) -> list[_Entry]:
    """The candidates with what they cost and their shares, which are their scores if no model has seen them."""
    entries = []
    for at, candidate in enumerate(candidates):
        chunk = candidate.chunk
        most = None if chunk.source == GRAPH else preview_chars
        # what compose will show, at its least: the number has one digit, and quoting is left to compose
        shown = frame(1, chunk.title, chunk.text[:most])
        cost = count(shown + "\n")
        share = _finite_score(candidate) if evidence_shares is None else evidence_shares[at]
        piece = Piece(shown, cost, chunk, chunk.source in SIDE_SOURCES)
        entries.append(_Entry(candidate, share, piece, cost))
    return entries


def _cut_noise(
    entries: Sequence[_Entry], floor: float, window_share: float
) -> tuple[list[_Entry], list[Candidate]]:
    """Those that may take tokens enough for more than a scrap, and the others; graph paths and facts stay."""
    likely, noise = list[_Entry](), list[Candidate]()
    for one in entries:
        if one.is_adjacent:
            one.piece.most = math.inf
            likely.append(one)
        elif window_share >= NEARLY_ALL and not one.piece.is_side:
            noise.append(one.candidate.with_note(*_LEFT_OVER))
        elif one.piece.most >= min(one.cost, MIN_PART):
            likely.append(one)
        else:
            noise.append(_note_noise(one, floor))
    return likely, noise


def _bound(entries: Sequence[_Entry], floor: float) -> None:
    """Set the tokens that each piece may take for its share.

    Graph paths, facts and the best chunk are not bound, and the second best is sure of some sentences: a document that
    repeats the question must not keep all others out. What matches nothing has a score of 0, and is sure of nothing.
    """
    main = [one for one in entries if not one.piece.is_side]
    for one in main:
        one.piece.most = THOUSAND * one.evidence_share / floor
    first = sorted(
        (one for one in main if one.candidate.score > 0), key=lambda one: -one.evidence_share
    )
    for one, least in zip(first, (math.inf, 2 * MIN_PART), strict=False):
        one.piece.most = max(one.piece.most, least)


def _note_noise(entry: _Entry, floor: float) -> Candidate:
    """A candidate that is left out because it holds too little of the evidence for its tokens."""
    density = THOUSAND * entry.evidence_share / max(entry.cost, 1)
    return entry.candidate.with_note(
        *_NOISE, share=entry.evidence_share, density=density, floor=floor
    )


def _weigh(
    likely: Sequence[_Entry], policy: GatePolicy, *, by_model: bool
) -> tuple[list[_Entry], list[Candidate]]:
    """What stands above the floor of the policy, with its worth, and what does not; only these texts are measured.

    A candidate is worth its share as far as it is new to the window; one that no model has seen is worth its score.
    """
    entries, dropped = list[_Entry](), list[Candidate]()
    measured = measure_all([one.candidate.chunk.text for one in likely])
    for one, (entropy, ratio) in zip(likely, measured, strict=True):
        judged = _floor(one.candidate, policy, entropy, ratio)
        if judged.dropped:
            dropped.append(judged)
            continue
        one.entropy = entropy
        one.worth = one.value = one.evidence_share * (new_part(one.candidate) if by_model else 1.0)
        entries.append(one)
    return entries, dropped


def _finite_score(candidate: Candidate) -> float:
    return candidate.score if math.isfinite(candidate.score) else 0.0


def report(kept: Iterable[Candidate], dropped: Iterable[Candidate]) -> Report:
    """What was kept and evicted on the whole way, with the last reason for each evicted id.

    The averages are over those whose entropy the gate measured: what earlier stages left out has none.
    """
    stayed, gone = list(kept), list(dropped)
    return Report(
        total_candidates=len(stayed) + len(gone),
        kept=len(stayed),
        evicted=len(gone),
        avg_entropy_kept=_mean_entropy(stayed),
        avg_entropy_evicted=_mean_entropy(gone),
        evicted_ids=tuple(c.chunk.id for c in gone),
        reasons={
            c.chunk.id: f"{c.notes[-1].stage}: {c.notes[-1].reason}" if c.notes else "never judged"
            for c in gone
        },
    )


def _mean_entropy(candidates: Sequence[Candidate]) -> float:
    """The mean of the entropy scores that the gate noted; candidates that did not come so far have none."""
    noted = (candidate.number(Stage.GATE, "entropy") for candidate in candidates)
    found = [bits for bits in noted if bits is not None]
    return sum(found) / len(found) if found else 0.0


# Hash of a text -> its entropy score and compression ratio. A request takes 23 % more CPU without it, since the same
# chunks come back request after request.
_MEASURED = Cache[int, tuple[float, float]](3_000_000, lambda _, found: getsizeof(found))


def measure_all(texts: Sequence[str]) -> list[tuple[float, float]]:
    """Entropy score and compression ratio of each text."""
    return _MEASURED.read([hash(text) for text in texts], texts, _measure)


def _measure(texts: Sequence[str]) -> Iterable[tuple[float, float]]:
    words = list(map(count_words, texts))
    return zip(map(information_score, texts, words), map(_ratio, texts, words), strict=True)


def _ratio(text: str, words: Counter[str]) -> float:
    """Compressed bytes over characters, 1 at most; prose whose words hardly repeat is not worth compressing."""
    total = words.total()
    least = 0.6 * total
    if total * 15 >= len(text) and (len(words) >= least or len(set(text.split())) >= least):
        return 1.0
    data = text.encode("utf-8", "surrogatepass")
    return min(1.0, len(zlib.compress(data, 6)) / len(text)) if text else 1.0


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


def _best_first(
    entries: Sequence[_Entry], values: Sequence[float], best: _Entry | None
) -> list[_Entry]:
    """By falling value, but the best-ranked chunk before all, since small ones must not displace it, and then those
    with places of their own.
    """
    order = sorted(
        range(len(entries)),
        key=lambda at: (entries[at] is best, entries[at].is_adjacent, values[at]),
        reverse=True,
    )
    return [entries[at] for at in order]
