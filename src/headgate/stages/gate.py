"""Gate: what is worth its tokens, and fits.

A floor drops empty text and machine boilerplate (text that compresses to almost nothing). The rest is ordered by
worth = score * (0.7 + 0.3 * entropy) * support    (support: the chance to be part of the answer, where known)
value = worth / tokens ** .85, without support worth / tokens ** .2    and packed into the budget by value, skipping what
does not fit and going on; what is in is handed on by worth. Framing is charged, and the budget holds under the counter
in use. Where `k` binds and not the room, worth alone chooses.
The published rule, entropy alone, stays available as order="entropy" and as the functions over dict rows below;
measured, it fills a budget about as well as chance, since the entropy score mostly follows length (docs/gate.md).
"""

import math
import zlib
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field

from headgate.errors import InputError
from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import Policy, Tuning, Unit
from headgate.protocols import TokenCounter
from headgate.text.entropy import information_score
from headgate.text.fence import NOTICE, SAMPLE_NONCE, fence, frame
from headgate.text.pack import pack
from headgate.types import GRAPH, SIDE, SIDE_SHARE, Candidate, Report, Sifted


class GatePolicy(Policy):
    """What is worth its tokens."""

    order: Literal["value", "entropy"] = "value"
    """By value (score weighted by entropy and length), or by entropy alone as published."""
    entropy_weight: Tuning[Unit] = 0.3
    """How much of the value depends on the entropy score; 0.3 changes evidence by .002 at most."""
    length_power: Tuning[Unit] = 0.2
    """Without support: value is worth over tokens to this power (in conversations 0, since turns are short alike)."""
    support_power: Tuning[Unit] = 1.0
    """With support: worth is multiplied by it to this power."""
    support_length: Tuning[Unit] = 0.85
    """With support: value is worth over tokens to this power."""
    min_entropy: Unit = 0.0
    """Entropy score under which a chunk is dropped (published: 0.1)."""
    min_ratio: Unit = 0.25
    """Compressed size over size under which a text is boilerplate: logs and footers stand at .05-.11, the
    lowest labelled evidence at .35."""
    min_chars: Tuning[Annotated[int, Field(ge=1)]] = 200
    """Texts shorter than this are never taken for boilerplate."""
    graph_share: Tuning[Unit] = SIDE_SHARE
    """Share of the budget that graph paths and remembered facts are sure of."""


def gate(
    candidates: Sequence[Candidate],
    budget: int,
    count: TokenCounter,
    policy: GatePolicy,
    *,
    k: int | None = None,
    support: Mapping[str, float] | None = None,
    conversation: bool = False,
    preview_chars: int | None = None,
) -> Sifted:
    """Keep what is worth its tokens and fits `budget` with its framing, at most `k` chunks beside those of graph and memory.

    `preview_chars` is the length at which a preview cuts a text, None where pieces are shown whole.
    """
    if budget < 0:
        raise InputError(f"the budget is {budget} tokens; it must be 0 or more")
    judged = [_floor(candidate, policy) for candidate in candidates]
    alive = [candidate for candidate in judged if not candidate.dropped]
    shown = [_shown(candidate, preview_chars) for candidate in alive]
    costs = [count(text + "\n") for text in shown]
    worths = [_worth(candidate, support or {}, policy) for candidate in alive]
    by_worth = sorted(range(len(alive)), key=lambda at: (-worths[at], at))
    room = budget - count(fence("", SAMPLE_NONCE.encode(), notice=NOTICE))
    if k is not None and sum(costs[at] for at in by_worth[:k]) <= room:
        values = worths
    else:
        power = _power(policy, supported=bool(support), conversation=conversation)
        values = [w / max(cost, 1) ** power for w, cost in zip(worths, costs, strict=True)]
    ranking = sorted(range(len(alive)), key=lambda at: (-values[at], at))
    taken = pack(
        [shown[at] for at in ranking],
        room,
        count,
        costs=[costs[at] for at in ranking],
        side=[alive[at].chunk.source in SIDE for at in ranking],
        share=policy.graph_share,
        most=k,
    )
    inside = {at for at, fits in zip(ranking, taken, strict=True) if fits}
    full = k is not None and k <= sum(alive[at].chunk.source not in SIDE for at in inside)
    order = [at for at in by_worth if at in inside] + [at for at in ranking if at not in inside]
    fates = [_judge(alive[at], costs[at], values[at], fits=at in inside, full=full) for at in order]
    return Sifted.split([*fates, *(c for c in judged if c.dropped)])


