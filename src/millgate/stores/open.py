"""Open: the store that the setting `store` names, and the folder for what is derived from it."""

import re
import tempfile
from pathlib import Path

from millgate.errors import ConfigError, MissingExtra, StoreError
from millgate.protocols import Clock, Store
from millgate.stores.sqlite.store import SqliteStore
from millgate.stores.url import is_postgres

MEMORY = ":memory:"
_ADDRESS = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]+)(:/|//|:)"
)  # C:/ is a drive; a colon or slash is soon forgotten
_POSTGRES = ("postgresql", "postgres")
_OTHERS = ("http", "https", "mysql", "mariadb", "sqlite", "mongodb", "redis", "file")


def open_store(
    name: str, *, clock: Clock, tenant_bytes: int | None = None
) -> tuple[Store, Path | None]:
    """The store of that name, and the folder of its indexes; None if they are kept in memory."""
    if is_postgres(name):
        return _open_postgres(name, clock, tenant_bytes)
    folder = folder_of(name)
    if folder is None:
        from millgate.stores.temporary import TemporaryStore  # noqa: PLC0415  (a store on disk needs none of it)

        return TemporaryStore(clock=clock, tenant_bytes=tenant_bytes), None
    store = SqliteStore(folder, clock=clock, tenant_bytes=tenant_bytes)
    return store, folder.absolute()


def folder_of(store: str) -> Path | None:
    """The folder that a setting `store` names; None for memory. An address is an error."""
    if store == MEMORY:
        return None
    if not store:
        raise ConfigError(
            "the name of the store is empty", hint="name a folder; the current one is '.'"
        )
    if found := _ADDRESS.match(store):
        _refuse_address(*found.groups())
    return Path(store)


def _refuse_address(scheme: str, separator: str) -> None:
    """Say that a setting is an address and no folder. The rest of it may hold a password."""
    if scheme.lower() in _POSTGRES:
        raise ConfigError(
            f"store begins with {scheme}{separator}, so it is no folder, and not an address as it should be written",
            hint="give the address as a text: postgresql://user:password@host/database",
        )
    if separator == ":/" or scheme.lower() in _OTHERS:  # kb//a is a folder
        raise ConfigError(
            f"store is an address ({scheme}://...), and no store here understands {scheme}://",
            hint="name a folder, ':memory:' or postgresql://...; hand in a store of your own with store=",
        )


def _open_postgres(name: str, clock: Clock, tenant_bytes: int | None) -> tuple[Store, Path]:
    try:
        from millgate.stores.postgres.store import PostgresStore  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise MissingExtra(error.name, extra="postgres") from error
    store = PostgresStore(name, clock=clock, tenant_bytes=tenant_bytes)
    folder = store.address.cache or _cache_folder() / store.id
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        store.close()
        raise StoreError(
            f"the folder of the indexes {folder} cannot be made: {error.strerror}",
            hint="name another in the address of the store: ?cache=/var/cache/millgate",
        ) from error
    return store, folder


def _cache_folder() -> Path:
    """Where derived files of this user belong, or the machine's folder for temporary ones."""
    try:
        return Path.home() / ".cache" / "millgate"
    except RuntimeError:  # a user without a home
        return Path(tempfile.gettempdir()) / "millgate-cache"
