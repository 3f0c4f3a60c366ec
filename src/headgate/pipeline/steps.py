"""Steps: each stage called for one request, with its policy and resources, and recorded.

Engine.build says which stage follows which; a step here only says how its stage is called and what stands in for it
when it fails. No step calls another stage's step, and what a stage needs from an earlier one comes in as data. Where a
step has work to do around its stage, that stands in find.py, several.py and fallback.py.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from headgate.classes import lazy_property
from headgate.errors import ConfigError, NotReady
from headgate.graph.knowledge import anchors, paths, project_of
from headgate.memory.providers import Recollection
from headgate.memory.review import ReviewQueue
from headgate.notes import Stage
from headgate.pipeline.fallback import (
    Verdict,
    ask_person,
    grade_policy_for,
    is_in_window,
    search_outside,
)
from headgate.pipeline.find import Starts, load_edges, load_whole, penalize_known, search_again
from headgate.pipeline.recorder import TraceRecorder
from headgate.pipeline.resources import Policies, Resources
from headgate.pipeline.several import calibrated_grader, drop_left_over, merge
from headgate.protocols import Postings, Vocabulary
from headgate.relevance.excerpt import excerpt
from headgate.relevance.query_terms import Question, ask
from headgate.relevance.reading import read_query
from headgate.stages.compose import Composed, compose
from headgate.stages.decide import decide
from headgate.stages.expand import wants_more
from headgate.stages.gate import Gated, gate, report
from headgate.stages.grade import CRISIS, Action, Graded, grade
from headgate.stages.propagate import propagate
from headgate.stages.retrieve import retrieve
from headgate.text.fence import fence_secret
from headgate.text.languages import choose
from headgate.types import (
    Candidate,
    Chunk,
    Context,
    Edge,
    Plan,
    Request,
    Sifted,
    Strategy,
    Trace,
)

if TYPE_CHECKING:
    import numpy.typing as npt

Candidates = Sequence[Candidate]
Rankings = Mapping[str, Sifted]
"""What was found, by collection."""


class Steps:
    """The stages of one request.

    `plan` is set by `decide`, `views` (the collections' indexes) by `open_indexes`, and `embedded`
    (whether an embedder had a part in the ranking) by `retrieve`.
    """

    plan: Plan

    def __init__(self, resources: Resources, policy: Policies, request: Request) -> None:
        self.resources = resources
        self.policy = policy
        self.request = request
        self.recorder = TraceRecorder(resources.tick)
        self.views: dict[str, Postings] = {}
        self.embedded = False
        self._reads: dict[tuple[str, int], Sequence[tuple[int, ...]]] = {}
        self._questions: dict[tuple[str, int], Question] = {}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Every candidate so far, as its last stage left it."""
        return self.recorder.candidates

    @property
    def stuffs(self) -> bool:
        """Whether the collections are loaded whole."""
        return self.plan.strategy is Strategy.STUFF

    @property
    def empty_collections(self) -> Sequence[str]:
        """The collections that were asked, where none of them has anything."""
        empty = [name for name, view in self.views.items() if not view.count]
        return empty if len(empty) == len(self.request.collections) else ()

    @lazy_property
    def project(self) -> str:
        """What the caller works on."""
        return project_of(self.request.cwd)

    @lazy_property
    def _has_edges(self) -> bool:
        """Whether the tenant has given any knowledge, asked once a request."""
        return self.resources.store.has_edges(self.request.tenant)

    def decide(self) -> Plan:
        """Whether to retrieve, and how much. What the collections hold matters where the window is known."""
        tokens: int | None = None
        chunks: int | None = None
        if self.request.context_budget is not None:
            tokens, chunks = self.recorder.attempt(
                Stage.DECIDE, self._measure_collections, instead=(tokens, chunks)
            )
        self.plan = decide(
            self.request, self.policy.decide, content_tokens=tokens, content_chunks=chunks
        )
        return self.plan

    def _measure_collections(self) -> tuple[int | None, int | None]:
        request, resources = self.request, self.resources
        tokens = chunks = 0
        for name in request.collections:
            size = resources.store.size(request.tenant, name)
            chunks += size.chunks
            tokens += resources.sizes.tokens(request.tenant, name, size, most=request.budget)
        return tokens, chunks

    def open_indexes(self) -> None:
        """Open the collections' indexes; a wrong setting is the caller's to mend, anything else leaves one out."""
        for name in self.request.collections:
            view = self.recorder.attempt(
                Stage.INDEX,
                partial(self.resources.views, self.request.tenant, name, self.request.query),
                instead=None,
                fatal=(ConfigError, NotReady),
            )
            if view is None:
                continue
            self.views[name] = view
            if view.degraded:
                self.recorder.degrade(Stage.INDEX, view.degraded)

    def retrieve(self) -> Rankings:
        """What each collection holds for the query, best first; all of it in reading order when stuffing."""
        request, record = self.request, self.recorder
        if not self.views and not self.stuffs:
            return {}
        vector = record.attempt(
            Stage.EMBED, lambda: self.resources.vectors(request.query), instead=None
        )
        self.embedded = vector is not None
        if self.stuffs:
            load = partial(self._load_whole, vector=vector)
            names = request.collections
            return {name: record.run(Stage.RETRIEVE, (), partial(load, name)) for name in names}
        search = partial(
            retrieve, request.query, policy=self.policy.retrieve, vector=vector, read=self._read
        )
        found = {}
        for name, view in self.views.items():
            found[name] = record.run(Stage.RETRIEVE, (), partial(search, view=view))
            if view.narrowed_to:
                record.annotate(Stage.RETRIEVE, {"narrowed_to": view.narrowed_to})
        return found

    def load_edges(self, found: Rankings) -> tuple[Starts, Sequence[Edge]]:
        """Where signals start in each collection, and the given edges around it."""
        if self.stuffs or not self.views or not self.request.graph:
            return {}, ()
        none: tuple[Starts, Sequence[Edge]] = ({}, ())
        store, policy = self.resources.store, self.policy.propagate
        return self.recorder.attempt(
            Stage.EDGES,
            lambda: load_edges(
                self.request, found, self.views, store if self._has_edges else None, policy
            ),
            instead=none,
            timed=True,
        )

    def propagate(self, found: Rankings, starts: Starts, edges: Sequence[Edge]) -> Candidates:
        """What was found, and what it is connected to."""
        query, policy = self.request.query, self.policy.propagate
        ranked = {name: sifted.kept for name, sifted in found.items()}
        if self.stuffs:
            # in reading order, one collection after the other
            return tuple({c.chunk.id: c for c in chain(*ranked.values())}.values())
        for name, view in self.views.items():
            spread = partial(propagate, found[name], query, view, policy)
            work = partial(spread, start=starts.get(name), edges=edges)
            ranked[name] = self.recorder.run(Stage.PROPAGATE, ranked[name], work).kept
        return merge(list(ranked.values()))

    def recall_facts(self) -> Candidates:
        """What was remembered about the query."""
        memory = self.resources.memory
        if memory is None:
            return ()
        return self.recorder.run(
            Stage.MEMORY, (), lambda: memory.recall_facts(self.request, self.plan)
        ).kept

    @property
    def has_providers(self) -> bool:
        """Whether there are memory providers to ask."""
        memory = self.resources.memory
        return memory is not None and bool(memory.providers.names)

    async def ask_providers(self) -> Candidates:
        """What the memory providers answer."""
        memory = self.resources.memory
        if memory is None:
            return ()
        recalled = await self.recorder.arun(
            Stage.MEMORY,
            (),
            lambda: memory.ask_providers(self.request, self.plan),
            instead=Recollection(),
        )
        for reason in recalled.degraded:
            self.recorder.degrade(Stage.MEMORY, reason)
        return recalled.sifted.kept

    def find_paths(self) -> Candidates:
        """The paths of what the query names, through given knowledge."""
        request, store, policy = self.request, self.resources.store, self.policy.graph
        if not request.graph:
            return ()
        if self.plan.strategy is Strategy.RAG_GRAPH:
            # lean on the graph: a hop farther, twice as much
            wider = {"max_hops": policy.max_hops + 1, "keep": 2 * policy.keep}
            policy = policy.model_copy(update=wider)
        none: tuple[str, ...] = ()
        named = self.recorder.attempt(
            Stage.GRAPH,
            lambda: (
                anchors(request.query, store, policy, tenant=request.tenant, project=self.project)
                if self._has_edges
                else none
            ),
            instead=none,
        )
        if not named:
            return ()
        return self.recorder.run(
            Stage.GRAPH, (), lambda: paths(named, store, policy, tenant=request.tenant)
        ).kept

    def penalize(self, candidates: Candidates) -> Sifted:
        """What is new to the window; in reading order when stuffing."""
        if not self.request.penalize:
            return Sifted(kept=tuple(candidates))
        fresh = self.recorder.run(
            Stage.PENALIZE,
            candidates,
            lambda: penalize_known(candidates, self.request, self.resources, self.policy.penalize),
        )
        if not self.stuffs:
            return fresh
        place = {c.chunk.id: at for at, c in enumerate(candidates)}
        in_order = sorted(fresh.kept, key=lambda c: place[c.chunk.id])
        return Sifted(tuple(in_order), fresh.dropped)

    def wants_more(self, fresh: Sifted) -> bool:
        """Whether too little is new, so that it is worth asking once more."""
        if self.stuffs or not self.views or not self.request.penalize:
            return False
        return wants_more(fresh, self.request.window, self.policy.expand, k=self.request.k)

    def expand(self, fresh: Sifted, edges: Sequence[Edge]) -> Sifted:
        """What was new, with what other queries bring."""
        return self.recorder.run(
            Stage.EXPAND,
            fresh.kept,
            lambda: search_again(
                self.request,
                fresh,
                self.views,
                self.resources,
                self.policy,
                edges=edges,
                project=self.project,
            ),
        )

    def gate(self, fresh: Sifted) -> Gated:
        """What is worth its tokens and fits the budget, in part where need be; a stuffed collection is known to fit."""
        if self.stuffs:
            return Gated(fresh.kept)
        preview = self.policy.compose.preview_chars if self.request.detail == "preview" else None
        gated = self.recorder.run(
            Stage.GATE,
            fresh.kept,
            lambda: gate(
                fresh.kept,
                self.plan.budget,
                self.resources.count,
                self.policy.gate,
                k=self.request.k,
                excerpt=self._excerpt if self.views else None,
                conversation=bool(self.views)
                and all(v.conversational for v in self.views.values()),
                preview_chars=preview,
            ),
        )
        return gated if isinstance(gated, Gated) else Gated(gated.kept)

    def drop_left_over(self, fitting: Candidates) -> Candidates:
        """What fits, or nothing where the window shows all that is relevant already."""
        seen = self._candidates_in_window()
        if not seen or not fitting or not self.views:
            return fitting
        return self.recorder.run(
            Stage.GRADE,
            fitting,
            lambda: drop_left_over(self.request.query, fitting, seen, self.views, self._ask),
        ).kept

    async def grade(
        self,
        fitting: Candidates,
        *,
        found: Candidates = (),
    ) -> Graded:
        """How relevant candidates are; a grader that fails lets all of them pass.

        `found` is the ranking they were taken from, which tells whether the collection knows at all.
        """
        grader = self.resources.grader or calibrated_grader(
            self.views, found, self._candidates_in_window(), embedded=self.embedded, ask=self._ask
        )
        policy = grade_policy_for(self.plan, grader, self.policy.grade)
        graded = await self.recorder.arun(
            Stage.GRADE,
            fitting,
            lambda: grade(self.request.query, fitting, grader, policy),
            instead=Graded(Sifted(kept=tuple(fitting)), Action.CORRECT),
        )
        self.recorder.annotate(Stage.GRADE, {"action": graded.action.value})
        return graded

    async def search(self) -> Candidates | None:
        """What a search outside brings; None when there is none or it failed."""
        search, failed = self.resources.search, Sifted()
        if search is None:
            return None
        limit = self.policy.grade.search_limit
        taken = {candidate.chunk.id for candidate in self.candidates}
        came = await self.recorder.arun(
            Stage.SEARCH,
            (),
            lambda: search_outside(search, self.request.query, limit=limit, taken=taken),
            instead=failed,
        )
        return None if came is failed else came.kept

    def review(self, grades: Mapping[str, float], reason: str) -> str | None:
        """The review that now waits, "" when the queue could not take it, None when it is off or not asked for."""
        policy = self.policy.review
        if not policy.enabled or not (policy.on_refusal or self.plan.group == CRISIS):
            return None
        request, resources = self.request, self.resources
        queue = ReviewQueue(
            resources.store,
            request.tenant,
            self.policy.review,
            clock=resources.clock,
            defer=resources.defer,
            rate=resources.ask_rate,
        )
        review = self.recorder.attempt(
            Stage.REVIEW,
            lambda: ask_person(queue, request, grades, reason),
            instead="",
            timed=True,
        )
        self.recorder.annotate(Stage.REVIEW, {"review": review})
        return review

    def compose(self, verdict: Verdict, strips: Mapping[str, str]) -> Composed:
        """One block of what may be shown; `strips` are those that the gate cut for lack of room."""
        request, resources = self.request, self.resources
        return self.recorder.run(
            Stage.COMPOSE,
            verdict.kept,
            lambda: compose(
                verdict.kept,
                self.plan.budget,
                resources.count,
                self.policy.compose,
                secret=fence_secret(resources.store.secret(request.tenant)),
                detail=request.detail,
                order=request.order,
                strips={**verdict.strips, **strips},
                side_share=self.policy.gate.graph_share,
            ),
            instead=Composed("", 0, Sifted()),
        )

    def context(self, composed: Composed, verdict: Verdict) -> Context:
        """The context with its trace."""
        trace = Trace(
            id=self.resources.name(),
            request=self.request,
            plan=self.plan,
            steps=self.recorder.steps,
            candidates=self.candidates,
            created=self.resources.clock(),
        )
        return Context(
            text=composed.text,
            chunks=composed.shown,
            texts=composed.texts,
            token_estimate=composed.tokens,
            trace=trace,
            report=report(composed.sifted.kept, [c for c in trace.candidates if c.dropped]),
            sources=composed.sources,
            graph_context=composed.graph_context,
            admissibility_token=composed.token,
            fallback=verdict.fallback,
            fallback_reason=verdict.reason,
            review=verdict.review,
            latency_ms=1000 * self.recorder.seconds,
        )

    def _load_whole(self, collection: str, vector: "npt.ArrayLike | None") -> Sifted:
        """Every chunk in reading order, scored as retrieval does; without an index all score alike."""
        chunks = tuple(self.resources.store.scan(self.request.tenant, collection))
        view, policy = self.views.get(collection), self.policy.retrieve
        return load_whole(self.request.query, chunks, view, policy, vector=vector)

    def _candidates_in_window(self) -> Candidates:
        """The candidates that were left out because the window holds them already."""
        return self.recorder.select(is_in_window) if self.request.window else ()

    def _read(self, query: str, view: Vocabulary) -> Sequence[tuple[int, ...]]:
        key = (query, id(view))
        if key not in self._reads:
            self._reads[key] = read_query(query, view)
        return self._reads[key]

    def _ask(self, query: str, view: Vocabulary) -> Question:
        """A query in the terms of a collection, read once a request."""
        key = (query, id(view))
        if key not in self._questions:
            self._questions[key] = ask(query, view, self._read)
        return self._questions[key]

    def _excerpt(self, chunk: Chunk, fits: Callable[[str], bool]) -> str:
        """The best strips of a chunk that fit, chosen by the terms of its collection."""
        name = chunk.collection if chunk.collection in self.views else next(iter(self.views))
        view, query = self.views[name], self.request.query
        return excerpt(chunk.text, self._ask(query, view), choose(query, view.language), fits)