def report(kept: Iterable[Candidate], dropped: Iterable[Candidate]) -> Report:
    """What was kept and evicted on the whole way, with the last reason for each evicted id."""
    stayed, gone = list(kept), list(dropped)
    return Report(
        total_candidates=len(stayed) + len(gone),
        kept=len(stayed),
        evicted=len(gone),
        avg_entropy_kept=_mean(measure(c.chunk.text)[0] for c in stayed),
        avg_entropy_evicted=_mean(measure(c.chunk.text)[0] for c in gone),
        evicted_ids=tuple(c.chunk.id for c in gone),
        reasons={c.chunk.id: _reason(c) for c in gone},
    )


def annotate_chunks(rows: Sequence[MutableMapping[str, Any]]) -> list[MutableMapping[str, Any]]:
    """Set `entropy`, the published score of `content`, in each row; the rows themselves."""
    for at, row in enumerate(rows):
        row["entropy"] = information_score(_content(row, at))
    return list(rows)


def prune_to_budget(
    rows: Sequence[MutableMapping[str, Any]], max_tokens: int = 4096, min_entropy: float = 0.1
) -> list[MutableMapping[str, Any]]:
    """The rows that fit, by falling entropy, as published: tokens are len // 4, those under the floor go."""
    annotated = annotate_chunks(rows)
    used = 0
    selected = []
    for row in sorted(annotated, key=lambda row: -row["entropy"]):
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


@lru_cache(maxsize=10_000)
def measure(text: str) -> tuple[float, float]:
    """Entropy score and compression ratio of a text, remembered, since chunks come back request after request."""
    return information_score(text), _ratio(text)


def _ratio(text: str) -> float:
    """Compressed size over size, 1 at most; prose whose words hardly repeat is not worth compressing."""
    words = text.split()
    if len(words) * 15 >= len(text) and len(set(words)) >= 0.6 * len(words):
        return 1.0
    data = text.encode("utf-8", "surrogatepass")
    return min(1.0, len(zlib.compress(data, 6)) / len(data)) if data else 1.0


def _floor(candidate: Candidate, policy: GatePolicy) -> Candidate:
    """Drop what no budget should pay for: empty text, boilerplate, entropy under the floor."""
    text = candidate.chunk.text
    if not text.strip():
        return candidate.with_note(Stage.GATE, Fate.DROP, NoteCode.EMPTY)
    bits, ratio = measure(text)
    if ratio < policy.min_ratio and len(text) >= policy.min_chars:
        return candidate.with_note(Stage.GATE, Fate.DROP, NoteCode.BOILERPLATE, ratio=ratio)
    if bits < policy.min_entropy:
        return candidate.with_note(Stage.GATE, Fate.DROP, NoteCode.LOW_ENTROPY, entropy=bits)
    return candidate


def _shown(candidate: Candidate, preview_chars: int | None) -> str:
    """The piece that compose will show, at its least: the number has one digit, and quoting is left to compose."""
    chunk = candidate.chunk
    if chunk.source == GRAPH or preview_chars is None:
        return frame(1, chunk.title, chunk.text)
    return frame(1, chunk.title, chunk.text[:preview_chars])


def _worth(candidate: Candidate, support: Mapping[str, float], policy: GatePolicy) -> float:
    """What a chunk is worth, whatever it costs: see the caption."""
    bits = measure(candidate.chunk.text)[0]
    if policy.order == "entropy":
        return bits
    weight = policy.entropy_weight
    score = candidate.score if math.isfinite(candidate.score) else 0.0
    backing: float = support.get(candidate.chunk.id, 1.0) ** policy.support_power
    return score * (1 - weight + weight * bits) * backing


def _power(policy: GatePolicy, *, supported: bool, conversation: bool) -> float:
    """How much length counts: nothing in the published order, most where worth is a chance."""
    if policy.order == "entropy":
        return 0.0
    if supported:
        return policy.support_length
    return 0.0 if conversation else policy.length_power


def _judge(candidate: Candidate, cost: int, value: float, *, fits: bool, full: bool) -> Candidate:
    if fits:
        fate, code = Fate.KEEP, NoteCode.FITS
    elif full and candidate.chunk.source not in SIDE:
        fate, code = Fate.DROP, NoteCode.BEYOND_K
    else:
        fate, code = Fate.DROP, NoteCode.NO_ROOM
    return candidate.with_note(Stage.GATE, fate, code, tokens=cost, value=value)


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
    return float(known) if known is not None else information_score(_content(row, at))
