"""Traces: what happened to past requests, why, and what would have happened otherwise."""

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from millgate.calls.loop import LoopCalls, async_version
from millgate.errors import ConfigError, InputError, NotFound, StoreError
from millgate.gateway.wiring import Components, Lifecycle, engine_with
from millgate.pipeline.engine import Engine
from millgate.text.meant import did_you_mean
from millgate.types import Context, Request, Trace, TraceSummary
from millgate.types.check import check_type

if TYPE_CHECKING:
    from millgate.explain.replay import Replay
    from millgate.explain.why import Why

LAST_TRACE = "last"
_RECENT = 100  # traces that the beginning of an id may stand for
_SHORTEST, _WHOLE = 8, 32  # digits of such a beginning, and of an id
_NAMED = 5  # chunks that may have been meant
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ChangedRun:
    """Builds contexts under changed settings, leaving no trace behind, and counts the CPU that this takes."""

    def __init__(self, components: Components) -> None:
        self.cpu_s = 0.0
        self._began = time.monotonic()
        self._components = components

    @property
    def elapsed_s(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._began

    async def __call__(self, request: Request, changes: Mapping[str, Any]) -> Context:
        """The context that a request has under some changes."""
        engine, calls = engine_with(self._components, changes), LoopCalls.of_running_loop()
        try:
            return await self._components.threads.run(self._build, engine, request, calls)
        except asyncio.CancelledError:
            calls.cancel()
            raise

    def _build(self, engine: Engine, request: Request, calls: LoopCalls) -> Context:
        began = time.thread_time()
        try:
            return engine.build(request, calls)
        finally:
            self.cpu_s += time.thread_time() - began


class Traces(Lifecycle):
    """The stored traces of a tenant."""

    def trace(self, id: str | Trace | Context) -> Trace:
        """A stored trace of this tenant, by its id, as "last", or, if it is a recent one, by the eight digits that
        are shown of its id. A trace or context at hand stands for itself.

        For example: `[(step.stage, step.kept, step.dropped) for step in gate.trace(id).steps]`.
        """
        store = self._components.store
        id = id.trace if isinstance(id, Context) else id
        if isinstance(id, Trace) and id.request.tenant == self.tenant:
            return id
        id = id.id if isinstance(id, Trace) else id
        check_type("the id of a trace", id, str)
        found = store.trace(self.tenant, id)
        if found is None:  # it may still be waiting to be written, or not be spelled out
            found = store.trace(self.tenant, self._spell_out(id))
        if found is None:
            raise NotFound(
                f"there is no trace {id!r}",
                hint="gate.traces() and `millgate why --list` list them",
            )
        return found

    def traces(self, *, limit: int = 100) -> list[TraceSummary]:
        """The stored traces of this tenant in one row each, newest first; `trace` reads one whole.

        For example: `for row in gate.traces(limit=10): print(row.id, row.query)`.
        """
        check_type("limit", limit, int)
        self._components.settle_traces()
        return self._components.store.traces(self.tenant, limit=limit)

    def _spell_out(self, id: str) -> str:
        """The id of the newest trace for "last", and of a recent one for its beginning; else what was given."""
        recent = [row.id for row in self.traces(limit=_RECENT)]
        if id == LAST_TRACE:
            return next(iter(recent), id)
        is_beginning = _SHORTEST <= len(id) < _WHOLE
        return next((each for each in recent if is_beginning and each.startswith(id)), id)

    def save_trace(self, trace: Trace) -> None:
        """Store a trace that was made elsewhere, such as a model call of the proxy, by the settings of all traces."""
        self.save_trace_later(trace.id, lambda: trace)

    def save_trace_later(self, id: str, make: Callable[[], Trace]) -> None:
        """The same for one that takes time to make: the thread that writes it does."""
        self._opened.check_open(closed=self._closed)
        if problem := self._queue_trace(id, make):
            raise StoreError(problem)

    def why(self, trace: str | Trace | Context, chunk: str = "") -> "Why":
        """Where a chunk fell in a stored request, and the smallest change with which it would have entered.

        For example:

            why = gate.why("last", "policy")
            print(why.stage, why.reason, why.changes)
        """
        return self._components.loop.run(self.awhy(trace, chunk))

    async def awhy(self, trace: str | Trace | Context, chunk: str = "") -> "Why":
        """As `why`, for code in an event loop."""
        from millgate.explain.why import why  # noqa: PLC0415  (few ask, and opening stays light)

        found = await self.atrace(trace)
        if not chunk:
            ids = ", ".join(candidate.chunk.id for candidate in found.candidates[:_NAMED])
            raise InputError(
                "why needs the id of a chunk", hint=f"one of: {ids or 'none was found'}"
            )
        if found.find(chunk) is None:
            await asyncio.to_thread(self._require_passage, found, chunk)
        run = ChangedRun(self._components)
        return await why(found, chunk, run, self._components.settings)

    def _require_passage(self, trace: Trace, id: str) -> None:
        """An error if what a request asked holds no chunk or fact of that id."""
        store, names = self._components.store, trace.request.collections
        if store.fact(self.tenant, id) or any(
            store.chunks(self.tenant, name, [id]) for name in names
        ):
            return
        ids = [chunk.id for name in names for chunk in islice(store.scan(self.tenant, name, document=id), _NAMED)]  # fmt: skip
        hint = f"{id!r} is a document; its chunks are {', '.join(ids)}" if ids else ""
        near = did_you_mean(id, [candidate.chunk.id for candidate in trace.candidates])
        raise NotFound(
            f"there is no chunk {id!r} in what was asked",
            hint=hint
            or near
            or f"millgate why {trace.id[:8]} and context.explain() list candidates",
        )

    def replay(
        self,
        trace: str | Trace | Context,
        changes: Mapping[str, Any] = _NOTHING,
        **asked: Any,  # noqa: ANN401  (fields of a request, each checked)
    ) -> "Replay":
        """A stored request asked otherwise (budget, k), or under other settings ("gate.min_ratio").

        For example:

            gate.replay(context, budget=2000).entered
            gate.replay(context, {"gate.min_ratio": 0.2}).left
        """
        return self._components.loop.run(self.areplay(trace, changes, **asked))

    async def areplay(
        self,
        trace: str | Trace | Context,
        changes: Mapping[str, Any] = _NOTHING,
        **asked: Any,  # noqa: ANN401  (as above)
    ) -> "Replay":
        """As `replay`, for code in an event loop."""
        from millgate.explain.replay import replay  # noqa: PLC0415  (few ask, and opening stays light)

        check_type("changes", changes, Mapping)
        found = await self.atrace(trace)
        try:
            return await replay(found, {**changes, **asked}, ChangedRun(self._components))
        except ConfigError as error:  # the caller's mistake, and not one of the settings file
            raise InputError(error.message, hint=error.hint) from error

    atrace = async_version(trace)
    atraces = async_version(traces)

    def _queue_trace(self, id: str, make: Callable[[], Trace]) -> str:
        """Queue a trace to be written soon; what is wrong with the queue, or empty."""
        components = self._opened
        if not components.settings.trace.keep:
            return ""
        if components.read_only:
            return "not stored: the store can only be read"
        return components.writes.put_item(f"trace {id}", components.save_traces, make)
