"""Headgate, the front door: open a store, add to it, ask it for context, and ask it why.

Every call that waits or writes has two forms: `acontext` for code that runs in an event loop, `context` for code
that does not (twins.py). The blocking forms work everywhere, notebooks included.
`facts`, `graph`, `reviews`, `keys` and `spending` hold the operations on what they name.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from headgate.errors import ConfigError, HeadgateError, InputError, NotFound, StoreError
from headgate.explain.redacted import redact_trace
from headgate.explain.savings import with_savings
from headgate.memory.facts import AddedFact, FactHit, Facts, Feedback
from headgate.memory.review import ReviewQueue
from headgate.notes import Stage
from headgate.protocols import (
    Clock,
    Embedder,
    Grader,
    MemoryProvider,
    Postings,
    Store,
    TokenCounter,
    WebSearch,
)
from headgate.settings import Settings, load, with_changes
from headgate.twins import BackgroundLoop, in_thread, on_loop
from headgate.types import (
    Chunk,
    Context,
    ContextBudget,
    Request,
    Size,
    Step,
    Trace,
    TraceSummary,
    Window,
    WindowLike,
)
from headgate.wiring import Own, Parts, build, engine_with

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from headgate.explain.replay import Replay
    from headgate.explain.why import Why
    from headgate.graph.graph import Graph
    from headgate.ingest.load import Kind, OnProgress, Progress, Summary
    from headgate.keys import Keys
    from headgate.memory.sessions import AddedTurns
    from headgate.spending import Spending

_FOLLOW = 1_000  # chunks added from which the index follows at once
_PROBE = "headgate-readiness"  # a tenant that nobody has, so that no check reads anybody's data
_DEFAULT = Request("")
"""The defaults of a request, which are those of `context`."""


class Headgate:
    """The gate over one store. Safe to share between threads; close it, or use it in a `with` block."""

    def __init__(self, parts: Parts, tenant: str, *, owns: bool = True) -> None:
        self.tenant = tenant
        self._all = parts
        self._owns = owns
        self._background = BackgroundLoop()
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        tenant: str | None = None,
        settings: Settings | None = None,
        store: Store | None = None,
        embedder: Embedder | None = None,
        grader: Grader | None = None,
        search: WebSearch | None = None,
        providers: Sequence[MemoryProvider] | None = None,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
        wait_for_index: bool = True,
        **arguments: Any,  # noqa: ANN401  (settings by name, checked by their schema)
    ) -> Self:
        """Open a folder, ":memory:", "postgresql://...", or what the settings name; it is made when it is not there.

        Settings come from `settings`, or from environment and file with `arguments` on top:
        `Headgate.open("./kb", gate={"order": "entropy"})`.

        `store`, `embedder`, `grader`, `search`, `providers`, `counter` and `clock` take objects of your own that
        fit the protocols in `headgate.protocols`; they take the place of what the settings name. With a store of
        your own, `path` is the folder of the indexes over it; without one they live in memory.

        A request waits until the index has caught up with the store, so it sees all that was written before. With
        `wait_for_index` off, as the service has it, it never waits: it is answered from the last complete index, which
        says in `degraded` when it is behind, or raises NotReady where there is none yet; a thread follows meanwhile.
        """
        given = dict(arguments)
        if path is not None:
            given["store"] = str(path)
        if tenant is not None:
            given["tenant"] = tenant
        if settings is None:
            settings = load(arguments=given)
        elif given:
            settings = with_changes(settings, given)
        own = Own(store, embedder, grader, search, providers, counter, clock)
        # beside a store of the caller's own; else the store's own place
        folder = None if store is None or path in (None, ":memory:") else Path(str(path))
        return cls(
            build(settings, own, folder=folder, wait_for_index=wait_for_index), settings.tenant
        )

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._parts.settings

    @property
    def store(self) -> Store:
        """The store itself, for what has no method here."""
        return self._parts.store

    @property
    def folder(self) -> Path | None:
        """Where the store, or what is derived from it, lies on disk; None where all is in memory."""
        return self._parts.folder

    @property
    def facts(self) -> Facts:
        """The facts of this tenant: add, update, forget, search, feedback."""
        return self._parts.memory.facts(self.tenant)

    @property
    def graph(self) -> "Graph":
        """The knowledge of this tenant: link edges, follow paths, cut and verify slices."""
        from headgate.graph.graph import Graph  # noqa: PLC0415  (a plain request needs none of it)

        parts = self._parts
        settings = parts.settings
        return Graph(parts.store, self.tenant, settings.graph, settings.slice, clock=parts.clock)

    @property
    def reviews(self) -> ReviewQueue:
        """The questions of this tenant that wait for a person: list, answer, approve, reject."""
        parts = self._parts
        return ReviewQueue(parts.store, self.tenant, parts.settings.review, clock=parts.clock)

    @property
    def keys(self) -> "Keys":
        """The API keys of this tenant: create, list, revoke."""
        from headgate.keys import Keys  # noqa: PLC0415  (as above)

        return Keys(self._parts.store, self.tenant, clock=self._parts.clock)

    @property
    def spending(self) -> "Spending":
        """What sessions, keys and this tenant have spent through the proxy: list, resume."""
        from headgate.spending import Spending  # noqa: PLC0415  (as above)

        parts = self._parts
        return Spending(parts.store, self.tenant, parts.settings.fuse, clock=parts.clock)

    @property
    def lost_writes(self) -> int:
        """How many traces and reviews could not be written behind an answer since this was opened."""
        return self._parts.writes.dropped

    def add(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        collection: str = "main",
        kind: "Kind" = "",
        on_progress: "OnProgress | None" = None,
    ) -> "Summary":
        """Add rows {id, text, title, collection, metadata}; a row with a known id replaces what had it.

        A row that fits one chunk keeps its id. `kind` is "conversation" where rows are turns that nothing in
        their text tells (see docs/ingest.md). `on_progress` is told of the progress after each batch.
        """
        from headgate.ingest.load import add_rows  # noqa: PLC0415  (to read needs no ingest)

        parts = self._parts
        return add_rows(
            parts.store, self.tenant, rows,
            collection=collection, kind=kind, policy=parts.settings.ingest, on_progress=self._index(on_progress),
        )  # fmt: skip

    def add_files(
        self,
        *paths: str | Path,
        collection: str = "main",
        kind: "Kind" = "",
        exclude: Sequence[str] = (),
        gitignore: bool = True,
        prune: bool = False,
        on_progress: "OnProgress | None" = None,
    ) -> "Summary":
        """Add files and folders; what has not changed since is left alone, what cannot be read is skipped and said.

        A file's id is its path below the folder that the store lies in, else its full path, wherever this is called from.
        `exclude` are patterns, as in a `.gitignore`, of what to leave out of folders. What such files of the folders
        themselves name is left out too, unless `gitignore` is off, and so is the store's own folder.
        `kind` is as in `add`. With `prune`, documents whose file is gone from a folder that was named go too.
        """
        from headgate.ingest.load import add_files  # noqa: PLC0415  (to read needs no ingest)

        parts = self._parts
        own = self.folder
        return add_files(
            parts.store, self.tenant, paths,
            collection=collection, kind=kind, policy=parts.settings.ingest, prune=prune,
            root=own and own.absolute().parent, exclude=exclude, gitignore=gitignore, own_folder=own,
            on_progress=self._index(on_progress),
        )  # fmt: skip

    def add_stream(
        self,
        data: bytes,
        *,
        id: str = "stdin",
        collection: str = "main",
        kind: "Kind" = "",
        on_progress: "OnProgress | None" = None,
    ) -> "Summary":
        """Add what came over a pipe: JSON lines as rows, anything else as one text under that id; `kind` as in `add`."""
        from headgate.ingest.load import add_stream  # noqa: PLC0415  (to read needs no ingest)

        parts = self._parts
        return add_stream(
            parts.store, self.tenant, data,
            id=id, collection=collection, kind=kind, policy=parts.settings.ingest,
            on_progress=self._index(on_progress),
        )  # fmt: skip

    def add_turns(
        self,
        session: str,
        messages: Iterable[Mapping[str, Any] | str],
        *,
        collection: str = "turns",
    ) -> "AddedTurns":
        """Keep the turns of a conversation, so that `context(..., collection="turns")` recalls what was said.

        The whole history may be sent each time; only what is new is added.
        """
        from headgate.memory.sessions import add_turns  # noqa: PLC0415  (to read needs no ingest)

        parts = self._parts
        return add_turns(
            parts.store, self.tenant, session, messages, collection=collection, now=parts.clock()
        )

    def remove(
        self,
        *,
        collection: str = "main",
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        """Remove documents, chunks, or the whole collection; how many chunks went."""
        store = self._parts.store
        return store.remove(self.tenant, collection, documents=documents, chunks=chunks)

    def collections(self) -> Mapping[str, Size]:
        """The collections of this tenant, and how much each holds."""
        return self._parts.store.collections(self.tenant)

    def document(self, id: str, *, collection: str = "main") -> list[Chunk]:
        """The chunks of a document in reading order; an error when there is none of that id."""
        found = list(self._parts.store.scan(self.tenant, collection, document=id))
        if not found:
            raise NotFound(f"there is no document {id!r} in {collection!r}")
        return found

    def remember(
        self,
        content: str,
        *,
        category: str = "general",
        tags: Sequence[str] = (),
        trust: float | None = None,
    ) -> AddedFact:
        """Remember a fact; one that is known already comes back as it is, with `new` False.

        What repeats a text that a context gave is not stored: it comes back with `echo` True.
        """
        return self.facts.add(content, category=category, tags=tags, trust=trust)

    def recall(
        self, query: str, *, limit: int | None = None, min_trust: float | None = None
    ) -> list[FactHit]:
        """The facts that fit a query, best first, by relevance and trust."""
        hits = self.facts.search(query, limit=limit, min_trust=min_trust)
        self.facts.count_recall(hit.fact.id for hit in hits)
        return hits

    def feedback(self, id: str, *, helpful: bool, note: str = "") -> Feedback:
        """Tell whether a fact helped; its trust before and after."""
        return self.facts.feedback(id, helpful=helpful, note=note)

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
        detail: Literal["whole", "preview"] = _DEFAULT.detail,
        order: Literal["rank", "edges"] = _DEFAULT.order,
    ) -> Context:
        """The best context for a query that fits the budget and is new to the window.

        `window` is what the model already sees: texts, chat messages, or a fingerprint payload.
        `budget` is tokens; `k` is the most chunks to give, None for whatever fits.
        `collection` is where to look: one name or several. `context_budget` says how full the model's window is, `task` what kind
        of task this is, `session` which conversation it belongs to, `cwd` in which folder the caller works.
        `penalize` pushes down what the window holds, `graph` lets knowledge edges take part. `best_effort` gives
        what the model already sees when there is nothing else. `detail` "preview" shortens each chunk; `order`
        "edges" puts the best chunks first and last.
        """
        request = Request(
            query, tenant=self.tenant, window=Window.of(window), budget=budget, k=k,
            collection=collection, context_budget=context_budget, task=task, session=session,
            cwd=cwd, penalize=penalize, graph=graph, best_effort=best_effort, detail=detail,
            order=order,
        )  # fmt: skip
        return await self.acontext_for(request)

    async def acontext_for(self, request: Request) -> Context:
        """The context for a ready-made request; its trace is stored."""
        context = await self._parts.engine.build(request)
        return (
            self._keep(context)
            if self._all.log is None
            else await asyncio.to_thread(self._keep, context)
        )

    def trace(self, id: str | Trace) -> Trace:
        """A stored trace of this tenant, by its id; a trace at hand stands for itself."""
        store = self._parts.store
        if isinstance(id, Trace) and id.request.tenant == self.tenant:
            return id
        id = id.id if isinstance(id, Trace) else id
        found = store.trace(self.tenant, id)
        if found is None:  # it may still be waiting to be written
            self._parts.writes.flush()
            found = store.trace(self.tenant, id)
        if found is None:
            raise NotFound(f"there is no trace {id!r}", hint="see: headgate traces")
        return found

    def traces(self, *, limit: int = 100) -> list[TraceSummary]:
        """The stored traces of this tenant in one row each, newest first; `trace` reads one whole."""
        self._parts.writes.flush()
        return self._parts.store.traces(self.tenant, limit=limit)

    def save_trace(self, trace: Trace) -> None:
        """Store a trace that was made elsewhere, such as a model call of the proxy, by the settings of all traces."""
        self._check_open()
        if problem := self._queue_trace(trace):
            raise StoreError(problem)

    async def awhy(self, trace: str | Trace, chunk: str) -> "Why":
        """Where a chunk fell in a stored request, and the smallest change with which it would have entered."""
        from headgate.explain.why import why  # noqa: PLC0415  (few ask, and opening stays light)

        found = await asyncio.to_thread(self.trace, trace)
        return await why(found, chunk, self._run_changed, self._parts.settings)

    async def areplay(self, trace: str | Trace, changes: Mapping[str, Any]) -> "Replay":
        """A stored request under other settings ("gate.min_ratio") or asked otherwise ("budget", "k")."""
        from headgate.explain.replay import replay  # noqa: PLC0415  (few ask, and opening stays light)

        found = await asyncio.to_thread(self.trace, trace)
        try:
            return await replay(found, changes, self._run_changed)
        except ConfigError as error:
            raise InputError(error.message, hint=error.hint) from error

    def index(self, collection: str = "main", *, wait: bool = True) -> Postings:
        """The index of a collection: what ranking reads. With `wait` it is caught up with the store, else the last complete one."""
        indexes = self._parts.indexes
        read = indexes.snapshot if wait else indexes.latest
        return read(self.tenant, collection)

    def reindex(self, collection: str = "main") -> Postings:
        """Throw the index of a collection away and make it anew from the store."""
        return self._parts.indexes.rebuild(self.tenant, collection)

    def embed(self, query: str) -> "npt.NDArray[np.float32] | None":
        """The vector of a query; None without an embedder."""
        return self._parts.indexes.vector(query)

    def count_tokens(self, text: str) -> int:
        """The tokens of a text, as budgets count them."""
        return self._parts.count(text)

    def check(self, part: Literal["store", "index", "providers"]) -> str:
        """Ask a part whether it can serve; what is wrong with it, or nothing."""
        parts = self._parts
        if part == "store":
            parts.store.collections(_PROBE)
            return ""
        if part == "index":
            return parts.indexes.latest(_PROBE, "main").degraded
        health = parts.memory.providers.health().items()
        return "; ".join(
            f"{name}: {how.last_error or 'late'}" for name, how in health if how.failures_in_a_row
        )

    def for_tenant(self, tenant: str) -> "Headgate":
        """The same gate for another tenant; closing it leaves the shared store open."""
        return Headgate(self._parts, tenant, owns=False)

    def close(self) -> None:
        """Close the store and stop the background loop; what is called afterwards is an error."""
        self._closed = True
        self._background.close()
        if self._owns:
            self._all.close()

    aadd = in_thread(add)
    aadd_files = in_thread(add_files)
    aadd_stream = in_thread(add_stream)
    aadd_turns = in_thread(add_turns)
    aremove = in_thread(remove)
    acollections = in_thread(collections)
    adocument = in_thread(document)
    aremember = in_thread(remember)
    arecall = in_thread(recall)
    afeedback = in_thread(feedback)
    context = on_loop(acontext)
    context_for = on_loop(acontext_for)
    atrace = in_thread(trace)
    atraces = in_thread(traces)
    why = on_loop(awhy)
    replay = on_loop(areplay)
    areindex = in_thread(reindex)
    acheck = in_thread(check)
    aclose = in_thread(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    @property
    def _parts(self) -> Parts:
        """The parts, while they are open: every public method comes through here."""
        self._check_open()
        return self._all

    def _check_open(self) -> None:
        if self._closed or self._all.closed.is_set():
            raise StoreError("this Headgate is closed", hint="open it again: Headgate.open(...)")

    @property
    def _loop(self) -> BackgroundLoop:
        """Where blocking calls run; checked before one is begun."""
        self._check_open()
        return self._background

    async def _run_changed(self, request: Request, changes: Mapping[str, Any]) -> Context:
        return await engine_with(self._parts, changes).build(request)

    def _index(self, on_progress: "OnProgress | None") -> "OnProgress":
        """Let the indexes follow a long add batch by batch; what is left, and small adds, the next query takes in.

        What was added is safe whether or not it can be indexed now; the query that cannot use the index says why.
        """
        done = 0
        indexes = self._parts.indexes
        # a request that does not wait finds what was added before only where the index has followed
        least = _FOLLOW if self._parts.wait_for_index else 1

        def follow(progress: "Progress") -> None:
            nonlocal done
            if progress.chunks - done >= (1 if done else least):
                with suppress(HeadgateError):
                    for collection in sorted(progress.touched):
                        indexes.follow(self.tenant, collection)
                progress.touched.clear()
                done = progress.chunks
            if on_progress:
                on_progress(progress)

        return follow

    def _stored(self, trace: Trace) -> Trace:
        """The trace as it is stored: without secrets, unless the settings keep them."""
        settings = self._all.settings
        return redact_trace(trace) if settings.redact and settings.trace.text else trace

    def _queue_trace(self, trace: Trace) -> str:
        """Let a trace be written soon; what is wrong with that, "" when nothing is."""
        parts = self._all
        keeping = parts.settings.trace
        if not keeping.keep or getattr(parts.store, "read_only", False):
            return ""

        def save() -> None:
            parts.store.save_trace(
                self._stored(with_savings(trace)), keep=keeping.keep, text=keeping.text
            )

        return parts.writes.put(f"trace {trace.id}", save)

    def _keep(self, context: Context) -> Context:
        """Queue the trace and write the log line; where that fails the answer stands and says so."""
        parts, lost = self._all, []
        parts.memory.injected.add(context.trace)
        if problem := self._queue_trace(context.trace):
            lost.append(Step(Stage.TRACE, 0.0, degraded=problem))
        try:
            if parts.log is not None:
                parts.log.write(context)
        except OSError as error:
            lost.append(Step(Stage.LOG, 0.0, degraded=f"not written: {error}"))
        if not lost:
            return context
        trace = replace(context.trace, steps=(*context.trace.steps, *lost))
        return replace(context, trace=trace)
