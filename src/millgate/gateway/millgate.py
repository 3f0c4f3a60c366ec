"""Millgate: open a store, add to it, ask it for context, and ask it why.

Every call that waits or writes has two forms: `acontext` for code that runs in an event loop, `context` for code
that does not. The blocking forms work everywhere, notebooks included.
`facts`, `graph`, `reviews`, `keys` and `spending` hold the operations on what they name. Opening and closing are in
wiring.py, adding and removing in documents.py, traces and their questions in traces.py.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from millgate.calls.loop import LoopCalls, async_version
from millgate.errors import InputError, StoreError
from millgate.gateway.compactions import Compactions, LostMessages
from millgate.knowledge.facts import AddedFact, FactHit, Facts, Feedback, highest_praise
from millgate.knowledge.review import ReviewQueue
from millgate.pipeline.recorder import survive
from millgate.protocols import ClusterStore, RequestScopedStore, Snapshot
from millgate.text.meant import nearest
from millgate.transcript.topic import read_with_topic
from millgate.types import Context, ContextBudget, Request, Step, Window, WindowLike
from millgate.types.check import check_type
from millgate.types.notes import Stage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from millgate.keys import Keys
    from millgate.knowledge.graph import Graph
    from millgate.spending.spending import Spending

_PROBE = "millgate-readiness"  # a tenant without data, so that no check reads a user's data
_DEFAULT = Request("")
"""The defaults of a request, which are those of `context`."""
_MEANT = {
    "search": "context(question)",
    "query": "context(question)",
    "retrieve": "context(question)",
    "ask": "context(question)",
    "get": "document(id)",
    "insert": "add(rows)",
    "delete": "remove(documents=[id])",
    "status": "collections(), or in a shell: millgate status",
}
"""Names that people try first, and what is called so here."""


class Millgate(Compactions):
    """The gate over one store. Safe to share between threads; close it, or use it in a `with` block."""

    if not TYPE_CHECKING:  # a type checker is to find a wrong name by itself

        def __getattr__(self, name: str) -> object:
            """Name the method that was meant."""
            if hasattr(type(self), name):
                return object.__getattribute__(self, name)  # raises what the property raised
            public = [one for one in dir(type(self)) if not one.startswith("_")]
            meant = "" if name.startswith("_") else _MEANT.get(name) or nearest(name, public)
            raise AttributeError(
                f"Millgate has no {name}" + (f" (did you mean {meant})" if meant else "")
            )

    @property
    def facts(self) -> Facts:
        """The facts of this tenant: add, update, forget, search, feedback."""
        return self._components.memory.facts(self.tenant)

    @property
    def graph(self) -> "Graph":
        """The knowledge of this tenant: link edges, follow paths, cut and verify slices."""
        from millgate.knowledge.graph import Graph  # noqa: PLC0415  (a plain request needs none of it)

        components = self._components
        settings = components.settings
        return Graph(
            components.store, self.tenant, settings.graph, settings.slice, clock=components.clock
        )

    @property
    def reviews(self) -> ReviewQueue:
        """The questions of this tenant that wait for a person: list, answer, approve, reject."""
        components = self._components
        return ReviewQueue(
            components.store, self.tenant, components.settings.review, clock=components.clock
        )

    @property
    def lost_messages(self) -> LostMessages:
        """What compactions took out of windows: the proxy and adapters of frameworks keep it and put it back."""
        return LostMessages(self, self._components, self._build, self._abuild)

    @property
    def keys(self) -> "Keys":
        """The API keys of this tenant: create, list, revoke."""
        from millgate.keys import Keys  # noqa: PLC0415  (as above)

        return Keys(self._components.store, self.tenant, clock=self._components.clock)

    @property
    def spending(self) -> "Spending":
        """What sessions, keys and this tenant have spent through the proxy: list, resume."""
        from millgate.spending.prices import Prices  # noqa: PLC0415  (as above)
        from millgate.spending.spending import Spending  # noqa: PLC0415  (as above)

        components = self._components
        settings = components.settings
        return Spending(
            components.store,
            self.tenant,
            settings.fuse,
            prices=Prices(settings.prices),
            clock=components.clock,
        )

    @property
    def lost_writes(self) -> int:
        """How many traces and reviews could not be written behind an answer since this was opened."""
        return self._components.writes.dropped

    def remember(
        self,
        content: str,
        *,
        category: str = "general",
        tags: Sequence[str] = (),
        trust: float | None = None,
    ) -> AddedFact:
        """Remember a fact; one that is known already comes back as it is, with `new` False.

            gate.remember("The deploy key lies in vault seven.", category="ops", tags=["deploy"])

        A text that a context gave is not stored again: it comes back with `repeats_injected_text` True.
        """
        return self.facts.add(content, category=category, tags=tags, trust=trust)

    def recall(
        self, query: str, *, limit: int | None = None, min_trust: float | None = None
    ) -> list[FactHit]:
        """The facts that fit a query, best first, by relevance and trust.

        For example: `[hit.fact.content for hit in gate.recall("where is the deploy key?")]`.
        """
        hits = self.facts.search(query, limit=limit, min_trust=min_trust)
        if not self._components.read_only:
            with suppress(StoreError):  # a full disk: the count is not worth the facts
                self.facts.count_recall(hit.fact.id for hit in hits)
        return hits

    def feedback(
        self, id: str, *, helpful: bool, note: str = "", scopes: Collection[str] = ("review",)
    ) -> Feedback:
        """Tell whether a fact helped; its trust before and after.

        `scopes` are those of the caller: only one with `review` raises a fact as high as a reviewed one.

        For example: `gate.feedback(hits[0].fact.id, helpful=True)`.
        """
        settings = self.settings
        highest = highest_praise(scopes, settings.review.trust, settings.facts.helpful)
        return self.facts.feedback(id, helpful=helpful, note=note, highest=highest)

    def recall_session(
        self,
        query: str,
        session: str = "",
        *,
        key: str = "",
        window: WindowLike = None,
        budget: int = _DEFAULT.budget,
    ) -> Context:
        """What left the windows of an agent's session and fits a query, results of tools too.

        For example: `gate.recall_session("which port does the staging server have?", "monday").text`.

        Without a name it is the session that was compacted last. `key` is the id of the API key that the agent called
        with, if it did. The setting `compaction.mode` must have been "keep" or "inject".
        """
        from millgate.sessions.compaction.keep import collection_of, results_of  # noqa: PLC0415  (as above)

        if not session:
            session, key = self._last_compacted()
        said = collection_of(session, key)
        results = results_of(said)
        return self.context(
            query,
            window=window,
            budget=budget,
            collection=(said, results) if results in self.collections() else said,
            session=session,
            graph=False,
        )

    def context(  # noqa: PLR0913  (every parameter of a request, by name)
        self,
        query: str,
        *,
        window: WindowLike = None,
        budget: int = _DEFAULT.budget,
        k: int | None = _DEFAULT.k,
        collection: str | Sequence[str] = _DEFAULT.collection,
        context_budget: ContextBudget | None = _DEFAULT.context_budget,
        task: str | None = _DEFAULT.task,
        session: str = _DEFAULT.session,
        cwd: str = _DEFAULT.cwd,
        penalize: bool = _DEFAULT.penalize,
        graph: bool = _DEFAULT.graph,
        best_effort: bool = _DEFAULT.best_effort,
        floor: float | None = _DEFAULT.floor,
        detail: Literal["whole", "preview"] = _DEFAULT.detail,
        order: Literal["rank", "edges"] = _DEFAULT.order,
        follow: bool = True,
    ) -> Context:
        """The best context for a query that fits the budget and is new to the window.

            context = gate.context("how do refunds work?", window=messages, budget=1000)
            messages.append({"role": "user", "content": context.text})

        `window` is what the model already sees: texts, chat messages, or a fingerprint payload. `budget` is tokens; `k`
        is the most chunks to give, None for whatever fits. `collection` is where to look: one name or several.
        `context_budget` says how full the model's window is, `task` what kind of task this is, `session` which
        conversation it belongs to, `cwd` in which folder the caller works. `penalize` pushes down what the window
        holds, `graph` lets knowledge edges take part. `best_effort` gives what the model already sees if there is
        nothing else. `floor` leaves out chunks of which 1,000 tokens hold less than this share of the evidence, though
        there is space; 0 fills the budget. `follow` looks up a question that points back ("and its filter part?") with
        the question before it in the window. `detail` "preview" shortens each chunk; `order` "edges" puts the best
        chunks first and last.
        """
        request = Request(
            read_with_topic(query, window) if follow else query,
            tenant=self.tenant, window=Window.of(window), budget=budget, k=k,
            collection=collection, context_budget=context_budget, task=task, session=session,
            cwd=cwd, penalize=penalize, graph=graph, best_effort=best_effort, floor=floor,
            detail=detail, order=order,
        )  # fmt: skip
        return self.context_for(request)

    async def acontext(  # noqa: PLR0913  (every parameter of a request, by name)
        self,
        query: str,
        *,
        window: WindowLike = None,
        budget: int = _DEFAULT.budget,
        k: int | None = _DEFAULT.k,
        collection: str | Sequence[str] = _DEFAULT.collection,
        context_budget: ContextBudget | None = _DEFAULT.context_budget,
        task: str | None = _DEFAULT.task,
        session: str = _DEFAULT.session,
        cwd: str = _DEFAULT.cwd,
        penalize: bool = _DEFAULT.penalize,
        graph: bool = _DEFAULT.graph,
        best_effort: bool = _DEFAULT.best_effort,
        floor: float | None = _DEFAULT.floor,
        detail: Literal["whole", "preview"] = _DEFAULT.detail,
        order: Literal["rank", "edges"] = _DEFAULT.order,
        follow: bool = True,
    ) -> Context:
        """As `context`, for code in an event loop; graders, searches and providers of your own run on that loop."""
        request = Request(
            read_with_topic(query, window) if follow else query,
            tenant=self.tenant, window=Window.of(window), budget=budget, k=k,
            collection=collection, context_budget=context_budget, task=task, session=session,
            cwd=cwd, penalize=penalize, graph=graph, best_effort=best_effort, floor=floor,
            detail=detail, order=order,
        )  # fmt: skip
        return await self.acontext_for(request)

    def context_for(self, request: Request) -> Context:
        """The context for a ready-made request; its trace is stored. The tenant is that of this gate.

        gate.context_for(Request("how do refunds work?", budget=500))
        """
        return self._build(request)

    async def acontext_for(self, request: Request) -> Context:
        """As `context_for`, for code in an event loop."""
        return await self._abuild(request)

    def _build(
        self, request: Request, change: Callable[[Context], Context] | None = None
    ) -> Context:
        components = self._components
        return components.threads.call(self._answer, request, LoopCalls(components.loop), change)

    async def _abuild(
        self, request: Request, change: Callable[[Context], Context] | None = None
    ) -> Context:
        calls = LoopCalls.of_running_loop()
        try:
            return await self._components.threads.run(self._answer, request, calls, change)
        except asyncio.CancelledError:
            calls.cancel()
            raise

    def _answer(
        self,
        request: Request,
        calls: LoopCalls,
        change: Callable[[Context], Context] | None = None,
    ) -> Context:
        """Build the context, change it if asked to, and keep its trace, in the thread that this is called in."""
        components = self._components
        if request.tenant not in (self.tenant, _DEFAULT.tenant):
            raise InputError(
                f"the request is for the tenant {request.tenant!r}, and this gate is for {self.tenant!r}",
                hint=f"call it on gate.for_tenant({request.tenant!r})",
            )
        request = replace(request, tenant=self.tenant)
        store = components.store
        with store.one_request() if isinstance(store, RequestScopedStore) else nullcontext():
            context = components.engine.build(request, calls)
        components.check_open(
            closed=self._closed
        )  # a context that was built while this was closed may be incomplete
        return self._keep(change(context) if change else context)

    def index(self, collection: str = "main", *, wait: bool = True) -> Snapshot:
        """The index of a collection: what ranking reads. With `wait` it is caught up with the store, else the last
        complete one.
        """
        indexes = self._components.indexes
        read = indexes.snapshot if wait else indexes.latest
        return read(self.tenant, collection)

    def reindex(self, collection: str = "main") -> Snapshot:
        """Delete the index of a collection and build it again from the store.

        For example: `gate.reindex("main")`, if `millgate doctor` says that the index is damaged.
        """
        return self._components.indexes.rebuild(self.tenant, collection)

    def embed(self, query: str) -> "npt.NDArray[np.float32] | None":
        """The vector of a query; None without an embedder."""
        return self._components.indexes.vector(query)

    def count_tokens(self, text: str) -> int:
        """The tokens of a text, as budgets count them.

        For example: `gate.count_tokens(context.text) <= 1000`.
        """
        check_type("text", text, str)
        return self._components.count(text)

    @property
    def is_distributed(self) -> bool:
        """Whether the rows of the store lie on the workers of a cluster."""
        store = self._components.store
        return isinstance(store, ClusterStore) and store.is_distributed

    def check(self, part: Literal["store", "index", "providers", "workers"]) -> str:
        """Ask a part whether it can serve; what is wrong with it, or "".

        For example: `gate.check("index")`. A cluster serves if its coordinator does: a worker that is away takes its
        own tenants along, and no others.
        """
        components = self._components
        store = components.store
        if part == "workers":
            away = store.unreachable_workers() if isinstance(store, ClusterStore) else ()
            # everybody may ask, so their addresses are for the log
            return f"{len(away)} cannot be reached" if away else ""
        if part == "store":
            if isinstance(store, ClusterStore):
                store.ping()
            else:
                store.collections(_PROBE)
            return ""
        if part == "index":
            # an index is read through the store: of a cluster it would ask the one worker that this name falls to
            return "" if self.is_distributed else components.indexes.latest(_PROBE, "main").degraded
        failures = components.memory.providers.failures_in_a_row().items()
        # their messages may name paths of this machine, and every caller may ask: traces have the messages
        return "; ".join(f"{name}: failures in a row: {count}" for name, count in failures if count)

    aremember = async_version(remember)
    arecall = async_version(recall)
    afeedback = async_version(feedback)
    arecall_session = async_version(recall_session)
    areindex = async_version(reindex)
    acheck = async_version(check)

    def _keep(self, context: Context) -> Context:
        """Queue the trace and write the log line; if that fails the answer stands and says so."""
        components, trace, lost = self._opened, context.trace, []
        components.memory.injected.add(trace)
        if problem := self._queue_trace(trace.id, lambda: trace):
            lost.append(Step(Stage.TRACE, 0.0, degraded=problem))
        try:
            if components.log is not None:
                components.log.write(context)
        except Exception as error:  # noqa: BLE001  (the answer is there: no log may cost it)
            reason, bug = survive(error, Stage.LOG)
            lost.append(Step(Stage.LOG, 0.0, degraded=f"not written: {reason}", bug=bug))
        if not lost:
            return context
        return replace(context, trace=replace(trace, steps=(*trace.steps, *lost)))
