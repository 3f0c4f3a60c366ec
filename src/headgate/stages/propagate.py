"""Propagate: from what was found to what it is connected to.

"entities" (default): the best chunks pass their mass to chunks that share a rare proper name with them
(rank/name_hop.py); given knowledge edges carry it on to the names and chunks they lead to:
s = s1 + min(.7, open)·x / max x, if a seed holds a rare name of the query. `open` is the share of the query that the
best chunk does not hold: an answer in one place needs no second one. It is less in code, where capitals do not mark
names, and 0 in JSON (text/languages.py). If nothing came over given edges, a chunk also gains by the share of the query
that better ones do not hold, since the parts of such an answer differ.
"fire": leaky integrate-and-fire (published/entropy_gating.py) over given edges, neighbors and shared names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import Policy, PositiveCount, Tuning, Unit, Weight
from headgate.protocols import Postings, Snapshot
from headgate.published.entropy_gating import FIRING_THRESHOLD, integrate_and_fire
from headgate.rank.edge_walk import ChunkGraph, Node, carry, link_nodes
from headgate.rank.lexical import Floats, Ints, Keys, distinct, idf, within
from headgate.rank.name_hop import (
    NONE,
    NamePostings,
    ReachedChunks,
    find_name_postings,
    name_masses,
    novelty_shares,
    open_share,
    posting_shares,
    receive,
    receptivity,
    shares_name,
    spread,
    strongest_names,
)
from headgate.rank.top import RankingScores, best, read_chunks, scores_of, top
from headgate.relevance.cues import CueFactors, cues
from headgate.text.languages import likeness_to_code
from headgate.text.names import names
from headgate.text.terms import number, terms, words
from headgate.text.turns import add_head
from headgate.types import Candidate, Edge, Sifted

# best chunks that are ranked again by what better ones do not hold; no figure was kept for this depth
RERANK_DEPTH = 40


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
    threshold: Tuning[Unit] = FIRING_THRESHOLD
    """"fire": the potential at which a chunk becomes a candidate."""
    neighbor_weight: Tuning[Unit] = 0.5
    """"fire": the weight of the edge between neighboring lines of a conversation."""
    max_name_chunks: Tuning[PositiveCount] = 64
    """"fire": names in more than this many chunks connect none of them."""

    @property
    def edge_hops(self) -> int:
        """How many hops of given edges are needed: "fire" follows them as far as signals go."""
        return self.hops if self.mode == "fire" else 1

    @property
    def shares(self) -> CueFactors:
        """The shares of the cues."""
        return CueFactors(self.question_factor, self.other_speaker_factor, self.undated_factor)


@dataclass(frozen=True, slots=True)
class PropagationSeeds:
    """Where signals start: the best chunks, and the query's names, words and terms."""

    ords: Ints
    strength: Floats
    scores: RankingScores
    query_names: tuple[str, ...]  # the names and words of the query
    query_keys: Keys  # the same as keys
    hits: Postings  # of the query's terms
    term_weight: Floats  # the idf of each, 0 for a term that no chunk holds


@dataclass(frozen=True, slots=True)
class ScoreBoost:
    """What was reached, and what flowed through the postings of which names to get there.

    With a `novelty_weight` the ranking is ordered once more by what each chunk says anew.
    """

    reached: ReachedChunks
    names: NamePostings | None = None
    posting_flow: Floats | None = None
    novelty_weight: float = 0.0


def propagate(
    found: Sifted,
    query: str,
    view: Snapshot,
    policy: PropagatePolicy,
    *,
    seeds: PropagationSeeds | None = None,
    edges: Sequence[Edge] = (),
) -> Sifted:
    """Lift and add what the best of the found chunks are connected to, by names and given edges. Best first.

    `seeds` are what `find_seeds` gives for the same arguments, if the caller has them already; `edges` are the given
    edges around them.
    """
    seeds = seeds or find_seeds(found, query, view, policy)
    if seeds is None:
        return Sifted(kept=found.kept)
    if policy.mode == "fire":
        boost = _fire(view, seeds, policy, edges)
    else:
        boost = _hop(view, seeds, policy, edges, found=found.kept)
    ords, scores = _rank_boosted(view, seeds, boost, policy.keep)
    came = dict(zip(seeds.scores.kept.tolist(), found.kept, strict=True))
    new = ords[~within(np.sort(seeds.scores.kept), ords)]
    fresh = {ord: Candidate(chunk, 0.0) for ord, chunk in read_chunks(view, new).items()}
    if view.conversational:
        lines = [came.get(ord) or fresh.get(ord) for ord in ords.tolist()]
        scores *= _cue_factors(query, lines, view, policy)
    sifted = _note_ranking(ords, scores, _reasons(boost, ords, view), came, fresh)
    if not view.conversational:
        return sifted
    return replace(sifted, kept=tuple(sorted(sifted.kept, key=lambda c: -c.score)))


