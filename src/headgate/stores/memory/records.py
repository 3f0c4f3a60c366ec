"""MemoryLedger: edges, facts, secrets, reviews and traces of the in-memory store.

The part of a store that is not documents, kept in dictionaries by tenant.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from math import isfinite
from operator import itemgetter
from secrets import token_bytes
from threading import RLock

from headgate.errors import InputError
from headgate.protocols import Clock
from headgate.stores.codec import bare
from headgate.stores.validate import named
from headgate.types import Edge, Fact, FactChange, Review, Secret, Trace

Key = tuple[str, str, str]
Rank = tuple[float, str, str, str]
Ranked = tuple[Rank, Edge]

DIRECTIONS = ("out", "in", "both")


class MemoryLedger:
    """Everything a store keeps besides documents; `_open` gives its lock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._out: dict[tuple[str, str], dict[Key, Edge]] = {}
        self._in: dict[tuple[str, str], dict[Key, Edge]] = {}
        # the edges of a node in order, sorted when first asked for, so that a hub costs its size once
        self._ranked: dict[tuple[str, str, str], list[Ranked]] = {}
        self._facts: dict[str, dict[str, Fact]] = defaultdict(dict)
        self._contents: dict[tuple[str, str], str] = {}
        self._fact_feed: dict[str, dict[str, int]] = defaultdict(dict)
        self._fact_seqs: dict[str, int] = defaultdict(int)
        self._secrets: dict[str, list[Secret]] = {}
        self._reviews: dict[str, dict[str, Review]] = defaultdict(dict)
        self._traces: dict[str, dict[str, Trace]] = defaultdict(dict)

    def _open(self) -> RLock:
        raise AssertionError("the store that holds this ledger gives the lock")

    def link(self, tenant: str, edges: Sequence[Edge]) -> int:
        check_edges(tenant, edges)
        changed = 0
        with self._open():
            for name, edge in {key(edge): edge for edge in edges}.items():
                leaving = self._out.setdefault((tenant, edge.source), {})
                changed += leaving.get(name) != edge
                leaving[name] = edge
                self._in.setdefault((tenant, edge.target), {})[name] = edge
                self._unrank(tenant, edge)
        return changed

    def unlink(self, tenant: str, edges: Sequence[Edge]) -> int:
        gone = 0
        with self._open():
            for edge in edges:
                held = self._out.get((tenant, edge.source), {}).pop(key(edge), None)
                self._in.get((tenant, edge.target), {}).pop(key(edge), None)
                self._unrank(tenant, edge)
                gone += held is not None
        return gone

    def touching(
        self, tenant: str, nodes: Sequence[str], *, direction: str = "both", limit: int = 1000
    ) -> list[Edge]:
        check_direction(direction)
        sides = ("out", "in") if direction == "both" else (direction,)
        found: dict[Rank, Edge] = {}
        with self._open():
            for side in sides:
                for node in dict.fromkeys(nodes):
                    found.update(self._rank(side, tenant, node)[: max(limit, 0)])
        return [found[place] for place in sorted(found)]

    def save_fact(self, tenant: str, fact: Fact) -> Fact:
        named("tenant", tenant)
        named("fact id", fact.id)
        with self._open():
            owner = self._contents.get((tenant, fact.content), fact.id)
            if owner != fact.id:
                return self._facts[tenant][owner]
            former = self._facts[tenant].get(fact.id)
            if former:
                del self._contents[tenant, former.content]
            self._contents[tenant, fact.content] = fact.id
            if former != fact:
                self._log_fact(tenant, fact.id)
            self._facts[tenant][fact.id] = fact
            return fact

    def amend_fact(self, tenant: str, id: str, change: Callable[[Fact], Fact]) -> Fact | None:
        with self._open():
            held = self._facts[tenant].get(id)
            if held is None:
                return None
            now = check_amended(held, change(held))
            if now != held:
                self._log_fact(tenant, id)
            self._facts[tenant][id] = now
            return now

    def fact(self, tenant: str, id: str) -> Fact | None:
        with self._open():
            return self._facts[tenant].get(id)

    def facts(self, tenant: str) -> list[Fact]:
        with self._open():
            return sorted(self._facts[tenant].values(), key=lambda fact: fact.id)

    def forget(self, tenant: str, id: str) -> bool:
        with self._open():
            fact = self._facts[tenant].pop(id, None)
            if fact is None:
                return False
            del self._contents[tenant, fact.content]
            self._log_fact(tenant, id)
            return True

    def fact_changes(self, tenant: str, after: int) -> list[FactChange]:
        with self._open():
            held, feed = self._facts[tenant], self._fact_feed[tenant]
            news = list(takewhile(lambda name: feed[name] > after, reversed(feed)))
            return [FactChange(feed[id], id, held.get(id)) for id in reversed(news)]

    def secret(self, tenant: str) -> bytes:
        return self.secrets(tenant)[0].key

    def secrets(self, tenant: str) -> list[Secret]:
        named("tenant", tenant)
        with self._open():
            if tenant not in self._secrets:
                self._secrets[tenant] = [Secret(token_bytes(32), self._clock())]
            return list(self._secrets[tenant])

    def rotate(self, tenant: str, *, expires: float) -> Secret:
        with self._open():
            former, *older = self.secrets(tenant)
            fresh = Secret(token_bytes(32), self._clock())
            self._secrets[tenant] = [fresh, replace(former, expires=expires), *older]
            return fresh

    def save_review(self, tenant: str, review: Review, *, most: int | None = None) -> bool:
        with self._open():
            reviews = self._reviews[tenant]
            held = reviews.get(review.id)
            if held and held.status != "pending":
                raise decided(review.id, held.status)
            others = (r for r in reviews.values() if r.status == "pending" and r.id != review.id)
            if most is not None and sum(1 for _ in others) >= most:
                return False
            reviews[review.id] = review
            return True

    def review(self, tenant: str, id: str) -> Review | None:
        with self._open():
            return self._reviews[tenant].get(id)

    def reviews(self, tenant: str, *, status: str | None = None) -> list[Review]:
        with self._open():
            found = [r for r in self._reviews[tenant].values() if status in (None, r.status)]
        return sorted(found, key=lambda review: (review.created, review.id))

    def decide(self, tenant: str, review: Review) -> bool:
        with self._open():
            held = self._reviews[tenant].get(review.id)
            if held is None or held.status != "pending":
                return False
            self._reviews[tenant][review.id] = review
            return True

    def save_trace(
        self,
        trace: Trace,
        *,
        keep: int = 10_000,
        age_s: float | None = None,
        text: bool = True,
    ) -> None:
        with self._open():
            held = self._traces[trace.request.tenant]
            held.pop(trace.id, None)
            held[trace.id] = trace if text else bare(trace)
            while len(held) > max(keep, 0):
                del held[next(iter(held))]
            if age_s is not None:
                old = [t.id for t in held.values() if t.created < trace.created - age_s]
                for id in old:
                    del held[id]

    def trace(self, tenant: str, id: str) -> Trace | None:
        with self._open():
            return self._traces[tenant].get(id)

    def traces(self, tenant: str, *, limit: int = 100) -> list[Trace]:
        with self._open():
            return list(reversed(self._traces[tenant].values()))[: max(limit, 0)]

    def _rank(self, side: str, tenant: str, node: str) -> list[Ranked]:
        """The edges of a node on one side, strongest first."""
        held = (self._out if side == "out" else self._in).get((tenant, node))
        if not held:
            return []
        ranked = self._ranked.get((side, tenant, node))
        if ranked is None:
            ranked = sorted(((rank(edge), edge) for edge in held.values()), key=itemgetter(0))
            self._ranked[side, tenant, node] = ranked
        return ranked

    def _unrank(self, tenant: str, edge: Edge) -> None:
        self._ranked.pop(("out", tenant, edge.source), None)
        self._ranked.pop(("in", tenant, edge.target), None)

    def _log_fact(self, tenant: str, id: str) -> None:
        self._fact_seqs[tenant] += 1
        self._fact_feed[tenant].pop(id, None)  # each fact once, at its last change
        self._fact_feed[tenant][id] = self._fact_seqs[tenant]


