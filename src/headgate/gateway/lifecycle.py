"""Lifecycle: opening a store, acting for a tenant, and closing; what every other method stands on."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from headgate.errors import StoreError
from headgate.protocols import (
    Clock,
    Embedder,
    Grader,
    MemoryProvider,
    Store,
    TokenCounter,
    WebSearch,
)
from headgate.settings import Settings, load, with_changes
from headgate.twins import BackgroundLoop, in_thread
from headgate.wiring import Own, Parts, build


class Lifecycle:
    """The parts of one open store, and whose they are used for."""

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

    def for_tenant(self, tenant: str) -> Self:
        """The same gate for another tenant; closing it leaves the shared store open."""
        return type(self)(self._parts, tenant, owns=False)

    def close(self) -> None:
        """Close the store and stop the background loop; what is called afterwards is an error."""
        self._closed = True
        self._background.close()
        if self._owns:
            self._all.close()

    aclose = in_thread(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
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