def find_seeds(
    found: Sifted, query: str, view: Snapshot, policy: PropagatePolicy
) -> PropagationSeeds | None:
    """Where signals start for what was found; None if none do."""
    if policy.mode == "off" or not found.kept:
        return None
    scores = scores_of(found, view)
    hits = scores.hits
    if hits is None:
        hits = view.postings(distinct(np.array(terms(query, view.language), np.uint64)))
    query_names = tuple(dict.fromkeys((*sorted(names(query)), *words(query))))
    return PropagationSeeds(
        ords=scores.seeds[: policy.seeds],
        strength=scores.strength[: policy.seeds],
        scores=scores,
        query_names=query_names,
        query_keys=distinct(np.array([number(name) for name in query_names], np.uint64)),
        hits=hits,
        term_weight=idf(view.count, hits.counts) * (hits.counts > 0),
    )


def graph_nodes(seeds: PropagationSeeds, view: Snapshot, policy: PropagatePolicy) -> list[str]:
    """The nodes whose edges matter: the query's names, the seeds' ids and the seeds' names."""
    held = _seed_names(view, seeds, policy)
    return [*seeds.query_names, *view.ids(seeds.ords), *view.labels(held.keys)]


def _seed_names(
    view: Snapshot, seeds: PropagationSeeds, policy: PropagatePolicy, extra: Keys = NONE
) -> NamePostings:
    """The seeds' names that lead on, and some given ones."""
    return find_name_postings(
        view,
        seeds.ords,
        limit=_name_limit(view, policy),
        share=policy.proper,
        extra=extra,
        query=seeds.query_keys,
    )


def _name_limit(view: Snapshot, policy: PropagatePolicy) -> int:
    """The most chunks that may hold a name which leads on."""
    return min(max(5, int(policy.common * view.count)), policy.cap)


# -- shared names and given edges ----------------------------------------------------------------


def _hop(
    view: Snapshot,
    seeds: PropagationSeeds,
    policy: PropagatePolicy,
    edges: Sequence[Edge],
    *,
    found: Sequence[Candidate],
) -> ScoreBoost:
    """What shared names and given edges reach; nothing if neither the query's names nor edges lead anywhere."""
    carried = _carry_mass(view, seeds, edges, policy) if edges else {}
    gain = policy.weight
    if not carried:
        gain = min(gain, _open_weight(view, seeds, policy, found))
    if gain <= 0:
        return ScoreBoost(ReachedChunks(seeds.ords[:0], np.zeros(0)))
    extra = np.array(sorted({number(node.text.lower()) for node in carried}), np.uint64)
    held = _seed_names(view, seeds, policy, extra)
    from_seeds = name_masses(view, held, seeds.strength, without=seeds.query_keys)
    score_mass = np.vstack([from_seeds, _mass_by_name(carried, held)])
    posting_share = posting_shares(held, gamma=policy.spread, title=policy.title)
    ords, sent = spread(held, posting_share, score_mass, seeds.ords)
    receptivities = receptivity(
        seeds.hits, seeds.term_weight, seeds.ords, ords, least=policy.min_share
    )
    reached = _join_linked(view, receive(ords, sent, receptivities), carried)
    peak = reached.boost.max() if len(reached.boost) else 1.0
    return ScoreBoost(
        ReachedChunks(reached.ords, gain * reached.boost / peak),
        held,
        posting_flow=score_mass.sum(0)[held.which] * posting_share,
        novelty_weight=0.0 if carried else gain / policy.weight,
    )


