"""Propagate: from what was found to what it is connected to.

"entities" (default): the best chunks pass their mass to chunks that share a rare proper name with them
(rank/name_hop.py); given knowledge edges carry it on to the names and chunks they lead to:
s = s1 + min(.7, open)·x / max x, where a seed holds a rare name of the query and `open` is the share of the query that
the best chunk does not hold: an answer in one place needs no second one. In code, where capitals make no names, it is
less, and in JSON nothing (text/languages.py). There a chunk gains once more by the share of
the query that the better ones do not hold, since the parts of such an answer differ.
"fire": leaky integrate-and-fire over given edges, neighbors and shared names (rank/edge_walk.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from headgate.classes import lazy_property
from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import Policy, PositiveCount, Tuning, Unit, Weight
from headgate.protocols import Postings, Snapshot
from headgate.rank.edge_walk import Neighbors, Node, carry, fire, link_nodes
from headgate.rank.lexical import Floats, Ints, Keys, distinct, rarity, within
from headgate.rank.name_hop import (
    NONE,
    Names,
    Reach,
    gather,
    name_masses,
    new_shares,
    open_share,
    posting_shares,
    receptivity,
    shares_name,
    spread,
    strongest,
)
from headgate.rank.top import Scores, best, read_chunks, scores_of, top
from headgate.relevance.cues import CueFactors, cues
from headgate.text.languages import likeness_to_code
from headgate.text.names import names
from headgate.text.terms import number, terms, words
from headgate.text.turns import add_head
from headgate.types import Candidate, Edge, Sifted

NEWS = 40  # best chunks that are looked at for what better ones do not hold


class PropagatePolicy(Policy):
    """How far and how strongly hits lift what they are connected to."""

    mode: Literal["entities", "fire", "off"] = "entities"
    """"entities" hops over shared names and given edges; "fire" is leaky integrate-and-fire."""
    keep: Tuning[PositiveCount] = 100
    """How many chunks to hand on."""
    weight: Tuning[Weight] = 0.7
    """What the most strongly reached chunk gains at most; through names, no more than the share of the query that the
    best chunk leaves open."""
    seeds: Tuning[Annotated[int, Field(ge=1, le=64)]] = 8
    """How many of the best chunks pass on their mass."""
    spread: Tuning[Unit] = 0.7
    """A name in df chunks gives each of them 1 / df to this power."""
    title: Tuning[Weight] = 0.5
    """What a name in a title adds."""
    min_share: Tuning[Unit] = 0.05
    """The share of a seed's mass that reaches a chunk which holds nothing of the query that the seed leaves open;
    holding some adds its share."""
    proper: Tuning[Unit] = 0.5
    """A word is a proper name when it is capitalized in this share of its uses inside sentences."""
    common: Tuning[Unit] = 0.02
    """Names in more than this share of the chunks (and in more than 5) lead nowhere ..."""
    cap: Tuning[PositiveCount] = 500
    """... nor do names in more than this many chunks, which bounds the work: each would get 1 / 77 of the mass."""
    edge: Tuning[Weight] = 1.0
    """Mass that a given edge of weight 1 carries from a name of the query or from the best seed."""
    leak: Tuning[Unit] = 0.85
    """What is left of a signal after one edge."""
    floor: Tuning[Unit] = 0.02
    """Weaker signals are discarded."""
    hops: Tuning[Annotated[int, Field(ge=0, le=6)]] = 3
    """How many edges a signal travels."""
    question_factor: Tuning[Unit] = 0.8
    """Conversations: what is left of the score of a line that ends with a question."""
    other_speaker_factor: Tuning[Unit] = 0.6
    """... of a line by someone else, when the query names one speaker."""
    undated_factor: Tuning[Unit] = 0.7
    """... of a line without a word about time, when the query asks when."""
    threshold: Tuning[Unit] = 0.5
    """"fire": the potential at which a chunk becomes a candidate."""
    neighbor_weight: Tuning[Unit] = 0.5
    """"fire": the weight of the edge between neighboring lines of a conversation."""
    max_name_chunks: Tuning[PositiveCount] = 64
    """"fire": names in more than this many chunks wire nobody."""

    @property
    def edge_hops(self) -> int:
        """How many hops of given edges are needed: "fire" follows them as far as signals go."""
        return self.hops if self.mode == "fire" else 1

    @property
    def shares(self) -> CueFactors:
        """The shares of the cues."""
        return CueFactors(self.question_factor, self.other_speaker_factor, self.undated_factor)


def propagate(
    found: Sifted,
    query: str,
    view: Snapshot,
    policy: PropagatePolicy,
    *,
    start: "Start | None" = None,
    edges: Sequence[Edge] = (),
) -> Sifted:
    """Lift and add what the best of the found chunks are connected to, by names and given edges. Best first.

    `start` is what `start_of` gives for the same arguments, where the caller has it already; `edges` are the given
    edges around its nodes.
    """
    start = start or start_of(found, query, view, policy)
    if start is None:
        return Sifted(kept=found.kept)
    follow = _fire if policy.mode == "fire" else _hop
    lift = follow(view, start, policy, edges)
    return _sift(found, query, view, policy, connected=(start.scores, lift))


def start_of(found: Sifted, query: str, view: Snapshot, policy: PropagatePolicy) -> "Start | None":
    """Where signals start for what was found; None where none do."""
    if policy.mode == "off" or not found.kept:
        return None
    scores = scores_of(found, view)
    hits = scores.hits
    if hits is None:
        hits = view.postings(distinct(np.array(terms(query, view.language), np.uint64)))
    seeds, strength = scores.seeds[: policy.seeds], scores.strength[: policy.seeds]
    return Start(query, scores, hits, seeds, strength, found.kept, view, policy)


@dataclass(frozen=True)
class Start:
    """Where signals start: the best chunks, and, once asked for, the query's words and names and the names that lead
    on: where the best chunk holds the whole query, none do.
    """

    query: str
    scores: Scores
    hits: Postings
    seeds: Ints
    strength: Floats
    found: Sequence[Candidate]
    view: Snapshot
    policy: PropagatePolicy

    @lazy_property
    def said(self) -> tuple[str, ...]:
        """The query's names and words."""
        return tuple(dict.fromkeys((*sorted(names(self.query)), *words(self.query))))

    @lazy_property
    def own(self) -> Keys:
        """The same as keys."""
        return distinct(np.array([number(name) for name in self.said], np.uint64))

    @lazy_property
    def names(self) -> Names:
        """The seeds' names that lead on."""
        return self.gather()

    def gather(self, extra: Keys = NONE) -> Names:
        """The same, and some given ones."""
        limit, share = _limit(self.view, self.policy), self.policy.proper
        return gather(self.view, self.seeds, limit=limit, share=share, extra=extra, query=self.own)

    def open_weight(self, worth: Floats) -> float:
        """The share of the query that the best chunk leaves open, less in code; 0 without a rare name of the query."""
        share = open_share(self.hits, worth, int(self.seeds[0])) if len(self.seeds) else 0.0
        limit, proper = _limit(self.view, self.policy), self.policy.proper
        if share <= 0 or not shares_name(
            self.view, self.seeds, self.own, limit=limit, share=proper
        ):
            return 0.0
        texts = [c.chunk.text for c in self.found[: self.policy.seeds]]
        return (1 - likeness_to_code(texts)) * share

    def nodes(self, view: Snapshot) -> Iterable[str]:
        """What is worth asking a graph about: the query's names, the seeds' ids and the seeds' names."""
        return (*self.said, *view.ids(self.seeds), *view.labels(self.names.keys))


