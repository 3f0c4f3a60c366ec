"""Propagate: from what was found to what it is connected to.

"entities" (default): the best chunks pass their mass to chunks that share a rare proper name with them
(ranking/score.py): s = s1 + min(.7, open)·x / max x, if a seed holds a rare name of the query. `open` is the share of
the query that the best chunk does not hold: an answer in one place needs no second one. It is less in code, where
capitals do not mark names, and 0 in JSON (text/languages.py). A chunk also gains by the share of the query that better
ones do not hold, since the parts of such an answer differ.
Given knowledge edges carry signals up to three hops, from the query's names and the best chunks to the names and chunks
they lead to: s gains .7·x, where x is 1 one edge of weight 1 away from a name of the query, and .85 of it each edge on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from millgate.protocols import Snapshot
from millgate.ranking.arrays import Floats, Ints, best, top
from millgate.ranking.name_postings import strongest_names
from millgate.ranking.score import (
    EdgeRules,
    NameRules,
    PropagationSeeds,
    ScoreBoost,
    cues,
    find_seeds,
    follow_edges,
    follow_names,
    join,
    novelty_shares,
    open_share,
    read_chunks,
)
from millgate.text.hashes import within
from millgate.text.languages import likeness_to_code
from millgate.text.turns import add_head
from millgate.types import Candidate, Edge, Sifted
from millgate.types.notes import Fate, NoteCode, Stage
from millgate.types.policy import Policy, PositiveCount, Tuning, Unit, Weight

# A member of an enum is slow to look up, and there are a hundred notes a request.
_KEPT, _ADDED = (Stage.PROPAGATE, Fate.KEEP), (Stage.PROPAGATE, Fate.ADD)
_OUTRANKED = Stage.PROPAGATE, Fate.DROP, NoteCode.OUTRANKED
_AS_FOUND = NoteCode.AS_FOUND, "", 0.0


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
        seeds = seeds or find_seeds(found, query, view, policy.seeds)
    if policy.mode == "off" or seeds is None:
        return Sifted(kept=found.kept)
    boost, novelty_weight = _hop(view, seeds, policy, edges, found=found.kept)
    ords, scores = _rank_boosted(view, seeds, boost, policy.keep)
    if novelty_weight:  # chunks gain by what those above them do not hold
        scores += novelty_shares(seeds.hits, seeds.term_weight, ords, weight=novelty_weight)
        order = np.argsort(-scores, kind="stable")
        ords, scores = ords[order], scores[order]
    scores /= max(1.0, float(scores.max()))
    came = dict(zip(seeds.scores.kept.tolist(), found.kept, strict=True))
    new = ords[~within(np.sort(seeds.scores.kept), ords)]
    fresh = {ord: Candidate(chunk, 0.0) for ord, chunk in read_chunks(view, new).items()}
    if view.conversational:
        lines = [came.get(ord) or fresh.get(ord) for ord in ords.tolist()]  # one may be gone by now
        texts = [add_head(one.chunk.text, one.chunk.metadata) if one else "" for one in lines]
        scores *= cues(
            query,
            texts,
            view.language,
            question=policy.question_factor,
            other_speaker=policy.other_speaker_factor,
        )
    kept, added = list[Candidate](), list[Candidate]()
    rows = zip(ords.tolist(), scores.tolist(), _reasons(boost, ords, view), strict=True)
    for ord, score, (code, name, gain) in rows:
        known = came.pop(ord, None)
        if one := known or fresh.get(ord):
            stage = _KEPT if known else _ADDED
            kept.append(one.with_note(*stage, code, score=score, subject=name, gain=gain))
            added += () if known else (kept[-1],)
    if view.conversational:
        kept.sort(key=lambda c: -c.score)
    dropped = [c.with_note(*_OUTRANKED, score=0.0) for c in came.values()]
    return Sifted(tuple(kept), tuple(dropped), tuple(added))


def name_limit(view: Snapshot, policy: PropagatePolicy) -> int:
    """The most chunks that may hold a name which leads on."""
    return min(max(5, int(policy.common * view.count)), policy.cap)


def _hop(
    view: Snapshot,
    seeds: PropagationSeeds,
    policy: PropagatePolicy,
    edges: Sequence[Edge],
    *,
    found: Sequence[Candidate],
) -> tuple[ScoreBoost, float]:
    """What shared names and given edges reach, and the weight of what a chunk says anew.

    Through names no chunk gains more than the share of the query that the best chunk leaves open: less in code, and
    nothing if no seed holds a rare name of the query.
    """
    names = NameRules(
        name_limit(view, policy), policy.proper, policy.spread, policy.title, policy.min_share
    )
    gain = 0.0
    if len(seeds.ords):
        texts = [candidate.chunk.text for candidate in found[: policy.seeds]]
        gain = open_share(seeds.hits, seeds.term_weight, int(seeds.ords[0]))
        gain = min(policy.weight, gain * (1 - likeness_to_code(texts)))
    boost = follow_names(view, seeds, names, gain)
    novelty_weight = gain / policy.weight if boost.flows else 0.0
    rules = EdgeRules(policy.edge, policy.leak, policy.floor, policy.hops)
    by_edges = follow_edges(view, seeds, edges, rules, names, gain=policy.weight) if edges else None
    if by_edges is None:
        return boost, novelty_weight
    gained = by_edges.boost.max() if len(by_edges.boost) else 0.0
    # what edges lead to says something else than the query does
    return join(boost, by_edges), novelty_weight * (1.0 - gained / (policy.weight or 1.0))


def _rank_boosted(
    view: Snapshot, seeds: PropagationSeeds, reached: ScoreBoost, keep: int
) -> tuple[Ints, Floats]:
    """The chunks with the highest scores after the boost, best first, and these scores."""
    found = seeds.scores
    plain = found.kept[:keep] if found.ranked >= keep else top(found.every, keep, view)
    peak = float(found.every[plain[0]])
    plain = plain[~within(reached.ords, plain)]
    ords = np.concatenate([plain, reached.ords])
    scores = found.every[ords] / peak
    scores[len(plain) :] += reached.boost
    order = best(scores, keep, ords, view)
    return ords[order], scores[order]


def _reasons(boost: ScoreBoost, ords: Ints, view: Snapshot) -> list[tuple[NoteCode, str, float]]:
    """Why each of some chunks was lifted, through which name mostly, and by how much; names of edges go first."""
    gains = dict(zip(boost.ords.tolist(), boost.boost.tolist(), strict=True))
    lifted = ords[within(boost.ords, ords)]
    labels: dict[int, str] = {}
    for flow in boost.flows if len(lifted) else ():
        through = strongest_names(flow.names, flow.posting_flow, lifted)
        used = sorted(set(through.values()))
        named = (
            [flow.labels[i] for i in used] if flow.labels else view.labels(flow.names.keys[used])
        )
        by_index = dict(zip(used, named, strict=True))
        labels |= {ord: by_index[index] for ord, index in through.items()}
    reasons = []
    for ord in ords.tolist():
        gain, name = gains.get(ord, 0.0), labels.get(ord, "")
        code = NoteCode.SHARES_NAME if name else NoteCode.CONNECTED
        reasons.append((code, name, gain) if gain else _AS_FOUND)
    return reasons


def merge(rankings: Sequence[Sequence[Candidate]]) -> tuple[Candidate, ...]:
    """One ranking of several, best first; on a tie the earlier collection leads.

    A text that two collections have under one id stands once, where it scores best.
    """
    if len(rankings) == 1:
        return tuple(rankings[0])
    return tuple(sorted(join_by_id(rankings), key=lambda c: -c.score))


def join_by_id(rankings: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """The candidates of several collections in order, each under an id of its own.

    A candidate is known by its id. Of another text under an id that is taken, the id gets its collection before it, as
    that of a search result gets "web:".
    """
    found: dict[str, Candidate] = {}
    for ranking in rankings:
        for candidate in ranking:
            named = candidate
            while (held := found.get(named.chunk.id)) and held.chunk.text != named.chunk.text:
                chunk = named.chunk
                named = replace(named, chunk=replace(chunk, id=f"{chunk.collection}:{chunk.id}"))
            if held is None or named.score > held.score:
                found[named.chunk.id] = named
    return list(found.values())