def _open_weight(
    view: Snapshot, seeds: PropagationSeeds, policy: PropagatePolicy, found: Sequence[Candidate]
) -> float:
    """The share of the query that the best chunk leaves open, less in code; 0 without a rare name of the query."""
    if not len(seeds.ords):
        return 0.0
    share = open_share(seeds.hits, seeds.term_weight, int(seeds.ords[0]))
    limit = _name_limit(view, policy)
    if share <= 0 or not shares_name(
        view, seeds.ords, seeds.query_keys, limit=limit, share=policy.proper
    ):
        return 0.0
    return (1 - likeness_to_code([c.chunk.text for c in found[: policy.seeds]])) * share


def _carry_mass(
    view: Snapshot, seeds: PropagationSeeds, edges: Sequence[Edge], policy: PropagatePolicy
) -> dict[Node, float]:
    """How much mass given edges carry to which nodes, from the query's names and the seeds outward."""
    ords = seeds.ords
    charges = dict.fromkeys(map(Node, seeds.query_names), policy.edge)
    # a word of the query may be the id of a chunk too
    charges |= dict.fromkeys((Node(word, is_chunk=True) for word in seeds.query_names), policy.edge)
    masses = policy.edge * (seeds.strength / seeds.strength[0]) ** 2
    for id, held, mass in zip(view.ids(ords), view.names(ords), masses.tolist(), strict=True):
        charges[Node(id, is_chunk=True)] = mass
        for label in view.labels(held):
            charges.setdefault(Node(label), mass / len(held))
    links = link_nodes(edges, view)
    return carry(charges, links, leak=policy.leak, floor=policy.floor, hops=policy.hops)


def _mass_by_name(carried: Mapping[Node, float], held: NamePostings) -> Floats:
    """The mass that edges carried to each name."""
    masses = np.zeros(len(held.keys))
    for node, mass in carried.items():
        named = held.keys == number(node.text.lower())
        masses[named] = np.maximum(masses[named], mass)
    return masses


def _join_linked(
    view: Snapshot, reached: ReachedChunks, carried: Mapping[Node, float]
) -> ReachedChunks:
    """What was reached through names, joined with the chunks that edges lead to by their ids."""
    nodes = sorted(node for node in carried if node.is_chunk)
    linked = view.find([node.text for node in nodes])
    if not (linked >= 0).any():
        return reached
    masses = np.array([carried[node] for node in nodes])[linked >= 0]
    linked = linked[linked >= 0]
    ords = distinct(np.concatenate([reached.ords, linked]))
    total = np.zeros(len(ords))
    total[np.searchsorted(ords, reached.ords)] = reached.boost
    np.add.at(total, np.searchsorted(ords, linked), masses)
    return ReachedChunks(ords, total)


# -- leaky integrate-and-fire --------------------------------------------------------------------


def _fire(
    view: Snapshot, seeds: PropagationSeeds, policy: PropagatePolicy, edges: Sequence[Edge]
) -> ScoreBoost:
    """The chunks that fire, with their potentials as shares of the highest."""
    limit = min(_name_limit(view, policy), policy.max_name_chunks)
    graph = ChunkGraph(view, edges, beside=policy.neighbor_weight, limit=limit, share=policy.proper)
    fired = integrate_and_fire(
        [Node(id, is_chunk=True) for id in view.ids(seeds.ords)],
        graph.edges,
        leak=policy.leak,
        floor=policy.floor,
        hops=policy.hops,
        threshold=policy.threshold,
    )
    chunks = {node.text: potential for node, potential in fired.items() if node.is_chunk}
    by_ord = dict(zip(view.find(list(chunks)).tolist(), chunks.values(), strict=True))
    ords = np.array(sorted(ord for ord in by_ord if ord >= 0), np.int64)
    potentials = np.array([by_ord[ord] for ord in ords.tolist()], float)
    peak = potentials.max() if len(potentials) else 1.0
    return ScoreBoost(ReachedChunks(ords, policy.weight * potentials / peak))


# -- the new order -------------------------------------------------------------------------------


