"""Slices: which turns of a conversation may be used, as a deterministic slice around an anchor.

Best first:  priority = (phase weight + 0.3 · salience) · 0.9^distance,  ties broken by id; at most 256 turns,
radius 10, 5 siblings a turn. The same graph, anchor and policy give the same slice and the same
hashes on every machine, in any order of input: all hashes are SHA-256 over canonical JSON.
A slice lists its turns; its token (see admissibility.py) proves that they may be used.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from heapq import heappop, heappush
from itertools import accumulate, repeat
from math import isfinite
from operator import mul
from typing import Any

import orjson
from pydantic import Field, field_validator

from millgate.errors import InputError, NotFound
from millgate.types import Chunk
from millgate.types.check import check_type
from millgate.types.policy import Count, Policy, PositiveCount, Unit

SCHEMA = "slice"
VERSION = "1"
PHASES: Mapping[str, float] = {
    "synthesis": 1.0,
    "planning": 0.9,
    "consolidation": 0.6,
    "debugging": 0.5,
    "exploration": 0.3,
}


class SlicePolicy(Policy):
    """How far a slice reaches from its anchor. All its numbers are hashed into every token."""

    id: str = Field(default="default", pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$")
    """The name of the policy, as the token holds it."""
    phases: Mapping[str, Unit] = PHASES
    """Weight of each phase."""
    salience: Unit = 0.3
    """Weight of a turn's salience beside its phase."""
    decay: Unit = 0.9
    """Factor per step away from the anchor."""
    max_nodes: PositiveCount = 256
    """Most turns in a slice."""
    radius: Count = 10
    """Farthest a turn may be from the anchor, in steps."""
    siblings: Count = 5
    """Strongest turns with the same parent that are followed from each turn."""

    @field_validator("phases")
    @classmethod
    def _refuse_empty(cls, phases: Mapping[str, float]) -> Mapping[str, float]:
        if not phases:
            raise ValueError("a slice policy needs at least one phase")
        return phases

    @property
    def params_hash(self) -> str:
        """SHA-256 of everything but the name."""
        return _digest(self.model_dump(exclude={"id"}))


@dataclass(frozen=True, slots=True)
class SliceTurn:
    """A turn of a conversation: its parent, its phase, its salience, and the digest of its text."""

    id: str
    parent: str = ""
    phase: str = "exploration"
    salience: float = 0.0
    digest: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "parent", "phase", "digest"):
            check_type(name, getattr(self, name), str)
        if not self.id or "|" in self.id or not f"{self.id}{self.parent}".isprintable():
            raise InputError(
                f"turn id {self.id[:80]!r} cannot be used", hint="no '|' or control characters"
            )
        if not (isfinite(self.salience) and 0 <= self.salience <= 1):
            raise InputError(f"salience of {self.id!r} is {self.salience}; it must be within 0..1")
        # so that 1 and 1.0, and 0.0 and -0.0, have the same hash
        object.__setattr__(self, "salience", self.salience + 0.0)

    @classmethod
    def from_chunk(cls, chunk: Chunk) -> "SliceTurn":
        """The turn that a chunk of source "turn" holds: parent, phase and salience come from its metadata."""
        given = chunk.metadata
        return cls(
            id=chunk.id,
            parent=str(given.get("parent") or ""),
            phase=str(given.get("phase") or "exploration"),
            salience=_number(chunk.id, given.get("salience", 0.0)),
            digest=sha256(chunk.text.encode("utf-8", "surrogatepass")).hexdigest(),
        )


@dataclass(frozen=True, slots=True)
class Slice:
    """The turns around an anchor, best first, and the hashes of them. A slice without a token is unsigned."""

    id: str
    anchor: str
    policy_id: str
    params_hash: str
    snapshot_hash: str
    turns: tuple[SliceTurn, ...]
    edges: tuple[tuple[str, str], ...] = ()
    schema: str = SCHEMA
    version: str = VERSION
    token: str | None = None

    @property
    def message(self) -> str:
        """What a token signs."""
        hashes = f"{self.params_hash}|{self.snapshot_hash}"
        return f"{self.id}|{self.anchor}|{self.policy_id}|{hashes}|{self.schema}|{self.version}"

    @property
    def consistent(self) -> bool:
        """Whether turns and edges match the hashes."""
        return (
            self.snapshot_hash == hash_snapshot(self.turns, self.edges)
            and self.id == _slice_id(self.anchor, self.policy_id, self.params_hash, self.turns)
            and self.schema == SCHEMA
            and self.version == VERSION
        )


