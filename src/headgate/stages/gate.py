"""Gate: what is worth its tokens, and fits.

A floor drops empty text and machine boilerplate (text that compresses to almost nothing). Of the rest the chunk with
the highest score comes first, the others follow by
value = score * (0.7 + 0.3 * entropy) / tokens ** .2    (in conversations, where lines are short alike, without tokens)
and are packed into the budget with their framing. What does not fit whole, or would crowd others out, is shown as its
best strips. What is in is handed on best first. Where `k` binds and not the room, length does not count.
The published rule, entropy alone, stays available as order="entropy" and as the functions over dict rows below.
"""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated, Any, Literal

from pydantic import Field

from headgate.errors import InputError
from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import Policy, Tuning, Unit
from headgate.protocols import TokenCounter
from headgate.text.entropy import count_words, information_score, information_scores
from headgate.text.fence import fence_cost, frame
from headgate.text.memo import Generations, Room
from headgate.text.pack import pack
from headgate.types import GRAPH, SIDE_SHARE, SIDE_SOURCES, Candidate, Chunk, Report, Sifted

__all__ = ["GatePolicy", "Gated", "annotate_chunks", "eviction_report", "gate", "prune_to_budget"]

Excerpt = Callable[[Chunk, Callable[[str], bool]], str]
"""A chunk and what fits -> its best strips that do, "" where none would help."""

MIN_PART = 48  # tokens: less than two sentences of a chunk are not worth showing
# What the strips of a chunk may take of the room that is left: given all of it, the first that does not fit shuts the
# others out. A chunk behind the best that would take more than WHOLE_PART of it is shown as strips too, else a larger
# budget loses what a smaller one showed (docs/gate.md).
BEST_PART, NEXT_PART, WHOLE_PART = 2 / 3, 1 / 3, 2 / 3
_FITS = Stage.GATE, Fate.KEEP, NoteCode.FITS
_IN_PART = Stage.GATE, Fate.KEEP, NoteCode.FITS_IN_PART
_NO_ROOM = Stage.GATE, Fate.DROP, NoteCode.NO_ROOM
_BEYOND_K = Stage.GATE, Fate.DROP, NoteCode.BEYOND_K


class GatePolicy(Policy):
    """What is worth its tokens."""

    order: Literal["value", "entropy"] = "value"
    """By value (score weighted by entropy and length), or by entropy alone."""
    entropy_weight: Tuning[Unit] = 0.3
    """How much of the value depends on the entropy score; 0.3 changes evidence by .002 at most."""
    length_power: Tuning[Unit] = 0.2
    """Value is worth over tokens to this power (in conversations 0, since turns are short alike)."""
    min_entropy: Unit = 0.0
    """Entropy score under which a chunk is dropped (published: 0.1)."""
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