def _rank_boosted(
    view: Snapshot, seeds: PropagationSeeds, boost: ScoreBoost, keep: int
) -> tuple[Ints, Floats]:
    """The chunks with the highest scores after the boost, best first, and these scores, none above 1."""
    found, reached = seeds.scores, boost.reached
    plain = found.kept[:keep] if found.ranked >= keep else top(found.every, keep, view)
    peak = float(found.every[plain[0]])
    plain = plain[~within(reached.ords, plain)]
    ords = np.concatenate([plain, reached.ords])
    scores = found.every[ords] / peak
    scores[len(plain) :] += reached.boost
    order = best(scores, keep, ords, view)
    ords, scores = ords[order], scores[order]
    if boost.novelty_weight:
        ords, scores = _rerank_by_novelty(seeds, ords, scores, boost.novelty_weight)
    scores /= max(1.0, float(scores.max()))
    return ords, scores


def _rerank_by_novelty(
    seeds: PropagationSeeds, ords: Ints, scores: Floats, weight: float
) -> tuple[Ints, Floats]:
    """The ranking in which the best chunks gain by what those above them do not hold, best first."""
    first = ords[:RERANK_DEPTH]
    scores[:RERANK_DEPTH] += novelty_shares(seeds.hits, seeds.term_weight, first, weight=weight)
    order = np.argsort(-scores, kind="stable")
    return ords[order], scores[order]


def _cue_factors(
    query: str, lines: Sequence[Candidate | None], view: Snapshot, policy: PropagatePolicy
) -> list[float]:
    """What is left of the score of each line of a conversation; a chunk that is gone has no text."""
    texts = [add_head(line.chunk.text, line.chunk.metadata) if line else "" for line in lines]
    return cues(query, texts, view.language, policy.shares)


def _note_ranking(
    ords: Ints,
    scores: Floats,
    reasons: Sequence[tuple[NoteCode, str, float]],
    came: Mapping[int, Candidate],
    fresh: Mapping[int, Candidate],
) -> Sifted:
    """The ranking as candidates: those that came and stay, those that are new, and those that came and go."""
    kept, added, gone = [], [], dict(came)
    for ord, score, (code, name, gain) in zip(ords.tolist(), scores.tolist(), reasons, strict=True):
        known = gone.pop(ord, None)
        candidate = known or fresh.get(ord)
        if candidate is None:
            continue
        fate = Fate.KEEP if known else Fate.ADD
        noted = candidate.with_note(
            Stage.PROPAGATE, fate, code, score=score, subject=name, gain=gain
        )
        kept.append(noted)
        if not known:
            added.append(noted)
    dropped = tuple(
        c.with_note(Stage.PROPAGATE, Fate.DROP, NoteCode.OUTRANKED, score=0.0)
        for c in gone.values()
    )
    return Sifted(tuple(kept), dropped, tuple(added))


def _reasons(boost: ScoreBoost, ords: Ints, view: Snapshot) -> list[tuple[NoteCode, str, float]]:
    """Why each of some chunks was lifted, through which name, and by how much."""
    reached = boost.reached
    if not len(reached.ords):
        return [(NoteCode.AS_FOUND, "", 0.0)] * len(ords)
    gains = dict(zip(reached.ords.tolist(), reached.boost.tolist(), strict=True))
    labels = _name_labels(boost, ords[within(reached.ords, ords)], view)
    return [_reason(labels.get(ord, ""), gains.get(ord, 0.0)) for ord in ords.tolist()]


def _reason(name: str, gain: float) -> tuple[NoteCode, str, float]:
    if not gain:
        return NoteCode.AS_FOUND, "", 0.0
    return (NoteCode.SHARES_NAME if name else NoteCode.CONNECTED), name, gain


def _name_labels(boost: ScoreBoost, ords: Ints, view: Snapshot) -> dict[int, str]:
    """For each chunk, the name through which most of its score reached it."""
    if boost.names is None or boost.posting_flow is None:
        return {}
    through = strongest_names(boost.names, boost.posting_flow, ords)
    used = sorted(set(through.values()))
    labels = dict(zip(used, view.labels(boost.names.keys[used]), strict=True))
    return {ord: labels[name] for ord, name in through.items()}