def _limit(view: Snapshot, policy: PropagatePolicy) -> int:
    return min(max(5, int(policy.common * view.count)), policy.cap)


# -- shared names and given edges ----------------------------------------------------------------


def _hop(view: Snapshot, start: Start, policy: PropagatePolicy, edges: Sequence[Edge]) -> "_Lift":
    """What shared names and given edges reach; nothing where neither the query's names nor edges lead anywhere."""
    carried = _carry_mass(view, start, edges, policy) if edges else {}
    worth = rarity(view.count, start.hits.counts) * (start.hits.counts > 0)
    gain = policy.weight
    if not carried:
        gain = min(gain, start.open_weight(worth))
    if gain <= 0:
        return _Lift(Reach(start.seeds[:0], np.zeros(0)))
    extra = np.array(sorted({number(node.text.lower()) for node in carried}), np.uint64)
    led = start.gather(extra) if carried else start.names
    mass = name_masses(view, led, start.strength, without=start.own)
    given = np.zeros(len(led.keys))
    for node, force in carried.items():
        named = led.keys == number(node.text.lower())
        given[named] = np.maximum(given[named], force)
    mass = np.vstack([mass, given])
    way = posting_shares(led, gamma=policy.spread, title=policy.title)
    receive = receptivity(start.hits, worth, start.seeds, least=policy.min_share)
    reach = _join_linked(view, spread(led, way, mass, start.seeds, receive), carried)
    peak = reach.force.max() if len(reach.force) else 1.0
    flow = mass.sum(0)[led.which] * way
    lifted = Reach(reach.ords, gain * reach.force / peak)
    if carried:
        return _Lift(lifted, led, flow)
    news = partial(new_shares, start.hits, worth, weight=gain / policy.weight)
    return _Lift(lifted, led, flow, news)


