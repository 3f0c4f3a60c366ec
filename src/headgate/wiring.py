"""Wiring: Settings -> Store, Indexes, Engine. The only file that names concrete classes."""

from dataclasses import dataclass, fields
from pathlib import Path

from headgate.engine import Engine, Policies
from headgate.index.indexes import Indexes
from headgate.memory.panel import Panel, plugins
from headgate.memory.recall import Memory
from headgate.models.embed import embedder
from headgate.protocols import Store
from headgate.settings import Settings
from headgate.stores.memory import MemoryStore
from headgate.stores.sqlite import SqliteStore
from headgate.text.tokens import counter

MEMORY = ":memory:"


@dataclass(frozen=True, slots=True)
class House:
    """The parts of one open Headgate."""

    settings: Settings
    store: Store
    indexes: Indexes
    memory: Memory
    engine: Engine

    def close(self) -> None:
        """Save and close what holds files."""
        self.memory.close()
        self.indexes.close()
        self.store.close()


def build(settings: Settings) -> House:
    """Open the store that the settings name, and everything over it."""
    store, folder = _store(settings)
    indexes = Indexes(store, folder, embedder(settings.embed))
    policy = Policies(**{f.name: getattr(settings, f.name) for f in fields(Policies)})
    memory = Memory(store, Panel(plugins(), settings.recall), settings.facts)
    engine = Engine(
        store,
        indexes.view,
        policy,
        count=counter(settings.tokens),
        memory=memory,
        vectors=indexes.vector,
    )
    return House(settings, store, indexes, memory, engine)


def _store(settings: Settings) -> tuple[Store, Path | None]:
    """The store, and the folder its indexes are kept in."""
    if settings.store == MEMORY:
        return MemoryStore(), None
    return SqliteStore(settings.store), Path(settings.store) / "index"
