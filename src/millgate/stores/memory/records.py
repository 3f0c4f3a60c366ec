"""MemoryRecords: edges, facts, secrets and reviews of the in-memory store, in dictionaries by tenant."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import itemgetter
from secrets import token_bytes

from millgate.protocols import Clock
from millgate.stores.memory.collection import MemoryPart, StoreLock
from millgate.stores.validate import (
    already_decided,
    check_amended,
    check_direction,
    check_edges,
    check_fact,
    check_name,
    check_review,
)
from millgate.types import Edge, Fact, FactChange, Review, Secret, node_key

EdgeName = tuple[str, str, str]
EdgeRank = tuple[float, str, str, str]
RankedEdge = tuple[EdgeRank, Edge]


class MemoryRecords(MemoryPart):
    """Everything a store keeps besides documents, traces and API keys."""

    def __init__(self, lock: StoreLock, clock: Clock) -> None:
        super().__init__(lock, clock)
        self._out: dict[tuple[str, str], dict[EdgeName, Edge]] = {}
        self._in: dict[tuple[str, str], dict[EdgeName, Edge]] = {}
        self._edge_counts: dict[str, int] = defaultdict(int)
        # the edges of a node in order, sorted on first use: a hub is sorted once, not at every read
        self._sorted: dict[tuple[str, str, str], list[RankedEdge]] = {}
        self._facts: dict[str, dict[str, Fact]] = defaultdict(dict)
        self._fact_keys: dict[tuple[str, str], str] = {}
        self._fact_feed: dict[str, dict[str, int]] = defaultdict(dict)
        self._fact_seqs: dict[str, int] = defaultdict(int)
        self._secrets: dict[str, list[Secret]] = {}
        self._reviews: dict[str, dict[str, Review]] = defaultdict(dict)

    def link(self, tenant: str, edges: Sequence[Edge]) -> int:
        check_edges(tenant, edges)
        changed = 0
        with self._lock:
            for name, edge in {_edge_name(edge): edge for edge in edges}.items():
                leaving = self._out.setdefault((tenant, node_key(edge.source)), {})
                changed += leaving.get(name) != edge
                self._edge_counts[tenant] += name not in leaving
                leaving[name] = edge
                self._in.setdefault((tenant, node_key(edge.target)), {})[name] = edge
                self._forget_order(tenant, edge)
        return changed

    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int:
        gone = 0
        with self._lock:
            for edge in edges:
                leaving = self._out.get((tenant, node_key(edge.source)), {})
                entering = self._in.get((tenant, node_key(edge.target)), {})
                same = [name for name in leaving if _edge_key(name) == _edge_key(_edge_name(edge))]
                for name in same:
                    del leaving[name], entering[name]
                self._forget_order(tenant, edge)
                gone += len(same)
            self._edge_counts[tenant] -= gone
        return gone

    def has_edges(self, tenant: str) -> bool:
        with self._lock:
            return self._edge_counts[tenant] > 0

    def edges_touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]:
        check_direction(direction)
        sides = ("out", "in") if direction == "both" else (direction,)
        found: dict[EdgeRank, Edge] = {}
        with self._lock:
            for side in sides:
                for node in dict.fromkeys(map(node_key, nodes)):
                    found.update(self._sorted_edges(side, tenant, node)[: max(limit, 0)])
        return [found[rank] for rank in sorted(found)]

    def save_fact(self, tenant: str, fact: Fact) -> Fact:
        check_fact(tenant, fact)
        with self._lock:
            owner = self._fact_keys.get((tenant, fact.key), fact.id)
            if owner != fact.id:
                return self._facts[tenant][owner]
            former = self._facts[tenant].get(fact.id)
            if former:
                del self._fact_keys[tenant, former.key]
            self._fact_keys[tenant, fact.key] = fact.id
            if former != fact:
                self._log_fact(tenant, fact.id)
            self._facts[tenant][fact.id] = fact
            return fact

    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None:
        with self._lock:
            held = self._facts[tenant].get(id)
            if held is None:
                return None
            now = check_amended(held, change(held))
            if now != held:
                self._log_fact(tenant, id)
            self._facts[tenant][id] = now
            return now

    def fact(self, tenant: str, id: str) -> Fact | None:
        with self._lock:
            return self._facts[tenant].get(id)

    def facts(self, tenant: str) -> list[Fact]:
        with self._lock:
            return sorted(self._facts[tenant].values(), key=lambda fact: fact.id)

    def forget(self, tenant: str, id: str) -> bool:
        with self._lock:
            fact = self._facts[tenant].pop(id, None)
            if fact is None:
                return False
            del self._fact_keys[tenant, fact.key]
            self._log_fact(tenant, id)
            return True

    def fact_changes(self, tenant: str, after: int) -> list[FactChange]:
        with self._lock:
            held, feed = self._facts[tenant], self._fact_feed[tenant]
            newer = list(takewhile(lambda name: feed[name] > after, reversed(feed)))
            return [FactChange(feed[id], id, held.get(id)) for id in reversed(newer)]

    def secret(self, tenant: str) -> bytes:
        return self.secrets(tenant)[0].key

    def secrets(self, tenant: str) -> list[Secret]:
        check_name("tenant", tenant)
        with self._lock:
            if tenant not in self._secrets:
                self._secrets[tenant] = [Secret(token_bytes(32), self._clock())]
            return list(self._secrets[tenant])

    def rotate(self, tenant: str, *, expires: float) -> Secret:
        with self._lock:
            former, *older = self.secrets(tenant)
            fresh = Secret(token_bytes(32), self._clock())
            self._secrets[tenant] = [fresh, replace(former, expires=expires), *older]
            return fresh

    def save_review(
        self,
        tenant: str,
        review: Review,
        *,
        most: int | None = None,
        patience_s: float | None = None,
    ) -> bool:
        check_review(tenant, review)
        with self._lock:
            reviews = self._reviews[tenant]
            held = reviews.get(review.id)
            if held and held.status != "pending":
                raise already_decided(review.id, held.status)
            others = (r for r in reviews.values() if r.status == "pending" and r.id != review.id)
            if most is not None and sum(1 for _ in others) >= most:
                return False
            reviews[review.id] = review
            return True

    def review(self, tenant: str, id: str) -> Review | None:
        with self._lock:
            return self._reviews[tenant].get(id)

    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]:
        with self._lock:
            found = [r for r in self._reviews[tenant].values() if status in (None, r.status)]
        return sorted(found, key=lambda review: (review.created, review.id))

    def decide(
        self,
        tenant: str,
        review: Review,
        *,
        fact: Fact | None = None,
        ids: Sequence[str] = (),
        amend: Callable[[Fact], Fact] = lambda fact: fact,
    ) -> bool:
        with self._lock:
            held = self._reviews[tenant].get(review.id)
            if held is None or held.status != "pending":
                return False
            facts = self._facts[tenant]
            owner = self._fact_keys.get((tenant, fact.key)) if fact else None
            known = [id for id in (owner, *ids) if id in facts]
            # all changes are made before the first is kept, so that one that fails leaves nothing
            changed = [check_amended(facts[id], amend(facts[id])) for id in known]
            for new in changed if owner or fact is None else [fact, *changed]:
                self.save_fact(tenant, new)
            self._reviews[tenant][review.id] = review
            return True

    def _sorted_edges(self, side: str, tenant: str, node: str) -> list[RankedEdge]:
        """The edges of a node on one side, the strongest first, sorted once until they change."""
        held = (self._out if side == "out" else self._in).get((tenant, node))
        if not held:
            return []
        ranked = self._sorted.get((side, tenant, node))
        if ranked is None:
            # strongest first, ties by name
            ranks = (((-edge.weight, *_edge_name(edge)), edge) for edge in held.values())
            ranked = sorted(ranks, key=itemgetter(0))
            self._sorted[side, tenant, node] = ranked
        return ranked

    def _forget_order(self, tenant: str, edge: Edge) -> None:
        self._sorted.pop(("out", tenant, node_key(edge.source)), None)
        self._sorted.pop(("in", tenant, node_key(edge.target)), None)

    def _log_fact(self, tenant: str, id: str) -> None:
        self._fact_seqs[tenant] += 1
        self._fact_feed[tenant].pop(id, None)  # each fact once, at its last change
        self._fact_feed[tenant][id] = self._fact_seqs[tenant]


def _edge_name(edge: Edge) -> EdgeName:
    """What tells an edge from every other."""
    return edge.source, edge.predicate, edge.target


def _edge_key(name: EdgeName) -> EdgeName:
    """What two spellings of an edge have in common."""
    source, predicate, target = name
    return node_key(source), predicate, node_key(target)