def _carry_mass(
    view: Snapshot, start: Start, edges: Sequence[Edge], policy: PropagatePolicy
) -> dict[Node, float]:
    """How much mass given edges carry to which nodes, from the query's names and the seeds outward."""
    seeds = start.seeds
    charges = dict.fromkeys(map(Node, start.said), policy.edge)
    # a word of the query may be the id of a chunk too
    charges |= dict.fromkeys((Node(word, is_chunk=True) for word in start.said), policy.edge)
    force = policy.edge * (start.strength / start.strength[0]) ** 2
    for id, mine, mass in zip(view.ids(seeds), view.names(seeds), force.tolist(), strict=True):
        charges[Node(id, is_chunk=True)] = mass
        for label in view.labels(mine):
            charges.setdefault(Node(label), mass / len(mine))
    links = link_nodes(edges, view)
    return carry(charges, links, leak=policy.leak, floor=policy.floor, hops=policy.hops)


def _join_linked(view: Snapshot, reach: Reach, carried: dict[Node, float]) -> Reach:
    """What was reached through names, joined with the chunks that edges lead to by their ids."""
    nodes = sorted(node for node in carried if node.is_chunk)
    linked = view.find([node.text for node in nodes])
    if not (linked >= 0).any():
        return reach
    force = np.array([carried[node] for node in nodes])[linked >= 0]
    linked = linked[linked >= 0]
    ords = distinct(np.concatenate([reach.ords, linked]))
    total = np.zeros(len(ords))
    total[np.searchsorted(ords, reach.ords)] = reach.force
    np.add.at(total, np.searchsorted(ords, linked), force)
    return Reach(ords, total)


# -- leaky integrate-and-fire --------------------------------------------------------------------


def _fire(view: Snapshot, start: Start, policy: PropagatePolicy, edges: Sequence[Edge]) -> "_Lift":
    """The chunks that fire, with their potentials as shares of the highest."""
    limit = min(_limit(view, policy), policy.max_name_chunks)
    graph = Neighbors(view, edges, beside=policy.neighbor_weight, limit=limit, share=policy.proper)
    fired = fire(
        [Node(id, is_chunk=True) for id in view.ids(start.seeds)],
        graph.edges,
        leak=policy.leak,
        floor=policy.floor,
        hops=policy.hops,
        threshold=policy.threshold,
    )
    chunks = {node.text: force for node, force in fired.items() if node.is_chunk}
    potential = dict(zip(view.find(list(chunks)).tolist(), chunks.values(), strict=True))
    ords = np.array(sorted(ord for ord in potential if ord >= 0), np.int64)
    force = np.array([potential[ord] for ord in ords.tolist()], float)
    peak = force.max() if len(force) else 1.0
    return _Lift(Reach(ords, policy.weight * force / peak))


# -- the new order -------------------------------------------------------------------------------


