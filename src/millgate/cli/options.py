"""Options that many commands share, and opening the store that they name."""

import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
import orjson

from millgate.cli.terminal import echo
from millgate.errors import InputError

if TYPE_CHECKING:
    from rich.table import Table

    from millgate.gateway import Millgate

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
store_option = click.option(
    "--store", help="Folder or address of the store (default: the setting `store`)."
)


collection_option = click.option(
    "--collection", default="main", show_default=True, help="Which collection."
)


class Output(NamedTuple):
    """What a command prints: its data with --json, otherwise its text and a note on stderr; and its exit code."""

    data: object
    text: "str | Table" = ""
    note: str = ""
    code: int = 0


def prints(command: Callable[..., Output]) -> Callable[..., None]:
    """Add --json, and print what the command returns."""

    @json_option
    @wraps(command)
    def run(*, as_json: bool, **given: Any) -> None:  # noqa: ANN401  (the command's own)
        made = command(**given)
        if as_json:
            print_json(made.data)
        else:
            show(made.text)
            if made.note:
                echo(made.note, err=True)
        if made.code:
            sys.exit(made.code)

    return run


def show(text: "str | Table") -> None:
    """Print a text or a table; nothing if it is empty."""
    if not isinstance(text, str):
        from millgate.cli.console import SafeConsole  # noqa: PLC0415  (it loads rich)

        SafeConsole(soft_wrap=not sys.stdout.isatty()).print(text)
    elif text:
        echo(text)


def on_store(command: Callable[..., Output], *, makes: bool = False) -> Callable[..., None]:
    """Add --store, --tenant and --json, and call the command with the open gate; `makes` a store that is not there."""

    @wraps(command)
    def run(*, store: str | None, tenant: str | None, **given: Any) -> Output:  # noqa: ANN401  (as above)
        with (open_gate if makes else open_existing)(store, tenant) as gate:
            return command(gate, **given)

    return place_options(prints(run))


on_new_store = partial(on_store, makes=True)


def place_options(command: F) -> F:
    """Add --store and --tenant."""
    command = click.option("--tenant", help="Whose data (default: the setting `tenant`).")(command)
    return store_option(command)


def store_options(command: F) -> F:
    """Add --store, --tenant and --collection."""
    return place_options(collection_option(command))


def read_input(name: str) -> bytes:
    """Read a file, or standard input if its name is '-'."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}", hint="check its path") from error


def write_text(file: Path, text: str) -> None:
    """Write what a command made to a file that its caller named."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}", hint="check its path") from error  # fmt: skip


def print_json(value: object) -> None:
    """Print a value, dataclasses included, as indented JSON."""
    echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


def store_name(store: str | None) -> str:
    """The folder or address of the store that was given, or the one that the settings name."""
    from millgate.settings import load  # noqa: PLC0415  (a command without settings starts faster)

    return load(arguments={} if store is None else {"store": store}).store


def store_folder(store: str | None) -> Path:
    """The folder of the store; one without a folder is an error that says what to do instead."""
    from millgate.stores.open import folder_of  # noqa: PLC0415  (commands without a store load faster)
    from millgate.stores.url import is_postgres  # noqa: PLC0415

    name = store_name(store)
    if is_postgres(name):
        raise InputError(
            "a PostgreSQL store has no folder",
            hint="its server's own tools look after it: pg_dump --schema=millgate, pg_restore, VACUUM; see docs/stores.md",
        )
    folder = folder_of(name)
    if folder is None:
        raise InputError("a store in memory has no files", hint="name a folder with --store")
    return folder


def open_gate(store: str | None, tenant: str | None) -> "Millgate":
    """Open the named store, or the one that the settings name; make it if it is not there."""
    from millgate.gateway import Millgate  # noqa: PLC0415  (commands without a store load faster)
    from millgate.stores.open import MEMORY  # noqa: PLC0415  (as above)

    gate = Millgate.open(store, tenant=tenant)
    if gate.settings.store == MEMORY:
        echo("note: this store is in memory, and is gone when the command ends", err=True)
    return gate


def note_missing(store: str | None) -> None:
    """Say on stderr that a store is not there yet, and what may have been meant, before an empty one is made."""
    from millgate.operations.presence import existing  # noqa: PLC0415  (it loads the gateway)
    from millgate.stores.open import folder_of  # noqa: PLC0415  (commands without a store load faster)
    from millgate.stores.url import is_postgres  # noqa: PLC0415

    name = store_name(store)
    folder = None if is_postgres(name) else folder_of(name)
    if folder is not None:
        try:
            existing(folder)
        except InputError as error:
            echo(f"note: {error.message}, so it begins empty; {error.hint}", err=True)


def open_existing(store: str | None, tenant: str | None) -> "Millgate":
    """Open a store for a command that only reads. If there is none, the error names the stores that there are."""
    from millgate.gateway import Millgate  # noqa: PLC0415  (commands without a store load faster)
    from millgate.operations.presence import existing  # noqa: PLC0415  (it loads the gateway)
    from millgate.settings import load  # noqa: PLC0415
    from millgate.stores.open import folder_of  # noqa: PLC0415
    from millgate.stores.sqlite.connection import is_full  # noqa: PLC0415
    from millgate.stores.sqlite.store import SqliteStore  # noqa: PLC0415
    from millgate.stores.url import is_postgres  # noqa: PLC0415

    given = {"store": store, "tenant": tenant}
    settings = load(arguments={name: value for name, value in given.items() if value is not None})
    if not is_postgres(settings.store):
        folder = folder_of(settings.store)
        if folder is not None:
            existing(folder)
            if is_full(folder):  # a store cannot be opened for writing then, and it can be read
                echo("note: the disk is full, so the store is only read", err=True)
                return Millgate.open(
                    folder, settings=settings, store=SqliteStore(folder, read_only=True)
                )
    return Millgate.open(settings=settings)