def slice_around(
    turns: Iterable[SliceTurn], anchor: str, policy: SlicePolicy | None = None
) -> Slice:
    """The slice around `anchor`. Cycles, dangling parents and the order of `turns` do not matter."""
    policy = policy or SlicePolicy()
    known: dict[str, SliceTurn] = {}
    for turn in turns:
        if known.setdefault(turn.id, turn) != turn:
            raise InputError(f"two different turns have the id {turn.id!r}")
    if anchor not in known:
        raise NotFound(f"no turn has the id {anchor!r}", hint="name a turn of this conversation")
    chosen = tuple(known[id] for id in _nearest(known, anchor, policy))
    inside = {turn.id for turn in chosen}
    edges = tuple(
        sorted((t.parent, t.id) for t in chosen if t.parent in inside and t.parent != t.id)
    )
    params = policy.params_hash
    return Slice(
        id=_slice_id(anchor, policy.id, params, chosen),
        anchor=anchor,
        policy_id=policy.id,
        params_hash=params,
        snapshot_hash=hash_snapshot(chosen, edges),
        turns=chosen,
        edges=edges,
    )


def hash_snapshot(turns: Iterable[SliceTurn], edges: Iterable[tuple[str, str]]) -> str:
    """SHA-256 over the turns of a slice, in order and with all their fields, and its edges."""
    rows = [[t.id, t.parent, t.phase, t.salience, t.digest] for t in turns]
    return _digest([rows, [list(edge) for edge in edges]])


def _nearest(turns: Mapping[str, SliceTurn], anchor: str, policy: SlicePolicy) -> list[str]:
    """Ids best first, the anchor before all; every order is by strength, then id."""
    strength = {id: _strength(turn, policy) for id, turn in turns.items()}
    children: dict[str, list[str]] = defaultdict(list)
    for id in sorted(turns, key=lambda name: (-strength[name], name)):
        parent = turns[id].parent
        if parent and parent != id:
            children[parent].append(id)

    # by steps: pow() may differ between machines
    fade = list(accumulate(repeat(policy.decay, policy.radius), mul, initial=1.0))
    chosen: dict[str, None] = {}
    heap = [(-strength[anchor], anchor, 0)]
    while heap and len(chosen) < policy.max_nodes:
        _, id, distance = heappop(heap)
        if id not in chosen:
            chosen[id] = None
            step = distance + 1
            near = _neighbors(id, turns, children, policy.siblings) if step < len(fade) else ()
            for neighbor in near:
                if neighbor not in chosen:
                    heappush(heap, (-strength[neighbor] * fade[step], neighbor, step))
    return list(chosen)


def _neighbors(
    id: str, turns: Mapping[str, SliceTurn], children: Mapping[str, list[str]], most: int
) -> list[str]:
    """The children, the parent and the strongest siblings of a turn."""
    parent, found = turns[id].parent, list(children.get(id, ()))
    if parent != id:
        siblings = children.get(parent, ())[: most + 1]
        found += [parent] * (parent in turns)
        found += [other for other in siblings if other != id][:most]
    return found


def _strength(turn: SliceTurn, policy: SlicePolicy) -> float:
    if turn.phase not in policy.phases:
        known = ", ".join(sorted(policy.phases))
        raise InputError(f"turn {turn.id!r} has the phase {turn.phase!r}", hint=f"use {known}")
    return policy.phases[turn.phase] + policy.salience * turn.salience


def _slice_id(anchor: str, policy_id: str, params_hash: str, turns: Iterable[SliceTurn]) -> str:
    return _digest([SCHEMA, VERSION, anchor, policy_id, params_hash, [t.id for t in turns]])[:32]


def _digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _number(id: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"salience of {id!r} is {value!r}; it must be a number") from None
