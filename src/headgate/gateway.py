"""Headgate, the face: open a store, add to it, ask it for context, and ask it why.

Every call that waits has two forms: `acontext` for code that runs in an event loop, `context` for code that does
not. The second runs the first on a loop of its own in a background thread, so it works everywhere, notebooks included.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

from headgate.errors import ConfigError, HeadgateError, InputError, NotFound, StoreError
from headgate.explain.replay import Replay, replay
from headgate.explain.why import Why, why
from headgate.ingest.load import OnProgress, Progress, Summary, add_files, add_rows, add_stream
from headgate.memory.facts import AddedFact, FactHit, Facts, Feedback
from headgate.memory.sessions import AddedTurns, add_turns
from headgate.settings import Settings, load
from headgate.types import Context, ContextBudget, Request, Step, Trace, Window, WindowLike
from headgate.wiring import Parts, build, engine_with

T = TypeVar("T")
_FOLLOW = 1_000  # chunks added from which the index follows at once


class Asked(TypedDict, total=False):
    """What can be said beside query and window.

    `budget` is tokens; `k` is the most chunks to give, None whatever fits; `context_budget` tells how full the
    model's window is. Defaults are those of `Request`.
    """

    budget: int
    collection: str
    k: int | None
    context_budget: ContextBudget | None
    task: str | None
    session: str
    cwd: str
    penalize: bool
    graph: bool
    best_effort: bool
    detail: Literal["whole", "preview"]
    order: Literal["rank", "edges"]
    debug: bool


class Headgate:
    """The gate over one store. Safe to share between threads; close it, or use it in a `with` block."""

    def __init__(self, parts: Parts, tenant: str) -> None:
        self.parts = parts
        self._loop = _Loop()
        self.tenant = tenant

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        tenant: str | None = None,
        settings: Settings | None = None,
        **arguments: Any,  # noqa: ANN401  (settings by name, checked by their schema)
    ) -> Self:
        """Open a folder, ":memory:", or what the settings name; it is made when it is not there.

        Settings come from `settings`, or from environment and file with `arguments` on top:
        `Headgate.open("./kb", gate={"order": "entropy"})`.
        """
        given = dict(arguments)
        if path is not None:
            given["store"] = str(path)
        if tenant is not None:
            given["tenant"] = tenant
        if settings is None:
            settings = load(arguments=given)
        elif given:
            settings = Settings.model_validate({**settings.model_dump(), **given})
        return cls(build(settings), settings.tenant)

    def add(
        self,
        rows: Iterable[Mapping[str, Any]],
        *,
        collection: str = "main",
        on_progress: OnProgress | None = None,
    ) -> Summary:
        """Add rows {id, text, title, collection, metadata}; a row with a known id replaces what had it.

        A row that fits one chunk keeps its id. `on_progress` is told of the progress after each batch.
        """
        return add_rows(
            self.parts.store, self.tenant, rows,
            collection=collection, policy=self.parts.settings.ingest, on_progress=self._index(on_progress),
        )  # fmt: skip

    def add_files(
        self,
        *paths: str | Path,
        collection: str = "main",
        prune: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Summary:
        """Add files and folders; what has not changed since is left alone, what cannot be read is skipped and said.

        With `prune`, documents whose file is gone from a folder that was named go too.
        """
        return add_files(
            self.parts.store, self.tenant, paths,
            collection=collection, policy=self.parts.settings.ingest, prune=prune,
            on_progress=self._index(on_progress),
        )  # fmt: skip

    def add_stream(
        self,
        data: bytes,
        *,
        id: str = "stdin",
        collection: str = "main",
        on_progress: OnProgress | None = None,
    ) -> Summary:
        """Add what came over a pipe: JSON lines as rows, anything else as one text under that id."""
        return add_stream(
            self.parts.store, self.tenant, data,
            id=id, collection=collection, policy=self.parts.settings.ingest,
            on_progress=self._index(on_progress),
        )  # fmt: skip

    def _index(self, on_progress: OnProgress | None) -> OnProgress:
        """Let the indexes follow a long add batch by batch; what is left, and small adds, the next query takes in.

        What was added is safe whether or not it can be indexed now; the query that cannot use the index says why.
        """
        done = 0

        def attended(progress: Progress) -> None:
            nonlocal done
            if progress.chunks - done >= (1 if done else _FOLLOW):
                with suppress(HeadgateError):
                    for collection in sorted(progress.touched):
                        self.parts.indexes.snapshot(self.tenant, collection)
                progress.touched.clear()
                done = progress.chunks
            if on_progress:
                on_progress(progress)

        return attended

    def remove(
        self,
        *,
        collection: str = "main",
        documents: Sequence[str] | None = None,
        chunks: Sequence[str] | None = None,
    ) -> int:
        """Remove documents, chunks, or the whole collection; how many chunks went."""
        store = self.parts.store
        return store.remove(self.tenant, collection, documents=documents, chunks=chunks)

    @property
    def facts(self) -> Facts:
        """The facts of this tenant: add, update, forget, search, feedback."""
        return self.parts.memory.facts(self.tenant)

    def remember(
        self,
        content: str,
        *,
        category: str = "general",
        tags: Sequence[str] = (),
        trust: float | None = None,
    ) -> AddedFact:
        """Remember a fact; one that is known already comes back as it is, with `new` False."""
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

    def add_turns(
        self,
        session: str,
        messages: Iterable[Mapping[str, Any] | str],
        *,
        collection: str = "turns",
    ) -> AddedTurns:
        """Keep the turns of a conversation, so that `context(..., collection="turns")` recalls what was said.

        The whole history may be sent each time; only what is new is added.
        """
        return add_turns(
            self.parts.store, self.tenant, session, messages, collection=collection, now=time.time()
        )

    async def acontext(
        self, query: str, *, window: WindowLike = None, **asked: Unpack[Asked]
    ) -> Context:
        """The best context for a query that fits the budget and is new to the window.

        `window` is what the model already sees: texts, chat messages, or a fingerprint payload.
        """
        seen = Window.of(window)
        return await self.acontext_for(Request(query, tenant=self.tenant, window=seen, **asked))

    def context(self, query: str, *, window: WindowLike = None, **asked: Unpack[Asked]) -> Context:
        """As `acontext`, for code outside an event loop."""
        return self._loop.run(self.acontext(query, window=window, **asked))

    async def acontext_for(self, request: Request) -> Context:
        """The context for a ready-made request; its trace is stored."""
        context = await self.parts.engine.build(request)
        return await asyncio.to_thread(self._keep, context)

    def trace(self, id: str | Trace) -> Trace:
        """A stored trace of this tenant, by its id; a trace at hand stands for itself."""
        if isinstance(id, Trace) and id.request.tenant == self.tenant:
            return id
        id = id.id if isinstance(id, Trace) else id
        found = self.parts.store.trace(self.tenant, id)
        if found is None:
            raise NotFound(f"there is no trace {id!r}", hint="see: headgate traces")
        return found

    async def awhy(self, trace: str | Trace, chunk: str) -> Why:
        """Where a chunk fell in a stored request, and the smallest change with which it would have entered."""
        told = await asyncio.to_thread(self.trace, trace)
        return await why(told, chunk, self._run_changed, self.parts.settings)

    def why(self, trace: str | Trace, chunk: str) -> Why:
        """As `awhy`, for code outside an event loop."""
        return self._loop.run(self.awhy(trace, chunk))

    async def areplay(self, trace: str | Trace, changes: Mapping[str, Any]) -> Replay:
        """A stored request under other settings ("gate.min_ratio") or asked otherwise ("budget", "k")."""
        told = await asyncio.to_thread(self.trace, trace)
        try:
            return await replay(told, changes, self._run_changed)
        except ConfigError as error:
            raise InputError(error.message, hint=error.hint) from error

    def replay(self, trace: str | Trace, changes: Mapping[str, Any]) -> Replay:
        """As `areplay`, for code outside an event loop."""
        return self._loop.run(self.areplay(trace, changes))

    async def _run_changed(self, request: Request, changes: Mapping[str, Any]) -> Context:
        return await engine_with(self.parts, changes).build(request)

    def for_tenant(self, tenant: str) -> "Headgate":
        """The same gate for another tenant; closing it leaves the shared store open."""
        return _Guest(self.parts, tenant)

    def _keep(self, context: Context) -> Context:
        """Store the trace and write the log line; where that fails the answer stands and says so."""
        keeping, log = self.parts.settings.trace, self.parts.log
        lost = []
        try:
            if keeping.keep:
                self.parts.store.save_trace(
                    context.trace,
                    keep=keeping.keep,
                    age_s=keeping.age_s,
                    text=keeping.text,
                )
        except StoreError as error:
            lost.append(Step("trace", 0.0, degraded=f"not stored: {error}"))
        try:
            if log is not None:
                log.write(context)
        except OSError as error:
            lost.append(Step("log", 0.0, degraded=f"not written: {error}"))
        if not lost:
            return context
        told = replace(context.trace, steps=(*context.trace.steps, *lost))
        return replace(context, trace=told)

    def close(self) -> None:
        """Close the store and stop the background loop."""
        self._loop.close()
        self.parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Guest(Headgate):
    """A gate over a parts that somebody else closes."""

    def close(self) -> None:
        """Stop the background loop, if there was need of one."""
        self._loop.close()


class _Loop:
    """An event loop in a daemon thread, started at first need."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work on the loop and wait for it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="headgate", daemon=True
                )
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        with self._lock:
            if self._loop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
            self._loop = self._thread = None
