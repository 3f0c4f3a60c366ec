"""Internal: opening a store, acting for a tenant, and closing.

Settings and the caller's own objects become Store, Indexes, Engine. Only this file names concrete classes.
"""

import atexit
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from inspect import getattr_static, isfunction
from math import ceil, isfinite
from pathlib import Path
from threading import Event
from typing import Any, Self, cast
from weakref import WeakSet

from millgate.calls.bugs import EXPECTED, LOGGER, describe
from millgate.calls.forks import check_process
from millgate.calls.loop import BackgroundLoop, async_version
from millgate.calls.parts import or_ours
from millgate.calls.pool import COMPUTING, WAITING, RequestThreads
from millgate.calls.worker import DeferredWrites
from millgate.errors import ConfigError, InputError, LimitError, StoreError
from millgate.explain.as_data import redact_session, redact_trace
from millgate.explain.log import NAME, PerformanceLog, with_savings
from millgate.index.candidates import CandidateIndex
from millgate.index.indexes import Indexes
from millgate.knowledge.memory import Memory
from millgate.knowledge.providers import ProviderPool, load_plugins
from millgate.models.embed import OwnEmbedder, embedder
from millgate.models.grade import llm_grader
from millgate.models.search import searcher
from millgate.pipeline.engine import Engine
from millgate.pipeline.resources import CollectionTokens, Policies, Resources
from millgate.pipeline.trace_upkeep import TraceUpkeep
from millgate.protocols import (
    Clock,
    Embedder,
    Grader,
    MemoryProvider,
    ReadOnlyStore,
    Retriever,
    Store,
    TokenCounter,
    TraceBatchStore,
    WebSearch,
)
from millgate.settings import Settings, load, with_changes
from millgate.stores.open import open_store
from millgate.stores.url import hide_password, is_postgres
from millgate.stores.validate import check_name
from millgate.text.cache import Cache
from millgate.text.meant import CLOSE, did_you_mean
from millgate.text.tokens import counter
from millgate.types import Trace
from millgate.types.check import explain_all_keywords

# Of token counts, 10 000 of them: chunks come back request after request, which takes 4 to 6 % more CPU without them,
# and more with a counter that is slower than the estimate.
_COUNT_BYTES = 2_500_000


@dataclass(frozen=True, slots=True)
class UserComponents:
    """The components that the caller brings; what is None is made as the settings say."""

    store: Store | None = None
    embedder: Embedder | None = None
    grader: Grader | None = None
    search: WebSearch | None = None
    providers: Sequence[MemoryProvider] | None = None
    counter: TokenCounter | None = None
    clock: Clock | None = None
    retriever: Retriever | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Components:
    """The components of one open Millgate. At the end of the process those that are open are closed."""

    settings: Settings
    store: Store
    indexes: Indexes
    wait_for_index: bool
    memory: Memory
    engine: Engine
    count: TokenCounter
    clock: Clock
    writes: DeferredWrites
    upkeep: TraceUpkeep
    threads: RequestThreads
    own_embedder: OwnEmbedder | None = None
    log: PerformanceLog | None = None
    folder: Path | None = None
    """Where the store, or what is derived from it, lies on disk."""
    read_only: bool = False
    """Whether the store takes no writes."""
    loop: BackgroundLoop = field(default_factory=BackgroundLoop)
    """Where blocking calls of all gates over this store run."""
    closed: Event = field(default_factory=Event)
    process: int = field(default_factory=os.getpid)

    def check_open(self, *, closed: bool = False) -> None:
        """StoreError if it was opened by another process, or if it or the gate that asks is closed."""
        check_process(self.process)
        if closed or self.closed.is_set():
            raise StoreError("this Millgate is closed", hint="open it again: Millgate.open(...)")

    def save_traces(self, makers: Sequence[Callable[[], Trace]]) -> None:
        """Store traces by the settings, several in one step if the store can."""
        keeping, traces = self.settings.trace, [with_savings(make()) for make in makers]
        if self.settings.redact:
            traces = [self._redact(trace) for trace in traces]
        if len(traces) > 1 and isinstance(self.store, TraceBatchStore):
            self.store.save_traces(traces, keep=keeping.keep, text=keeping.text)
        else:
            for trace in traces:
                self.store.save_trace(trace, keep=keeping.keep, text=keeping.text)
        self.upkeep.note(trace.request.tenant for trace in traces)

    def settle_traces(self) -> None:
        """Wait a little for traces that are still to be written, and for old ones that go when a store is opened."""
        self.upkeep.wait_for_first()
        self.writes.flush()

    def _redact(self, trace: Trace) -> Trace:
        """The trace without secrets; of one whose texts are not kept, only the session's name is."""
        if self.settings.trace.text:
            return redact_trace(trace)
        request = redact_session(trace.request)
        return trace if request is trace.request else replace(trace, request=request)

    def close(self) -> None:
        """Save and close what holds files; a second call does nothing, and a forked child leaves all to its parent."""
        if self.closed.is_set() or self.process != os.getpid():
            return
        self.closed.set()
        self.loop.close()
        if self.own_embedder is not None:
            self.own_embedder.close()
        self.threads.close()
        self.writes.close()
        self.upkeep.close()
        self.memory.close()
        self.indexes.close()
        self.store.close()


