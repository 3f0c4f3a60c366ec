"""Wiring: Settings -> Store, Indexes, Engine. The only file that names concrete classes."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from headgate.errors import InputError, LimitError
from headgate.explain.knobs import WIDEST
from headgate.explain.log import NAME, PerformanceLog
from headgate.index.indexes import Indexes
from headgate.memory.memory import Memory
from headgate.memory.provider_pool import ProviderPool, load_plugins
from headgate.models.embed import embedder
from headgate.models.grade import llm_grader
from headgate.models.search import searcher
from headgate.pipeline.engine import Engine, Policies
from headgate.protocols import Grader, Store, WebSearch
from headgate.settings import Settings, changed
from headgate.stores.memory.store import MemoryStore
from headgate.stores.sqlite.store import SqliteStore
from headgate.text.tokens import counter

MEMORY = ":memory:"
COUNTED = 16_384  # texts whose token counts are remembered: chunks come back request after request


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one open Headgate."""

    settings: Settings
    store: Store
    indexes: Indexes
    memory: Memory
    engine: Engine
    log: PerformanceLog | None = None

    def close(self) -> None:
        """Save and close what holds files."""
        self.memory.close()
        self.indexes.close()
        self.store.close()


def build(settings: Settings, *, store: Store | None = None) -> Parts:
    """Open the store that the settings name (or use the one given), and everything over it."""
    grader, search, vectors = (
        llm_grader(settings.judge),
        searcher(settings.search),
        embedder(settings.embed),
    )
    folder = None
    if store is None:
        store, folder = _store(settings)
    indexes = Indexes(store, folder, vectors)
    memory = Memory(store, ProviderPool(load_plugins(), settings.recall), settings.facts)
    engine = _engine(settings, store, indexes, memory, grader=grader, search=search)
    return Parts(settings, store, indexes, memory, engine, _log(settings))


def engine_with(parts: Parts, changes: Mapping[str, Any]) -> Engine:
    """An engine over the same store under other settings of the pipeline, by dotted name.

    It asks neither a person nor the world outside: `why` runs a request many times.
    """
    allowed = {f.name for f in fields(Policies)} - {"limits"} | {"facts"}
    for name, value in changes.items():
        if name.partition(".")[0] not in allowed:
            raise InputError(
                f"{name} cannot be changed in a replay",
                hint=f"the groups {', '.join(sorted(allowed))} can",
            )
        if isinstance(value, int) and value > WIDEST:
            raise LimitError(f"{name} is {value:,}; a replay takes at most {WIDEST:,}")
    settings = changed(parts.settings, {**changes, "review.enabled": False})
    memory = parts.memory
    if settings.facts != parts.settings.facts:
        memory = Memory(parts.store, memory.providers, settings.facts)
    grader = parts.engine.corrector.grader  # with the grades it remembers
    return _engine(settings, parts.store, parts.indexes, memory, grader=grader)


def _engine(
    settings: Settings,
    store: Store,
    indexes: Indexes,
    memory: Memory,
    *,
    grader: Grader | None,
    search: WebSearch | None = None,
) -> Engine:
    return Engine(
        store,
        indexes.snapshot,
        Policies(**{f.name: getattr(settings, f.name) for f in fields(Policies)}),
        count=lru_cache(maxsize=COUNTED)(counter(settings.tokens)),
        memory=memory,
        vectors=indexes.vector,
        grader=grader,
        search=search,
    )


def _log(settings: Settings) -> PerformanceLog | None:
    """The line per request, where there is a place for it."""
    policy = settings.log
    path = policy.path or (settings.store != MEMORY and Path(settings.store) / NAME)
    return PerformanceLog(Path(path), policy) if policy.enabled and path else None


def _store(settings: Settings) -> tuple[Store, Path | None]:
    """The store, and the folder its indexes are kept in."""
    if settings.store == MEMORY:
        return MemoryStore(), None
    return SqliteStore(settings.store), Path(settings.store) / "index"
