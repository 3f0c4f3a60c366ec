"""The engine: from a request to the best context that fits, with the trace of how.

decide ─▶ retrieve ─▶ propagate ─▶ penalize ─▶ (expand once) ─▶ gate ─▶ grade ─▶ compose

The only place where failure softens: a stage that fails leaves what came to it, and the step says so.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.correct import Corrector, Judged
from headgate.errors import ConfigError, InputError, LimitError
from headgate.graph.knowledge import GraphPolicy, paths
from headgate.graph.knowledge import anchors as mentioned
from headgate.memory.recall import Memory, Recollection
from headgate.memory.review import ReviewPolicy
from headgate.policy import Limits
from headgate.protocols import Clock, Grader, Postings, Store, TokenCounter, WebSearch
from headgate.stages.compose import Composed, ComposePolicy, compose
from headgate.stages.decide import DecidePolicy, decide
from headgate.stages.expand import ExpandPolicy, depth, fuse, gather, variants, wanted
from headgate.stages.gate import GatePolicy, gate, report
from headgate.stages.grade import GradePolicy
from headgate.stages.penalize import PenalizePolicy, penalize
from headgate.stages.propagate import PropagatePolicy, anchors, propagate
from headgate.stages.retrieve import RetrievePolicy, retrieve
from headgate.story import SOFT, Story, said
from headgate.text.cache import WindowCache
from headgate.text.fingerprint import KIND
from headgate.types import Candidate, Context, Plan, Request, Sifted, Size, Strategy, Trace

if TYPE_CHECKING:
    import numpy.typing as npt

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
        self._store = store
        self._views = views
        self._vectors = vectors
        self._policy = policy
        self._count = count
        self._memory = memory
        self._corrector = Corrector(store, policy.grade, policy.review, clock, grader, search)
        self._clock = clock
        self._tick = tick
        self._name = name
        self._seen = WindowCache(clock=clock)

    async def build(self, request: Request) -> Context:
        """From a request to the best context that fits."""
        self._admit(request)
        story = Story(self._tick)
        plan = await asyncio.to_thread(self._plan, request, story)
        if plan.skip:
            return self._answer(request, plan, story, Composed("", 0, Sifted()), Judged())
        found, recalled = await asyncio.gather(
            asyncio.to_thread(self._find, request, plan, story),
            self._recall(request, plan, story),
        )
        joined = sorted((*found, *recalled), key=lambda c: -c.score) if recalled else found
        fresh = await asyncio.to_thread(self._news, request, plan, story, joined)
        fitting = await asyncio.to_thread(self._gate, request, plan, story, fresh)
        judged = await self._corrector.judge(
            request, plan, story, fitting.kept,
            words=lambda: self._views(request.tenant, request.collection),
            sift=lambda came: self._pass(request, plan, story, came),
        )  # fmt: skip
        composed = await asyncio.to_thread(self._compose, request, plan, story, judged)
        return self._answer(request, plan, story, composed, judged)

    def _admit(self, request: Request) -> None:
        """Refuse what cannot be used, naming the limit it broke."""
        if not request.query.strip():
            raise InputError("the query is empty", hint="say what the context is for")
        limits = self._policy.limits
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

    def _plan(self, request: Request, story: Story) -> Plan:
        none: Mapping[str, Size] = {}
        sizes = story.soften(
            "decide", lambda: self._store.collections(request.tenant), instead=none
        )
        size = sizes.get(request.collection)
        content = size.chars // 4 if size else 0
        return decide(request, self._policy.decide, content_tokens=content)

    def _find(self, request: Request, plan: Plan, story: Story) -> Sequence[Candidate]:
        """What the collection holds for the query, best first; all of it in reading order when stuffing."""
        if plan.strategy is Strategy.STUFF:
            return story.sift("retrieve", (), lambda: self._whole(request)).kept
        view = self._view(request, story)
        if view is None:
            return ()
        vector = story.soften("embed", lambda: self._vectors(request.query), instead=None)
        found = story.sift(
            "retrieve",
            (),
            lambda: retrieve(request.query, view, self._policy.retrieve, vector=vector),
        )
        return story.sift(
            "propagate", found.kept, lambda: self._propagate(request, view, found)
        ).kept

    def _view(self, request: Request, story: Story) -> Postings | None:
        """The collection's index; a wrong setting is the caller's to mend, anything else softens."""
        try:
            view = self._views(request.tenant, request.collection)
        except ConfigError:
            raise
        except SOFT as error:
            story.degrade("index", said(error))
            return None
        if view.degraded:
            story.degrade("index", view.degraded)
        return view

    def _propagate(self, request: Request, view: Postings, found: Sifted) -> Sifted:
        nodes = anchors(found, request.query, view, self._policy.propagate) if request.graph else ()
        edges = self._store.touching(request.tenant, nodes) if nodes else []
        return propagate(found, request.query, view, self._policy.propagate, edges=edges)

    async def _recall(self, request: Request, plan: Plan, story: Story) -> Sequence[Candidate]:
        """What memory holds for the query, and the paths of the things it names, best first."""
        found: list[Candidate] = []
        if self._memory is not None:
            memory = self._memory
            recalled = await story.asift(
                "memory", (), lambda: memory.recall(request, plan), instead=Recollection()
            )
            for reason in recalled.degraded:
                story.degrade("memory", reason)
            found += recalled.sifted.kept
        if request.graph:
            found += await asyncio.to_thread(self._paths, request, plan, story)
        return found

    def _paths(self, request: Request, plan: Plan, story: Story) -> Sequence[Candidate]:
        policy = self._policy.graph
        if plan.strategy is Strategy.RAG_GRAPH:  # lean on the graph: a hop farther, twice as much
            wider = {"max_hops": policy.max_hops + 1, "keep": 2 * policy.keep}
            policy = policy.model_copy(update=wider)
        tenant, store = request.tenant, self._store
        none: tuple[str, ...] = ()
        named = story.soften(
            "graph", lambda: mentioned(request.query, store, policy, tenant=tenant), instead=none
        )
        if not named:
            return ()
        return story.sift("graph", (), lambda: paths(named, store, policy, tenant=tenant)).kept

    def _whole(self, request: Request) -> Sifted:
        chunks = self._store.scan(request.tenant, request.collection)
        everyone = tuple(
            Candidate(chunk, 1.0).noted("retrieve", "add", "loaded whole") for chunk in chunks
        )
        return Sifted(kept=everyone, added=everyone)

    def _news(
        self, request: Request, plan: Plan, story: Story, found: Sequence[Candidate]
    ) -> Sequence[Candidate]:
        """What the model does not see yet; when that is too little, the store is asked once more."""
        policy = self._policy.expand
        if not request.penalize:
            return found
        fresh = story.sift("penalize", found, lambda: self._penalize(request, found))
        whole = plan.strategy is Strategy.STUFF
        if whole or not wanted(fresh, request.window, policy, k=request.k):
            return fresh.kept
        return story.sift("expand", fresh.kept, lambda: self._expand(request, fresh)).kept

    def _penalize(self, request: Request, found: Sequence[Candidate]) -> Sifted:
        tenant, ids = request.tenant, [c.chunk.id for c in found]
        stored = self._store.attached(tenant, request.collection, KIND, ids)
        return penalize(
            found,
            request.window,
            self._policy.penalize,
            fingerprints=stored,
            best_effort=request.best_effort,
            cache=self._seen,
        )

    def _expand(self, request: Request, fresh: Sifted) -> Sifted:
        """The second pass: other queries, what they find that is not known, penalized and joined."""
        policy = self._policy
        view = self._views(request.tenant, request.collection)
        first = [c.chunk.id for c in (*fresh.kept, *fresh.dropped)]
        names = anchors(Sifted(), request.query, view, policy.propagate) if request.graph else ()
        edges = self._store.touching(request.tenant, names) if names else []
        asked = variants(
            request.query, policy.expand, edges=edges, cwd=request.cwd, window=request.window
        )
        most = depth(request.k, policy.expand)
        deep = policy.retrieve.model_copy(update={"keep": most + len(first)})
        passes = [retrieve(query, view, deep).kept for query in asked]
        more = gather(passes, set(first))[:most]
        return fuse(fresh.kept, self._penalize(request, more), policy.expand)

    def _gate(
        self, request: Request, plan: Plan, story: Story, found: Sequence[Candidate]
    ) -> Sifted:
        """What fits the budget; whole documents keep their reading order."""
        policy, whole = self._policy.gate, plan.strategy is Strategy.STUFF
        if whole:
            policy = policy.model_copy(update={"entropy_weight": 0.0, "length_power": 0.0})
        return story.sift(
            "gate",
            found,
            lambda: gate(
                found,
                plan.budget,
                self._count,
                policy,
                k=request.k,
                conversation=not whole and self._talks(request),
                preview_chars=(
                    self._policy.compose.preview_chars if request.detail == "preview" else None
                ),
            ),
        )

    def _pass(
        self, request: Request, plan: Plan, story: Story, came: Sequence[Candidate]
    ) -> Sifted:
        """The way of what comes from outside: nothing that the model sees already, within the budget."""
        if request.penalize:
            came = story.sift("penalize", came, lambda: self._penalize(request, came)).kept
        return self._gate(request, plan, story, came)

    def _talks(self, request: Request) -> bool:
        return self._views(request.tenant, request.collection).conversational

    def _compose(self, request: Request, plan: Plan, story: Story, judged: Judged) -> Composed:
        secret = self._store.secret(request.tenant)
        return story.sift(
            "compose",
            judged.kept,
            lambda: compose(
                judged.kept,
                plan.budget,
                self._count,
                self._policy.compose,
                secret=secret,
                detail=request.detail,
                order=request.order,
                strips=judged.strips,
            ),
            instead=Composed("", 0, Sifted()),
        )

    def _answer(
        self, request: Request, plan: Plan, story: Story, composed: Composed, judged: Judged
    ) -> Context:
        trace = Trace(
            id=self._name(),
            request=request,
            plan=plan,
            steps=story.steps,
            candidates=story.candidates,
            created=self._clock(),
        )
        dropped = [c for c in trace.candidates if c.dropped]
        return Context(
            text=composed.text,
            chunks=composed.shown,
            token_estimate=composed.tokens,
            trace=trace,
            report=report(composed.sifted.kept, dropped),
            sources=composed.sources,
            graph_context=composed.graph_context,
            admissibility_token=composed.token,
            fallback=judged.fallback,
            fallback_reason=judged.reason,
            review=judged.review,
            latency_ms=1000 * story.seconds,
        )