def build(
    settings: Settings,
    own: UserComponents | None = None,
    *,
    folder: Path | None = None,
    wait_for_index: bool = True,
) -> Components:
    """The components that the caller brings, and the others as the settings say.

    With a store of the caller's own, `folder` is where the indexes over it and the log are kept; without one
    the indexes live in memory. Without `wait_for_index` requests are answered from the last complete index.
    """
    settings = _pass_redact_on(settings)
    own = own or UserComponents()
    # for a clock and a counter ours answers when they fail
    own = replace(
        own,
        clock=own.clock and _clock(own.clock),
        counter=own.counter and _counter(own.counter, counter(settings.tokens)),
    )
    store = own.store
    if store is None:
        quota = settings.limits.tenant_bytes
        store, folder = open_store(settings.store, clock=own.clock or time.time, tenant_bytes=quota)
    elif folder:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    timeout_s = settings.embed.timeout_s
    own_embedder = OwnEmbedder(own.embedder, timeout_s) if own.embedder else None
    vectors = cast(Embedder, own_embedder) if own_embedder else embedder(settings.embed)
    clock = own.clock or time.time
    candidates = None
    if own.retriever is not None:
        candidates = CandidateIndex(own.retriever, store, vectors, settings.grade.deadline_s)
    indexes = Indexes(
        store, folder and folder / "index", vectors, settings.index, candidates=candidates
    )
    providers = load_plugins() if own.providers is None else own.providers
    pool = ProviderPool(providers, settings.recall)
    memory = Memory(store, pool, settings.facts, clock=clock)
    writes, upkeep = (
        DeferredWrites(),
        TraceUpkeep(store, settings.trace, tenant=settings.tenant, clock=clock),
    )
    count = _remember_counts(own.counter or counter(settings.tokens))
    # whether a stage may wait for a network; a part of the caller's own may
    own_parts = (own.store, own.embedder, own.counter, own.retriever)
    waits = bool(settings.embed.url) or is_postgres(settings.store)
    waits = waits or any(part is not None for part in own_parts)
    threads = RequestThreads(WAITING if waits else COMPUTING)
    if not wait_for_index:  # as in a service
        threads.start()
    policy = _policies(settings)
    resources = Resources(
        store,
        indexes.snapshot if wait_for_index else indexes.latest,
        count,
        CollectionTokens(store, count, policy.compose.notice),
        memory,
        vectors=indexes.vector,
        measures=own.retriever is None,
        grader=own.grader or llm_grader(settings.grader),
        search=own.search or searcher(settings.search),
        # those of ours have limits for each call to a model or server
        grader_s=settings.grade.deadline_s if own.grader else None,
        search_s=settings.grade.deadline_s if own.search else None,
        clock=clock,
        defer=writes.put,
        computing=threads.computing,
    )
    engine = Engine(resources, policy)
    # one that does not say takes writes
    is_read_only = isinstance(store, ReadOnlyStore) and store.read_only
    if own.store is None and folder and not is_read_only:
        upkeep.start()  # traces that are too old go even if no request comes
    pool.start(settings.tenant)
    components = Components(
        settings, store, indexes, wait_for_index, memory, engine, count, clock, writes, upkeep,
        threads, own_embedder, log=_log(settings, folder, read_only=is_read_only), folder=folder,
        read_only=is_read_only,
    )  # fmt: skip
    _open.add(components)
    return components


