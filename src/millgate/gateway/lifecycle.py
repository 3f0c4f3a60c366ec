"""Lifecycle: opening a store, acting for a tenant, and closing; what every other method stands on."""

from collections.abc import Iterable, Mapping, Sequence
from inspect import getattr_static, isfunction
from pathlib import Path
from typing import Any, Self

from millgate.calls.loop import async_version
from millgate.errors import ConfigError, InputError
from millgate.gateway.wiring import Components, UserComponents, build
from millgate.protocols import (
    Clock,
    Embedder,
    Grader,
    MemoryProvider,
    Retriever,
    Store,
    TokenCounter,
    WebSearch,
)
from millgate.settings import Settings, load, with_changes
from millgate.stores.url import hide_password
from millgate.stores.validate import check_name
from millgate.text.meant import CLOSE, did_you_mean
from millgate.types.check import explain_all_keywords


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