def key(edge: Edge) -> Key:
    """What makes an edge one edge."""
    return edge.source, edge.predicate, edge.target


def rank(edge: Edge) -> Rank:
    """Strongest first, ties by name."""
    return -edge.weight, *key(edge)


def check_edges(tenant: str, edges: Sequence[Edge]) -> None:
    """Refuse an edge that lacks an end or a weight."""
    named("tenant", tenant)
    for edge in edges:
        for what in ("source", "predicate", "target"):
            named(f"the {what} of an edge", getattr(edge, what))
        if not isfinite(edge.weight):
            raise InputError(f"the edge {key(edge)} weighs {edge.weight}; it must be a number")


def check_direction(direction: str) -> None:
    """Refuse a direction that edges do not have."""
    if direction not in DIRECTIONS:
        raise InputError(f"direction is {direction!r}; it must be one of {', '.join(DIRECTIONS)}")


def check_amended(former: Fact, now: Fact) -> Fact:
    """An amendment may change all but what makes a fact this fact."""
    if (now.id, now.content) != (former.id, former.content):
        raise InputError(
            f"fact {former.id!r} cannot change its id or content",
            hint="forget it and save a new one",
        )
    return now


def decided(id: str, status: str) -> InputError:
    """The error for writing over a decision."""
    return InputError(f"review {id!r} is already {status}", hint="open a new review")