def _close_open() -> None:
    """Close what a script left open, so that its last trace and its index are not lost; each step has a time limit."""
    for components in list(_open):
        try:
            components.close()
        except EXPECTED as error:
            LOGGER.warning("a store was not closed well: %s", describe(error))


_open: WeakSet[Components] = WeakSet()
atexit.register(_close_open)


def engine_with(components: Components, changes: Mapping[str, Any]) -> Engine:
    """An engine over the same store under other settings of the pipeline, by dotted name.

    It asks neither a person nor the world outside: `why` runs a request many times.
    """
    from millgate.explain.why import MAX_WIDENING  # noqa: PLC0415  (a plain request asks for no replay)

    allowed = {f.name for f in fields(Policies)} - {"limits"} | {"facts"}
    for name in changes:
        if name.partition(".")[0] not in allowed:
            raise InputError(
                f"{name} cannot be changed in a replay",
                hint=f"the groups {', '.join(sorted(allowed))} can",
            )
    settings = with_changes(components.settings, {**changes, "review.enabled": False})
    for name in changes:  # after conversion: a number may come as text
        value: object = settings
        for part in name.split("."):
            value = getattr(value, part, None)
        if isinstance(value, int | float) and value > MAX_WIDENING:
            raise LimitError(f"{name} is {value:,}; a replay takes at most {MAX_WIDENING:,}")
    memory = components.memory
    if settings.facts != components.settings.facts:
        memory = Memory(components.store, memory.providers, settings.facts, clock=components.clock)
    policy, resources = _policies(settings), components.engine.resources
    sizes = CollectionTokens(resources.store, resources.count, policy.compose.notice)
    return Engine(replace(resources, memory=memory, search=None, sizes=sizes), policy)


def _pass_redact_on(settings: Settings) -> Settings:
    """The settings with `redact` off for facts and reviews too, if it is off for all."""
    if settings.redact:
        return settings
    facts = settings.facts.model_copy(update={"redact": False})
    review = settings.review.model_copy(update={"redact": False})
    return settings.model_copy(update={"facts": facts, "review": review})


def _clock(own: Clock) -> Clock:
    """The caller's clock; what is no time is a failure of it."""

    def now() -> float:
        seconds = float(own())
        if not isfinite(seconds):
            raise ValueError(f"it said {seconds}")
        return seconds

    return or_ours("clock", now, time.time)


def _counter(own: TokenCounter, ours: TokenCounter) -> TokenCounter:
    """The caller's counter; what is no number of tokens is a failure of it."""

    def count(text: str, /) -> int:
        tokens = ceil(own(text))
        if tokens < 0:
            raise ValueError(f"it counted {tokens} tokens")
        return tokens

    return or_ours("counter", count, ours)


def _remember_counts(count: TokenCounter) -> TokenCounter:
    counts = Cache[int, int](_COUNT_BYTES)

    def count_tokens(text: str, /) -> int:
        key = hash(text)
        known = counts.get(key)
        if known is None:
            known = count(text)
            counts.put(key, known)
        return known

    return count_tokens


