"""The engine: from a request to the best context that fits, with the trace of how.

decide ─▶ retrieve ─▶ propagate ─▶ penalize ─▶ (expand once) ─▶ gate ─▶ grade ─▶ compose
                                                                         └─▶ search, then a person

`Engine.build` and the functions under it name every stage, in order. Stages are pure and synchronous and run in a few
threads; what waits is awaited. How each is called, with which policy, and how its step is recorded stands in steps.py.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from headgate.errors import InputError, LimitError
from headgate.memory.memory import Memory
from headgate.memory.review import Defer
from headgate.pipeline.fallback import Verdict, conclude, verdict_without_grading
from headgate.pipeline.resources import Policies, Resources, Vectors, Views
from headgate.pipeline.sizes import CollectionTokens
from headgate.pipeline.steps import Candidates, Steps
from headgate.pipeline.threads import InThread
from headgate.policy import Limits
from headgate.protocols import Clock, Grader, Store, TokenCounter, WebSearch
from headgate.stages.compose import Composed
from headgate.stages.grade import review_reason, wants_search
from headgate.text.cache import WindowCache
from headgate.types import Context, Edge, Plan, Request, Sifted

__all__ = ["Engine", "Policies"]


class Engine:
    """The pipeline over one store. Safe to share between threads and event loops."""

    def __init__(  # noqa: PLR0913  (every edge of the pipeline, by name)
        self,
        store: Store,
        views: Views,
        policy: Policies,
        *,
        count: TokenCounter,
        memory: Memory | None = None,
        vectors: Vectors = lambda _: None,
        grader: Grader | None = None,
        search: WebSearch | None = None,
        clock: Clock = time.time,
        tick: Callable[[], float] = time.perf_counter,
        name: Callable[[], str] = lambda: uuid.uuid4().hex,
        defer: Defer | None = None,
        in_thread: InThread = asyncio.to_thread,
    ) -> None:
        self.policy = policy
        self._in_thread = in_thread
        self.resources = Resources(
            store, views, vectors, count, memory, grader, search,
            clock=clock, tick=tick, name=name, cache=WindowCache(clock=time.monotonic), defer=defer,
            sizes=CollectionTokens(store, count, policy.compose.notice),
        )  # fmt: skip

    async def build(self, request: Request) -> Context:
        """From a request to the best context that fits."""
        check_limits(request, self.policy.limits)
        run, in_thread = Steps(self.resources, self.policy, request), self._in_thread
        # in a thread of the loop's own: it may have to wait until an index is built
        plan = await asyncio.to_thread(_start, run)
        if plan.skip:
            return run.context(Composed("", 0, Sifted()), Verdict())
        if run.has_providers:
            found, recalled = await asyncio.gather(in_thread(_find, run), run.ask_providers())
            fitting, strips = await in_thread(_fit, run, found, recalled)
        else:
            found, fitting, strips = await in_thread(_find_and_fit, run)
        verdict = verdict_without_grading(
            fitting, () if fitting else run.candidates, gradable=bool(run.views)
        )
        if verdict is None:
            graded, outside = await run.grade(fitting, found=found.ranked), None
            results = await run.search() if wants_search(graded.action) else None
            if results is not None:
                gated = await in_thread(run.gate, await in_thread(run.penalize, results))
                strips |= gated.strips
                outside = await run.grade(gated.kept)
            searched = outside.action if outside else None
            empty = run.empty_collections
            reason = review_reason(graded, searched, group=plan.group, empty=empty)
            review = await in_thread(run.review, graded.confidences, reason) if reason else None
            verdict = conclude(graded, outside, review_reason=reason, review=review)
        elif reason := review_reason(None, None, group=plan.group):
            verdict = verdict.with_review(reason, await in_thread(run.review, {}, reason))
        return run.context(await in_thread(run.compose, verdict, strips), verdict)


class _Found(NamedTuple):
    ranked: Candidates
    edges: Sequence[Edge]
    facts: Candidates
    paths: Candidates


def _start(run: Steps) -> Plan:
    plan = run.decide()
    if not plan.skip:
        run.open_indexes()
    return plan


def _find(run: Steps) -> _Found:
    # in one thread, since several would wait for the same lock of the store
    found = run.retrieve()
    starts, edges = run.load_edges(found)
    return _Found(run.propagate(found, starts, edges), edges, run.recall_facts(), run.find_paths())


def _fit(run: Steps, found: _Found, recalled: Candidates = ()) -> tuple[Candidates, dict[str, str]]:
    fresh = run.penalize((*found.ranked, *found.facts, *recalled, *found.paths))
    if run.wants_more(fresh):
        fresh = run.expand(fresh, found.edges)
    gated = run.gate(fresh)
    return run.drop_left_over(gated.kept), dict(gated.strips)


def _find_and_fit(run: Steps) -> tuple[_Found, Candidates, dict[str, str]]:
    """Both in one go: a way to a thread and back takes as much CPU as a small stage."""
    found = _find(run)
    return found, *_fit(run, found)


def check_limits(request: Request, limits: Limits) -> None:
    """Refuse what cannot be used, naming the limit it broke."""
    if not request.query.strip():
        raise InputError("the query is empty", hint="say what the context is for")
    measured = {
        "query_chars": len(request.query),
        "window_chars": sum(map(len, request.window.texts)),
        "window_blocks": len(request.window.texts),
        "budget": request.budget,
        "k": request.k or 0,
    }
    for name, value in measured.items():
        most = getattr(limits, name)
        if not 0 <= value <= most:
            raise LimitError(
                f"{name} is {value:,}; it must be 0 to {most:,}",
                hint=f"the limit is set by limits.{name}",
            )