def gate(
    candidates: Sequence[Candidate],
    budget: int,
    count: TokenCounter,
    policy: GatePolicy,
    *,
    k: int | None = None,
    excerpt: Excerpt | None = None,
    conversation: bool = False,
    preview_chars: int | None = None,
) -> Gated:
    """Keep what is worth its tokens and fits `budget` with its framing, at most `k` beside those of graph and memory.

    `excerpt` gives the strips of a chunk that fits only in part; `preview_chars` is the length at which a preview cuts
    a text, None where pieces are shown whole.
    """
    if budget < 0:
        raise InputError(f"the budget is {budget} tokens; it must be 0 or more")
    by_entropy = policy.order == "entropy"
    measured = measure_all([candidate.chunk.text for candidate in candidates])
    judged = [_floor(c, policy, *one) for c, one in zip(candidates, measured, strict=True)]
    standing = [at for at, candidate in enumerate(judged) if not candidate.dropped]
    alive, bits = [judged[at] for at in standing], [measured[at][0] for at in standing]
    aside = [candidate.chunk.source in SIDE_SOURCES for candidate in alive]
    shown = [_piece_of(candidate, preview_chars) for candidate in alive]
    costs = [count(text + "\n") for text in shown]
    worths, best = bits, None
    if not by_entropy:
        weight = policy.entropy_weight
        scores = [c.score if math.isfinite(c.score) else 0.0 for c in alive]
        worths = [s * (1 - weight + weight * b) for s, b in zip(scores, bits, strict=True)]
        main = [at for at, is_aside in enumerate(aside) if not is_aside]
        best = max(main, key=scores.__getitem__, default=None)
    by_worth = _best_first(worths, best)
    room = budget - fence_cost(count)
    values = worths
    if k is None or sum(costs[at] for at in by_worth[:k]) > room:
        power = 0.0 if conversation or by_entropy else policy.length_power
        values = [w / max(cost, 1) ** power for w, cost in zip(worths, costs, strict=True)]
    ranking = _best_first(values, best)
    prices = [costs[at] for at in ranking]
    up_to = list(accumulate(prices))
    strips: dict[int, str] = {}

    def spare_room(place: int, left: int) -> int:
        return left - (up_to[-1] - up_to[place])

    def shorten(place: int, left: int) -> str:
        at, share = ranking[place], NEXT_PART if place else BEST_PART
        part = max(int(share * left), spare_room(place, left), min(left, 2 * MIN_PART))
        chunk = alive[at].chunk
        strips[at] = _shorten(chunk, part, count, excerpt)
        return strips[at] and frame(1, chunk.title, strips[at])

    def crowds(place: int, left: int) -> bool:
        cost = prices[place]
        is_large = place > 0 and left >= 4 * MIN_PART and cost > WHOLE_PART * left
        return is_large and spare_room(place, left) < cost

    packed = pack(
        [shown[at] for at in ranking],
        room,
        count,
        costs=prices,
        side=[aside[at] for at in ranking],
        share=policy.graph_share,
        most=k,
        shorten=shorten if excerpt is not None and preview_chars is None else None,
        crowds=crowds,
    )
    inside = {ranking[place] for place, fits in enumerate(packed.taken) if fits}
    full = k is not None and k <= sum(not aside[at] for at in inside)
    cut = {ranking[place]: count(part + "\n") for place, part in packed.shortened.items()}

    def note(at: int, what: tuple[Stage, Fate, NoteCode]) -> Candidate:
        cost = cut.get(at, costs[at])
        return alive[at].with_note(*what, tokens=cost, value=values[at], entropy=bits[at])

    kept = [note(at, _IN_PART if at in cut else _FITS) for at in by_worth if at in inside]
    dropped = [
        note(at, _BEYOND_K if full and not aside[at] else _NO_ROOM)
        for at in ranking
        if at not in inside
    ]
    shortened = {alive[at].chunk.id: strips[at] for at in cut}
    return Gated(tuple(kept), (*dropped, *(c for c in judged if c.dropped)), strips=shortened)


def report(kept: Iterable[Candidate], dropped: Iterable[Candidate]) -> Report:
    """What was kept and evicted on the whole way, with the last reason for each evicted id."""
    stayed, gone = list(kept), list(dropped)
    bits = _entropies([*stayed, *gone])
    return Report(
        total_candidates=len(stayed) + len(gone),
        kept=len(stayed),
        evicted=len(gone),
        avg_entropy_kept=_mean(bits[: len(stayed)]),
        avg_entropy_evicted=_mean(bits[len(stayed) :]),
        evicted_ids=tuple(c.chunk.id for c in gone),
        reasons={c.chunk.id: _reason(c) for c in gone},
    )


def _entropies(candidates: Sequence[Candidate]) -> list[float]:
    """The entropy score of each: as the gate noted it, measured where it never came so far."""
    noted = [candidate.number(Stage.GATE, "entropy") for candidate in candidates]
    unread = [c.chunk.text for c, bits in zip(candidates, noted, strict=True) if bits is None]
    measured = iter(measure_all(unread))
    return [next(measured)[0] if bits is None else bits for bits in noted]


