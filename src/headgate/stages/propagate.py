"""Propagate: from what was found to what it is connected to.

"entities" (default): the best chunks pass their mass to chunks that share a rare proper name with them
(rank/name_hop.py): s = s1 + min(.7, open)·x / max x, if a seed holds a rare name of the query. `open` is the share of
the query that the best chunk does not hold: an answer in one place needs no second one. It is less in code, where
capitals do not mark names, and 0 in JSON (text/languages.py). A chunk also gains by the share of the query that better
ones do not hold, since the parts of such an answer differ.
Given knowledge edges carry signals up to three hops, from the query's names and the best chunks to the names and chunks
they lead to: s gains .7·x, where x is 1 one edge of weight 1 away from a name of the query, and .85 of it each edge on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from itertools import islice, pairwise
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from headgate.notes import Fate, NoteCode, Stage
from headgate.policy import Policy, PositiveCount, Tuning, Unit, Weight
from headgate.protocols import Postings, Snapshot
from headgate.rank.edge_walk import Node, carry, link_nodes
from headgate.rank.lexical import Floats, Ints, Keys, distinct, idf, within
from headgate.rank.name_hop import (
    NamePostings,
    ReachedChunks,
    find_name_postings,
    find_written_names,
    name_masses,
    novelty_shares,
    open_share,
    posting_shares,
    receive,
    receive_by_name,
    receptivity,
    select_rare,
    shares_name,
    spread,
    strongest_names,
)
from headgate.rank.top import RankingScores, best, read_chunks, scores_of, top
from headgate.relevance.cues import CueFactors, cues
from headgate.text.languages import likeness_to_code
from headgate.text.names import names, spelled_words
from headgate.text.terms import number, terms, words
from headgate.text.turns import add_head
from headgate.types import Candidate, Chunk, Edge, Sifted

# best chunks that are ranked again by what better ones do not hold; no figure was kept for this depth
RERANK_DEPTH = 40
# Bounds on what given edges lead to, chosen so that a request over a large graph stays within some milliseconds.
WORD_SEEDS = 3  # best seeds whose words are looked up in the graph ...
SEED_WORDS = 100  # ... and how many words of each
MAX_NAMES = 32  # names that edges lead to, whose chunks are found
MAX_PARTS = 64  # chunks of a document among which the best is chosen

Charges = dict[Node, float]


class PropagatePolicy(Policy):
    """How far and how strongly hits lift what they are connected to."""

    mode: Literal["entities", "off"] = "entities"
    """"entities" hops over shared names and given edges; "off" leaves the ranking as it was found."""
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
    """How many given edges a signal travels; each takes its share (`leak`). Shared names lead one hop: a second brought
    nothing in any labeled set."""
    question_factor: Tuning[Unit] = 0.8
    """Conversations: what is left of the score of a line that ends with a question."""
    other_speaker_factor: Tuning[Unit] = 0.6
    """... of a line by someone else, when the query names one speaker."""
    undated_factor: Tuning[Unit] = 0.7
    """... of a line without a word about time, when the query asks when."""


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
    chunks: tuple[Chunk | None, ...] = ()  # the seeds' own, None for one that was not handed on
    written_names: tuple[tuple[str, ...], ...] = ()
    """For each seed, the names of the graph that its text writes without capitals."""


@dataclass(frozen=True, slots=True)
class NameFlow:
    """What flowed through the postings of which names; `labels` is how they read, if the index does not know it."""

    names: NamePostings
    posting_flow: Floats
    labels: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ScoreBoost:
    """What was reached, and what flowed through which names to get there.

    With a `novelty_weight` the ranking is ordered once more by what each chunk says anew.
    """

    reached: ReachedChunks
    flows: tuple[NameFlow, ...] = ()
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
    if policy.mode != "off":
        seeds = seeds or find_seeds(found, query, view, policy)
    if policy.mode == "off" or seeds is None:
        return Sifted(kept=found.kept)
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
    if not found.kept:
        return None
    scores = scores_of(found, view)
    handed = dict(zip(scores.kept.tolist(), found.kept, strict=True))
    first = scores.seeds[: policy.seeds]
    came = [handed.get(ord) for ord in first.tolist()]
    hits = scores.hits
    if hits is None:
        hits = view.postings(distinct(np.array(terms(query, view.language), np.uint64)))
    query_names = tuple(dict.fromkeys((*sorted(names(query)), *words(query))))
    return PropagationSeeds(
        ords=first,
        strength=scores.strength[: policy.seeds],
        scores=scores,
        query_names=query_names,
        query_keys=distinct(np.array([number(name) for name in query_names], np.uint64)),
        hits=hits,
        term_weight=idf(view.count, hits.counts) * (hits.counts > 0),
        chunks=tuple(candidate.chunk if candidate else None for candidate in came),
    )


def seed_words(seeds: PropagationSeeds) -> list[list[str]]:
    """For each seed, the words of its text, and pairs of them: a text may write a name of the graph in any case.

    Only the best seeds have any: a name leads on from those most strongly.
    """
    return [
        _words_and_pairs(chunk.text) if chunk and place < WORD_SEEDS else []
        for place, chunk in enumerate(seeds.chunks)
    ]


def with_written_names(
    seeds: PropagationSeeds,
    words: Sequence[Sequence[str]],
    nodes: Sequence[str],
    view: Snapshot,
    policy: PropagatePolicy,
) -> PropagationSeeds:
    """The seeds with those nodes of the graph that are among their words; a common word is no name."""
    rare = set(select_rare(view, nodes, limit=_name_limit(view, policy)))
    written = tuple(tuple(dict.fromkeys(w for w in own if w in rare)) for own in words)
    return replace(seeds, written_names=written)


def edge_charges(seeds: PropagationSeeds, view: Snapshot, policy: PropagatePolicy) -> Charges:
    """Where given edges are followed from, and with what charge.

    The names of the query and, as chunks, its words have the charge of an edge; the best chunks and their documents
    their share of it, of which their names get a part each.
    """
    charges = dict.fromkeys(map(Node, seeds.query_names), policy.edge)
    # a word of the query may be the id of a chunk too
    charges |= dict.fromkeys((Node(word, is_chunk=True) for word in seeds.query_names), policy.edge)
    if not len(seeds.ords):
        return charges
    masses = (policy.edge * (seeds.strength / seeds.strength[0]) ** 2).tolist()
    written = seeds.written_names or ((),) * len(masses)
    chunks = seeds.chunks or (None,) * len(masses)
    ids, names_held = view.ids(seeds.ords), view.names(seeds.ords)
    for id, held, chunk, own, mass in zip(ids, names_held, chunks, written, masses, strict=True):
        charges[Node(id, is_chunk=True)] = mass
        if chunk is not None and chunk.document:
            charges.setdefault(Node(chunk.document, is_chunk=True), mass)
        labels = dict.fromkeys((*view.labels(held), *own))
        for label in labels:
            charges.setdefault(Node(label), mass / len(labels))
    return charges


def _words_and_pairs(text: str) -> list[str]:
    """The words of a text, and each with the one after it, up to a bound, as names are compared."""
    found = list(islice(spelled_words(text), SEED_WORDS))
    return [*found, *map(" ".join, pairwise(found))]


def _seed_names(view: Snapshot, seeds: PropagationSeeds, policy: PropagatePolicy) -> NamePostings:
    """The seeds' names that lead on."""
    return find_name_postings(
        view,
        seeds.ords,
        limit=_name_limit(view, policy),
        share=policy.proper,
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
    by_names = _follow_names(view, seeds, policy, found)
    carried = _carry_mass(view, seeds, edges, policy) if edges else {}
    if not carried:
        return by_names
    by_edges = _follow_edges(view, seeds, policy, carried)
    gained = by_edges.reached.boost.max() if len(by_edges.reached.boost) else 0.0
    return ScoreBoost(
        _join_reached(by_names.reached, by_edges.reached),
        (*by_names.flows, *by_edges.flows),
        # what edges lead to says something else than the query does
        by_names.novelty_weight * (1.0 - gained / (policy.weight or 1.0)),
    )


def _follow_names(
    view: Snapshot, seeds: PropagationSeeds, policy: PropagatePolicy, found: Sequence[Candidate]
) -> ScoreBoost:
    """What the seeds' names lead to: the most strongly reached chunk gains what the best one leaves open."""
    gain = min(policy.weight, _open_weight(view, seeds, policy, found))
    if gain <= 0:
        return ScoreBoost(ReachedChunks(seeds.ords[:0], np.zeros(0)))
    held = _seed_names(view, seeds, policy)
    score_mass = name_masses(view, held, seeds.strength, without=seeds.query_keys)
    posting_share = posting_shares(held, gamma=policy.spread, title=policy.title)
    ords, sent = spread(held, posting_share, score_mass, seeds.ords)
    receptivities = receptivity(
        seeds.hits, seeds.term_weight, seeds.ords, ords, least=policy.min_share
    )
    reached = receive(ords, sent, receptivities[:-1])
    flow = NameFlow(held, score_mass.sum(0)[held.which] * posting_share)
    return ScoreBoost(_scale(reached, gain), (flow,), novelty_weight=gain / policy.weight)


def _follow_edges(
    view: Snapshot, seeds: PropagationSeeds, policy: PropagatePolicy, carried: Mapping[Node, float]
) -> ScoreBoost:
    """What given edges lead to: chunks by their ids, and those that write a name, in whichever case.

    A chunk that one edge of weight 1 leads to from a name of the query gains `weight`, and less the farther and the
    weaker the way is. Of the chunks that write a name, the one that holds most of the query gains most.
    """
    limit = _name_limit(view, policy)
    names, held = find_written_names(view, _strongest_names(carried), limit=limit)
    masses = np.array([carried[Node(name)] for name in names])
    posting_share = posting_shares(held, gamma=policy.spread, title=policy.title)
    flow = masses[held.which] * np.minimum(posting_share, 1.0)
    by_names = receive_by_name(held, flow, seeds.hits, seeds.term_weight, least=policy.min_share)
    reached = _join_reached(by_names, _find_linked(view, carried, seeds.scores.every))
    whole = policy.edge * policy.leak or 1.0
    boost = policy.weight * np.minimum(reached.boost / whole, 1.0)
    return ScoreBoost(ReachedChunks(reached.ords, boost), (NameFlow(held, flow, names),))


def _scale(reached: ReachedChunks, gain: float) -> ReachedChunks:
    """What was reached, so that the most strongly reached chunk gains `gain`."""
    peak = reached.boost.max() if len(reached.boost) else 1.0
    return ReachedChunks(reached.ords, gain * reached.boost / peak)


def _join_reached(one: ReachedChunks, other: ReachedChunks) -> ReachedChunks:
    """What was reached in two ways: a chunk gains by both."""
    ords = distinct(np.concatenate([one.ords, other.ords]))
    total = np.zeros(len(ords))
    for part in (one, other):
        total[np.searchsorted(ords, part.ords)] += part.boost
    return ReachedChunks(ords, total)


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
    charges = edge_charges(seeds, view, policy)
    links = link_nodes(edges, view)
    return carry(charges, links, leak=policy.leak, floor=policy.floor, hops=policy.hops)


def _strongest_names(carried: Mapping[Node, float]) -> list[str]:
    """The names that most mass was carried to."""
    names = {node.text: mass for node, mass in carried.items() if not node.is_chunk}
    return nlargest(MAX_NAMES, names, key=names.__getitem__)


def _find_linked(view: Snapshot, carried: Mapping[Node, float], scores: Floats) -> ReachedChunks:
    """The chunks that edges lead to by their ids; of a document that was split, the one that `scores` best."""
    nodes = sorted(node for node in carried if node.is_chunk)
    linked = view.find([node.text for node in nodes])
    for place in np.flatnonzero(linked < 0).tolist():
        parts = view.find([f"{nodes[place].text}#{n}" for n in range(MAX_PARTS)])
        parts = parts[parts >= 0]
        if len(parts):
            linked[place] = parts[np.argmax(scores[parts])]
    masses = np.array([carried[node] for node in nodes])[linked >= 0]
    ords, slots = np.unique(linked[linked >= 0], return_inverse=True)
    total = np.zeros(len(ords))
    np.add.at(total, slots, masses)
    return ReachedChunks(ords, total)


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
    by = CueFactors(policy.question_factor, policy.other_speaker_factor, policy.undated_factor)
    return cues(query, texts, view.language, by)


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
    """For each chunk, the name through which most of its score reached it; a name of a given edge goes first."""
    found: dict[int, str] = {}
    for flow in boost.flows:
        through = strongest_names(flow.names, flow.posting_flow, ords)
        used = sorted(set(through.values()))
        labels = (
            [flow.labels[i] for i in used] if flow.labels else view.labels(flow.names.keys[used])
        )
        by_index = dict(zip(used, labels, strict=True))
        found |= {ord: by_index[index] for ord, index in through.items()}
    return found