def _policies(settings: Settings) -> Policies:
    return Policies(**{f.name: getattr(settings, f.name) for f in fields(Policies)})


def _log(settings: Settings, folder: Path | None, *, read_only: bool) -> PerformanceLog | None:
    """The log with a line for each request, if it is switched on and has a place that can be written."""
    policy = settings.log
    beside = None if read_only else folder
    path = Path(policy.path) if policy.path else beside and beside / NAME
    if not policy.enabled or not path:
        return None
    return PerformanceLog(path, policy, redacts=settings.redact)


class Lifecycle:
    """An open store, and for which tenant it is used."""

    def __init_subclass__(cls) -> None:
        """Let every public method name the keyword that was meant."""
        explain_all_keywords(cls)

    def __init__(
        self, opened: Components | None = None, tenant: str = "", *, owns: bool = True
    ) -> None:
        if not isinstance(opened, Components):
            store = "" if opened is None else repr(opened)
            raise ConfigError("Millgate(...) opens nothing", hint=f"write Millgate.open({store})")
        check_name("tenant", tenant)
        self.tenant = tenant
        self._opened = opened
        self._owns = owns
        self._closed = False

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        tenant: str | None = None,
        settings: Settings | None = None,
        store: Store | str | Path | None = None,
        embedder: Embedder | str | None = None,
        grader: Grader | None = None,
        search: WebSearch | None = None,
        providers: Sequence[MemoryProvider] | None = None,
        counter: TokenCounter | None = None,
        clock: Clock | None = None,
        retriever: Retriever | None = None,
        wait_for_index: bool = True,
        **arguments: Any,  # noqa: ANN401  (settings by name, checked by their schema)
    ) -> Self:
        """Open a folder, ":memory:", "postgresql://...", or what the settings name; it is made if it is not there.

            with Millgate.open("./kb") as gate:
                gate.add_files("docs/")

        Settings come from `settings`, or from environment and file with `arguments` on top:
        `Millgate.open("./kb", grade={"floor": 0})`.

        `store`, `embedder`, `grader`, `search`, `providers`, `counter`, `clock` and `retriever` take objects of your
        own that fit the protocols in `millgate.protocols`; they take the place of what the settings name. With a store
        of your own, `path` is the folder of the indexes over it; without one they live in memory. An embedder may be
        named: `embedder="static"` is `embed={"model": "static"}`.

        A request waits until the index has caught up with the store, so it sees all that was written before. With
        `wait_for_index` off, as the service has it, it never waits: it is answered from the last complete index, which
        says in `degraded` that it is behind, or raises NotReady if there is none yet; a thread brings it up to date.
        """
        _check_names(arguments)
        given = dict(arguments)
        if isinstance(store, str | Path):
            _check_path(store)
            if path is not None:
                raise ConfigError(
                    f"two stores are named: {path} and {store}", hint="write Millgate.open(path)"
                )
            path, store = store, None
        if isinstance(embedder, str):
            given["embed"] = {**given.get("embed", {}), "model": embedder}
            embedder = None
        if path is not None:
            _check_path(path)
            given["store"] = str(path)
        if tenant is not None:
            given["tenant"] = tenant
        settings = _join(settings, given)
        own = UserComponents(store, embedder, grader, search, providers, counter, clock, retriever)
        _check_parts(own)
        # beside a store of the caller's own; else the store's own place
        folder = None if store is None or path in (None, ":memory:") else Path(str(path))
        components = build(settings, own, folder=folder, wait_for_index=wait_for_index)
        return cls(components, settings.tenant)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self._components.settings

    @property
    def store(self) -> Store:
        """The store itself, for what has no method here."""
        return self._components.store

    @property
    def folder(self) -> Path | None:
        """Where the store, or what is derived from it, lies on disk; None if all is in memory."""
        return self._components.folder

    def for_tenant(self, tenant: str) -> Self:
        """The same gate for another tenant. It opens nothing of its own and need not be closed; closing it leaves the
        store open.

        For example: `gate.for_tenant("acme").context("how do refunds work?")`.
        """
        return type(self)(self._components, tenant, owns=False)

    def close(self) -> None:
        """Close the store, for all tenants, if this gate opened it; what is called afterwards is an error."""
        self._closed = True
        if self._owns:
            self._opened.close()

    aclose = async_version(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        opened = self._opened
        store = hide_password(opened.settings.store)
        state = ", closed" if self._closed or opened.closed.is_set() else ""
        return f"<Millgate {store!r}, tenant {self.tenant!r}{state}>"

    @property
    def _components(self) -> Components:
        """The components, while they are open: every public method comes through here."""
        self._opened.check_open(closed=self._closed)
        return self._opened


def _check_path(path: object) -> None:
    """Refuse what names no folder: an empty text would be the current one, and a number one of that name."""
    if not isinstance(path, str | Path):
        raise InputError(
            f"the path is {type(path).__name__}, not a text or a Path",
            hint="name a folder, ':memory:' or postgresql://...; a store of your own is store=",
        )
    if not str(path):
        raise InputError("the path is empty", hint="name a folder; the current one is '.'")


def _check_names(arguments: Mapping[str, Any]) -> None:
    """Refuse a misspelt argument of `open`; the settings refuse what is close to none."""
    own = [*UserComponents.__dataclass_fields__, "path", "tenant", "settings", "wait_for_index"]
    for name in {name.partition(".")[0] for name in arguments} - Settings.model_fields.keys():
        if hint := did_you_mean(name, own, alike=CLOSE):
            raise ConfigError(f"open takes no argument {name}", hint=hint)


def _join(settings: Settings | None, given: Mapping[str, Any]) -> Settings:
    """The settings in force: those that were handed over, else those of environment and file, with arguments on top."""
    if settings is None:
        return load(arguments=given)
    if not isinstance(settings, Settings):
        raise ConfigError(
            f"settings is {type(settings).__name__}, not Settings",
            hint='write them as arguments: Millgate.open(path, retrieve={"k1": 1.5})',
        )
    return with_changes(settings, given) if given else settings


_MEMBERS = {
    "store": tuple(name for name in dir(Store) if not name.startswith("_")),
    "embedder": ("name", "dimension", "embed"),
    "grader": ("grade",),
    "search": ("search",),
    "providers": ("prefetch",),
    "counter": ("__call__",),
    "clock": ("__call__",),
    "retriever": ("retrieve",),
}
"""What is asked of each part of the user's own, whatever else it has."""


def _check_parts(own: UserComponents) -> None:
    """Refuse what cannot be a part before the first request finds out."""
    for name in _MEMBERS:
        part = getattr(own, name)
        if isinstance(part, str | Path):
            raise ConfigError(
                f"{name} is a text; it takes an object that fits millgate.protocols",
                hint="what Millgate brings along is chosen by settings: see docs/settings.md",
            )
        if name != "providers" and part is not None:
            _check_part(name, part)
        elif part is not None and not isinstance(part, Iterable):
            raise ConfigError("providers is no list", hint="write providers=[...]")
        else:
            for provider in part or ():
                _check_part(name, provider)


def _check_part(name: str, part: object) -> None:
    for member in _MEMBERS[name]:
        if member == "__call__":
            lack = "" if callable(part) else "cannot be called"
        else:
            # a property is there without being computed, which may load a model
            lack = (
                "" if hasattr(type(part), member) or hasattr(part, member) else f"has no {member}"
            )
        if lack:
            raise ConfigError(
                f"{name}: {type(part).__name__} {lack}",
                hint="millgate.protocols shows a small one of each kind",
            )
    # a class has all its methods too, but they are called on an object
    if isinstance(part, type) and isfunction(getattr_static(part, _MEMBERS[name][-1], None)):
        raise ConfigError(
            f"{name} is the class {part.__name__}", hint=f"give an object: {part.__name__}(...)"
        )