def _sift(
    found: Sifted,
    query: str,
    view: Snapshot,
    policy: PropagatePolicy,
    *,
    connected: tuple[Scores, "_Lift"],
) -> Sifted:
    """Everyone's new score, the best of all, and who is new among them."""
    (scores, lift), keep = connected, policy.keep
    reach = lift.reach
    known = scores.ranked >= keep
    plain = scores.kept[:keep] if known else top(scores.every, keep, view.reading_order_key)
    peak = float(scores.every[plain[0]])
    plain = plain[~within(reach.ords, plain)]
    everyone = np.concatenate([plain, reach.ords])
    value = scores.every[everyone] / peak
    value[len(plain) :] += reach.force
    order = best(value, keep, lambda index: view.reading_order_key(everyone[index]))
    ords, value = lift.lead_with_news(everyone[order], value[order])
    value /= max(1.0, float(value.max()))
    gains = lift.gains(ords, view)
    came = dict(zip(scores.kept.tolist(), found.kept, strict=True))
    new = ords[~within(np.sort(scores.kept), ords)]
    fresh = {ord: Candidate(chunk, 0.0) for ord, chunk in read_chunks(view, new).items()}
    if view.conversational:
        lines = [came.get(ord) or fresh.get(ord) for ord in ords.tolist()]
        texts = [add_head(line.chunk.text, line.chunk.metadata) if line else "" for line in lines]
        value *= cues(query, texts, view.language, policy.shares)
    kept, added = [], []
    for ord, score, (code, name, gain) in zip(ords.tolist(), value.tolist(), gains, strict=True):
        candidate = came.pop(ord, None)
        fate = Fate.KEEP if candidate else Fate.ADD
        if candidate := candidate or fresh.get(ord):
            kept.append(
                candidate.with_note(
                    Stage.PROPAGATE, fate, code, score=score, subject=name, gain=gain
                )
            )
            if fate is Fate.ADD:
                added.append(kept[-1])
    if view.conversational:
        kept.sort(key=lambda c: -c.score)
    dropped = tuple(
        c.with_note(Stage.PROPAGATE, Fate.DROP, NoteCode.OUTRANKED, score=0.0)
        for c in came.values()
    )
    return Sifted(tuple(kept), dropped, tuple(added))


@dataclass(frozen=True, slots=True)
class _Lift:
    """What was reached, and what flowed through which names to get there."""

    reach: Reach
    names: Names | None = None
    flow: Floats | None = None
    # ranked chunks -> what each says that better ones do not
    news: Callable[[Ints], Floats] | None = None

    def lead_with_news(self, ords: Ints, value: Floats) -> tuple[Ints, Floats]:
        """The ranking with what the best of it say anew added to their scores, best first."""
        if self.news is None:
            return ords, value
        value = value.copy()
        value[:NEWS] += self.news(ords[:NEWS])
        order = np.argsort(-value, kind="stable")
        return ords[order], value[order]

    def gains(self, ords: Ints, view: Snapshot) -> list[tuple[NoteCode, str, float]]:
        """Why each of some chunks was lifted, through which name, and by how much."""
        if not len(self.reach.ords):
            return [_gain("", 0.0)] * len(ords)
        force = dict(zip(self.reach.ords.tolist(), self.reach.force.tolist(), strict=True))
        labels = self._labels(ords[within(self.reach.ords, ords)], view)
        return [_gain(labels.get(ord, ""), force.get(ord, 0.0)) for ord in ords.tolist()]

    def _labels(self, ords: Ints, view: Snapshot) -> dict[int, str]:
        """For each chunk, the name through which most of its score reached it."""
        if self.names is None or self.flow is None:
            return {}
        through = strongest(self.names, self.flow, ords)
        used = sorted(set(through.values()))
        labels = dict(zip(used, view.labels(self.names.keys[used]), strict=True))
        return {ord: labels[name] for ord, name in through.items()}


def _gain(name: str, gain: float) -> tuple[NoteCode, str, float]:
    if not gain:
        return NoteCode.AS_FOUND, "", 0.0
    return (NoteCode.SHARES_NAME if name else NoteCode.CONNECTED), name, gain