def annotate_chunks(rows: Sequence[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """Set `entropy`, the published score of `content`, in each row; the rows themselves."""
    for at, row in enumerate(rows):
        row["entropy"] = information_score(_content(row, at))
    return list(rows)


def prune_to_budget(
    rows: Sequence[MutableMapping[str, Any]], max_tokens: int = 4096, min_entropy: float = 0.1
) -> list[MutableMapping[str, Any]]:
    """The rows that fit, by falling entropy: tokens are len // 4, those under the floor go.

    A row that brings its `entropy` keeps it; the others get theirs.
    """
    for at, row in enumerate(rows):
        _content(row, at)  # an error where there is none
        row["entropy"] = _entropy_of(row, at)
    used = 0
    selected = []
    for row in sorted(rows, key=lambda row: -row["entropy"]):
        tokens = len(row["content"]) // 4
        if row["entropy"] >= min_entropy and used + tokens <= max_tokens:
            selected.append(row)
            used += tokens
    return selected


def eviction_report(
    rows: Sequence[Mapping[str, Any]],
    selected: Sequence[Mapping[str, Any]],
    *,
    min_entropy: float = 0.1,
) -> dict[str, Any]:
    """Counts, average entropies, and for each evicted id the reason."""
    kept = {_id(row, at) for at, row in enumerate(selected)}
    gone = {_id(row, at): row for at, row in enumerate(rows) if _id(row, at) not in kept}
    stayed = [row for at, row in enumerate(rows) if _id(row, at) in kept]
    bits = {id: _entropy_of(row, at) for at, (id, row) in enumerate(gone.items())}
    low = f"entropy below {min_entropy:g}"
    return {
        "total_candidates": len(rows),
        "kept": len(stayed),
        "evicted": len(rows) - len(stayed),
        "avg_entropy_kept": _mean(_entropy_of(row, at) for at, row in enumerate(stayed)),
        "avg_entropy_evicted": _mean(bits.values()),
        "evicted_ids": list(gone),
        "reasons": {id: low if bits[id] < min_entropy else "no room left" for id in gone},
    }


# hash of a text -> its entropy score and compression ratio, since chunks come back request after request
_MEASURED = Generations[int, tuple[float, float]](Room(10_000))


def measure_all(texts: Sequence[str]) -> list[tuple[float, float]]:
    """Entropy score and compression ratio of each text."""
    return _MEASURED.read([hash(text) for text in texts], texts, _measure)


def _measure(texts: Sequence[str]) -> Iterable[tuple[float, float]]:
    words = list(map(count_words, texts))
    return zip(information_scores(texts, words), map(_ratio, texts, words), strict=True)


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


def _piece_of(candidate: Candidate, preview_chars: int | None) -> str:
    """The piece that compose will show, at its least: the number has one digit, and quoting is left to compose."""
    chunk = candidate.chunk
    most = None if chunk.source == GRAPH else preview_chars
    return frame(1, chunk.title, chunk.text[:most])


def _best_first(values: Sequence[float], best: int | None) -> list[int]:
    """By falling value, but the best-ranked chunk before all: small ones must not displace it."""
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    return order if best is None else [best, *(at for at in order if at != best)]


def _shorten(chunk: Chunk, left: int, count: TokenCounter, excerpt: Excerpt | None) -> str:
    """As much of the chunk as fits with its framing; "" where nothing useful does."""
    if excerpt is None or left < MIN_PART:
        return ""
    return excerpt(chunk, lambda text: count(frame(1, chunk.title, text) + "\n") <= left)


def _reason(candidate: Candidate) -> str:
    if not candidate.notes:
        return "never judged"
    last = candidate.notes[-1]
    return f"{last.stage}: {last.reason}"


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else 0.0


def _content(row: Mapping[str, Any], at: int) -> str:
    content = row.get("content")
    if not isinstance(content, str):
        raise InputError(
            f"row {at} has no text in 'content' but {type(content).__name__}",
            hint="give rows as {'id': ..., 'content': '...'}",
        )
    return content


def _id(row: Mapping[str, Any], at: int) -> object:
    if "id" not in row:
        raise InputError(f"row {at} has no 'id'", hint="give rows as {'id': ..., 'content': '...'}")
    return row["id"]


def _entropy_of(row: Mapping[str, Any], at: int) -> float:
    known = row.get("entropy")
    if known is None:
        return information_score(_content(row, at))
    if not isinstance(known, int | float) or not math.isfinite(known):
        raise InputError(f"row {at} has the entropy {known!r}; it must be a number", hint="leave it out to have it measured")  # fmt: skip
    return float(known)
