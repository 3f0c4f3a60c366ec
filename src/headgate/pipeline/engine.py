"""The engine: from a request to the best context that fits, with the trace of how.

decide ─▶ retrieve ─▶ propagate ─▶ penalize ─▶ (expand once) ─▶ gate ─▶ grade ─▶ compose
                                                                         └─▶ search, then a person

Stages are pure and synchronous and run in a thread; what waits is awaited. The only place where failure softens: a
stage that fails leaves what came to it, and its step says so (story.py).
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from headgate.errors import ConfigError, InputError, LimitError
from headgate.graph.knowledge import GraphPolicy, anchors, paths
from headgate.memory.memory import Memory, Recollection
from headgate.memory.review import ReviewPolicy
from headgate.pipeline.fallback import Corrector, Judged
from headgate.pipeline.recorder import SOFT, Story, said
from headgate.policy import Limits
from headgate.protocols import Clock, Grader, Postings, Store, TokenCounter, WebSearch
from headgate.relevance.excerpt import excerpt
from headgate.relevance.query_terms import Question, ask
from headgate.stages.compose import Composed, ComposePolicy, compose
from headgate.stages.decide import DecidePolicy, decide
from headgate.stages.expand import ExpandPolicy, depth, fuse, gather, variants, wanted
from headgate.stages.gate import Gated, GatePolicy, gate, report
from headgate.stages.grade import GradePolicy
from headgate.stages.penalize import PenalizePolicy, penalize
from headgate.stages.propagate import PropagatePolicy, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.text.cache import WindowCache
from headgate.text.fingerprint import KIND
from headgate.types import (
    ADD,
    Candidate,
    Chunk,
    Context,
    Edge,
    Plan,
    Request,
    Sifted,
    Size,
    Strategy,
    Trace,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Candidates = Sequence[Candidate]
Views = Callable[[str, str], Postings]
Vectors = Callable[[str], "npt.ArrayLike | None"]


@dataclass(frozen=True, slots=True)
class Policies:
    """The knobs of every stage."""

    limits: Limits
    decide: DecidePolicy
    retrieve: RetrievePolicy
    propagate: PropagatePolicy
    graph: GraphPolicy
    penalize: PenalizePolicy
    expand: ExpandPolicy
    gate: GatePolicy
    grade: GradePolicy
    review: ReviewPolicy
    compose: ComposePolicy


class Engine:
    """The pipeline over one store. Safe to share between threads and event loops."""

    def __init__(
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
    ) -> None:
        self.store = store
        self.views = views
        self.vectors = vectors
        self.policy = policy
        self.count = count
        self.memory = memory
        self.corrector = Corrector(store, policy.grade, policy.review, clock, grader, search)
        self.clock = clock
        self.tick = tick
        self.name = name
        self.cache = WindowCache(clock=time.monotonic)

    async def build(self, request: Request) -> Context:
        """From a request to the best context that fits."""
        _admit(request, self.policy.limits)
        return await _Run(self, request).context()


class _Run:
    """One request on its way through the stages."""

    def __init__(self, engine: Engine, request: Request) -> None:
        self.engine = engine
        self.policy = engine.policy
        self.request = request
        self.story = Story(engine.tick)
        self.view: Postings | None = None
        self.edges: Sequence[Edge] = ()
        self.strips: dict[str, str] = {}
        self.embedded = False

    async def context(self) -> Context:
        """The pipeline, as one sentence."""
        plan = self.plan = await asyncio.to_thread(self._decide)
        if plan.skip:
            return self._answer(Composed("", 0, Sifted()), Judged())
        (found, facts, known), answers = await asyncio.gather(
            asyncio.to_thread(self._search), self._answers()
        )
        fitting = await asyncio.to_thread(self._fitting, (*found, *facts, *answers, *known))
        judged = await self._judge(fitting, found)
        composed = await asyncio.to_thread(self._compose, judged)
        return self._answer(composed, judged)

    def _decide(self) -> Plan:
        request, store = self.request, self.engine.store
        none: Mapping[str, Size] = {}
        sizes = self.story.soften("decide", lambda: store.collections(request.tenant), instead=none)
        size = sizes.get(request.collection, Size())
        return decide(request, self.policy.decide, content_tokens=size.chars // 4)

    def _search(self) -> tuple[Candidates, Candidates, Candidates]:
        """What collection, memory and graph hold for the query: in one thread, since three would share one lock."""
        return self._find(), self._facts(), self._paths()

    def _find(self) -> Candidates:
        """What the collection holds for the query, best first; all of it in reading order when stuffing."""
        request, story, policy = self.request, self.story, self.policy
        if self.plan.strategy is Strategy.STUFF:
            return story.sift("retrieve", (), self._whole).kept
        view = self.view = self._open()
        if view is None:
            return ()
        vector = story.soften("embed", lambda: self.engine.vectors(request.query), instead=None)
        self.embedded = vector is not None
        found = story.sift(
            "retrieve", (), lambda: retrieve(request.query, view, policy.retrieve, vector=vector)
        )
        return story.sift("propagate", found.kept, lambda: self._propagate(view, found)).kept

    def _open(self) -> Postings | None:
        """The collection's index; a wrong setting is the caller's to mend, anything else softens."""
        try:
            view = self.engine.views(self.request.tenant, self.request.collection)
        except ConfigError:
            raise
        except SOFT as error:
            self.story.degrade("index", said(error))
            return None
        if view.degraded:
            self.story.degrade("index", view.degraded)
        return view

    def _whole(self) -> Sifted:
        chunks = self.engine.store.scan(self.request.tenant, self.request.collection)
        everyone = tuple(Candidate(c, 1.0).noted("retrieve", ADD, "loaded whole") for c in chunks)
        return Sifted(kept=everyone, added=everyone)

    def _propagate(self, view: Postings, found: Sifted) -> Sifted:
        request, policy = self.request, self.policy.propagate
        touching = self._touching if request.graph else None
        return propagate(found, request.query, view, policy, touching=touching)

    def _touching(self, nodes: Sequence[str]) -> Sequence[Edge]:
        self.edges = self.engine.store.touching(self.request.tenant, nodes)
        return self.edges

    def _facts(self) -> Candidates:
        """What was remembered about the query."""
        memory = self.engine.memory
        if memory is None:
            return ()
        return self.story.sift("memory", (), lambda: memory.facts(self.request, self.plan)).kept

    async def _answers(self) -> Candidates:
        """What the providers of memory say."""
        memory = self.engine.memory
        if memory is None or not memory.panel.names:
            return ()
        recalled = await self.story.asift(
            "memory", (), lambda: memory.answers(self.request, self.plan), instead=Recollection()
        )
        for reason in recalled.degraded:
            self.story.degrade("memory", reason)
        return recalled.sifted.kept

    def _paths(self) -> Candidates:
        """The paths of what the query names, through given knowledge."""
        request, store, policy = self.request, self.engine.store, self.policy.graph
        if not request.graph:
            return ()
        if (
            self.plan.strategy is Strategy.RAG_GRAPH
        ):  # lean on the graph: a hop farther, twice as much
            wider = {"max_hops": policy.max_hops + 1, "keep": 2 * policy.keep}
            policy = policy.model_copy(update=wider)
        tenant = request.tenant
        none: tuple[str, ...] = ()
        named = self.story.soften(
            "graph", lambda: anchors(request.query, store, policy, tenant=tenant), instead=none
        )
        if not named:
            return ()
        return self.story.sift("graph", (), lambda: paths(named, store, policy, tenant=tenant)).kept

    def _fitting(self, found: Candidates) -> Candidates:
        """What is new to the window and fits the budget."""
        return self._gate(self._fresh(found))

    def _fresh(self, found: Candidates) -> Candidates:
        """What is new to the window; when too little is, what asking once more brings."""
        request, policy = self.request, self.policy.expand
        if not request.penalize:
            return found
        fresh = self.story.sift("penalize", found, lambda: self._penalize(found))
        if self.plan.strategy is Strategy.STUFF:
            left = {c.chunk.id: c for c in fresh.kept}
            return [left[c.chunk.id] for c in found if c.chunk.id in left]
        if self.view is None or not wanted(fresh, request.window, policy, k=request.k):
            return fresh.kept
        view = self.view
        return self.story.sift("expand", fresh.kept, lambda: self._expand(view, fresh)).kept

    def _penalize(self, candidates: Candidates) -> Sifted:
        request, store = self.request, self.engine.store
        new = self.engine.cache.unknown([c.chunk.text for c in candidates])
        ids = [c.chunk.id for c, unread in zip(candidates, new, strict=True) if unread]
        return penalize(
            candidates,
            request.window,
            self.policy.penalize,
            fingerprints=store.attached(request.tenant, request.collection, KIND, ids),
            best_effort=request.best_effort,
            cache=self.engine.cache,
        )

    def _expand(self, view: Postings, fresh: Sifted) -> Sifted:
        request, policy = self.request, self.policy.expand
        known = {c.chunk.id for c in (*fresh.kept, *fresh.dropped)}
        most = depth(request.k, policy)
        wider = self.policy.retrieve.model_copy(update={"keep": most + len(known)})
        queries = variants(
            request.query, policy, edges=self.edges, cwd=request.cwd, window=request.window
        )
        vectors = self.engine.vectors
        passes = [retrieve(q, view, wider, vector=vectors(q)).kept for q in queries]
        return fuse(fresh.kept, self._penalize(gather(passes, known)[:most]), policy)

    def _gate(self, fresh: Candidates) -> Candidates:
        if self.plan.strategy is Strategy.STUFF:
            return fresh
        preview = self.policy.compose.preview_chars if self.request.detail == "preview" else None
        view = self.view
        gated = self.story.sift(
            "gate",
            fresh,
            lambda: gate(
                fresh,
                self.plan.budget,
                self.engine.count,
                self.policy.gate,
                k=self.request.k,
                excerpt=self._excerpt if view is not None else None,
                conversation=view is not None and view.conversational,
                preview_chars=preview,
            ),
        )
        if isinstance(gated, Gated):
            self.strips |= gated.strips
        return gated.kept

    def _excerpt(self, chunk: Chunk, fits: Callable[[str], bool]) -> str:
        assert self.view is not None
        return excerpt(chunk.text, self.question, self.view.language, fits)

    @cached_property
    def question(self) -> Question:
        """The query in the light of the collection."""
        assert self.view is not None
        return ask(self.request.query, self.view)

    async def _judge(self, fitting: Candidates, found: Candidates) -> Judged:
        """Grade what fits; search outside and a person stand behind a verdict that is not sure."""
        view = self.view
        if view is None:
            return Judged(fitting)
        return await self.engine.corrector.judge(
            self.request,
            self.plan,
            self.story,
            fitting,
            found=found,
            words=view,
            embedded=self.embedded,
            sift=self._vet,
        )

    def _vet(self, came: Candidates) -> Candidates:
        """The way of what comes from outside: nothing that the model sees already, within the budget."""
        if self.request.penalize:
            came = self.story.sift("penalize", came, lambda: self._penalize(came)).kept
        return self._gate(came)

    def _compose(self, judged: Judged) -> Composed:
        request, engine, kept = self.request, self.engine, judged.kept
        return self.story.sift(
            "compose",
            kept,
            lambda: compose(
                kept,
                self.plan.budget,
                engine.count,
                self.policy.compose,
                secret=engine.store.secret(request.tenant),
                detail=request.detail,
                order=request.order,
                strips={**judged.strips, **self.strips},
            ),
            instead=Composed("", 0, Sifted()),
        )

    def _answer(self, composed: Composed, judged: Judged) -> Context:
        story, engine = self.story, self.engine
        trace = Trace(
            id=engine.name(),
            request=self.request,
            plan=self.plan,
            steps=story.steps,
            candidates=story.candidates,
            created=engine.clock(),
        )
        return Context(
            text=composed.text,
            chunks=composed.shown,
            token_estimate=composed.tokens,
            trace=trace,
            report=report(composed.sifted.kept, [c for c in trace.candidates if c.dropped]),
            sources=composed.sources,
            graph_context=composed.graph_context,
            admissibility_token=composed.token,
            fallback=judged.fallback,
            fallback_reason=judged.reason,
            review=judged.review,
            latency_ms=1000 * story.seconds,
        )


def _admit(request: Request, limits: Limits) -> None:
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
