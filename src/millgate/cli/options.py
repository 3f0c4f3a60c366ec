"""What commands share: their options, opening the store that they name, printing what they return, and their groups."""

import sys
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from millgate.cli.terminal import echo, print_json
from millgate.errors import InputError
from millgate.text.meant import nearest

if TYPE_CHECKING:
    from millgate.gateway import Millgate

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
store_option = click.option(
    "--store", help="Folder or address of the store (default: the setting `store`)."
)
collection_option = click.option(
    "--collection", default="main", show_default=True, help="Which collection."
)
days_option = click.option(
    "--days", type=click.FloatRange(min=0, min_open=True), help="Only calls of the last DAYS."
)

# what people type in a group -> its commands that do it
MEANT_IN_GROUP = {
    "rm": "remove revoke forget uninstall reject",
    "delete": "remove revoke forget uninstall reject",
    "ls": "list show",
    "get": "show",
    "cat": "show",
    "new": "create remember load",
    "add": "create remember load",
}


class CommandGroup(click.Group):
    """A group whose unknown commands get a suggestion."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            said, _, _ = error.message.partition(
                " Did you mean"
            )  # newer versions of click suggest too
            raise click.UsageError(f"{said}{self.suggest(ctx, args[0])}", ctx=ctx) from None

    def suggest(self, ctx: click.Context, given: str) -> str:
        """The sentence that names the command which was probably meant, or nothing."""
        if given == "help":
            return f" Try: {ctx.command_path} --help"
        names = self.list_commands(ctx)
        meant = [name for name in MEANT_IN_GROUP.get(given, "").split() if name in names]
        close = meant[0] if meant else nearest(given, names)
        return f" Did you mean '{close}'?" if close else ""


class Output(NamedTuple):
    """What a command prints: its data with --json, otherwise its text and a note on stderr; and its exit code."""

    data: object
    text: str = ""
    note: str = ""
    code: int = 0


def prints(command: Callable[..., Output]) -> Callable[..., None]:
    """Add --json, and print what the command returns."""

    @json_option
    @wraps(command)
    def run(*, as_json: bool, **given: Any) -> None:  # noqa: ANN401  (the command's own)
        show(command(**given), as_json=as_json)

    return run


def show(made: Output, *, as_json: bool) -> None:
    """Print what a command made; end with its exit code if that is not 0."""
    if as_json:
        print_json(made.data)
    else:
        for text, err in ((made.text, False), (made.note, True)):
            if text:
                echo(text, err=err)
    if made.code:
        sys.exit(made.code)


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


def shipped(name: str) -> Path | None:
    """What comes with the package: a path in it if it was installed, beside it in a checkout; None if it is missing."""
    package = Path(__file__).resolve().parents[1]
    return next(filter(Path.exists, (package / name, package.parents[1] / name)), None)


# Stores. What opens one is imported when a command needs it: the others start faster.


def store_name(store: str | None) -> str:
    """The folder or address of the store that was given, or the one that the settings name."""
    from millgate.settings import load  # noqa: PLC0415

    return load(arguments={} if store is None else {"store": store}).store


def folder_named(name: str) -> Path | None:
    """The folder of a store; None for an address, and for a store in memory."""
    from millgate.stores.open import folder_of  # noqa: PLC0415
    from millgate.stores.url import is_postgres  # noqa: PLC0415

    return None if is_postgres(name) else folder_of(name)


def store_folder(store: str | None) -> Path:
    """The folder of the store; one without a folder is an error that says what to do instead."""
    from millgate.stores.open import MEMORY  # noqa: PLC0415

    name = store_name(store)
    folder = folder_named(name)
    if folder is not None:
        return folder
    if name == MEMORY:
        raise InputError("a store in memory has no files", hint="name a folder with --store")
    raise InputError(
        "a PostgreSQL store has no folder",
        hint="its server's own tools look after it: pg_dump --schema=millgate, pg_restore, VACUUM; see docs/stores.md",
    )


def open_gate(store: str | None, tenant: str | None) -> "Millgate":
    """Open the named store, or the one that the settings name; make it if it is not there."""
    from millgate.gateway import Millgate  # noqa: PLC0415
    from millgate.stores.open import MEMORY  # noqa: PLC0415

    gate = Millgate.open(store, tenant=tenant)
    if gate.settings.store == MEMORY:
        echo("note: this store is in memory, and is gone when the command ends", err=True)
    return gate


def note_missing(store: str | None) -> None:
    """Say on stderr that a store is not there yet, and what may have been meant, before an empty one is made."""
    from millgate.operations.presence import existing  # noqa: PLC0415

    folder = folder_named(store_name(store))
    if folder is not None:
        try:
            existing(folder)
        except InputError as error:
            echo(f"note: {error.message}, so it begins empty; {error.hint}", err=True)


def open_existing(store: str | None, tenant: str | None) -> "Millgate":
    """Open a store for a command that only reads. If there is none, the error names the stores that there are."""
    from millgate.gateway import Millgate  # noqa: PLC0415
    from millgate.operations.presence import existing  # noqa: PLC0415
    from millgate.settings import load  # noqa: PLC0415
    from millgate.stores.sqlite.connection import is_full  # noqa: PLC0415
    from millgate.stores.sqlite.store import SqliteStore  # noqa: PLC0415

    given = {"store": store, "tenant": tenant}
    settings = load(arguments={name: value for name, value in given.items() if value is not None})
    folder = folder_named(settings.store)
    if folder is not None:
        existing(folder)
        if is_full(folder):  # a store cannot be opened for writing then, and it can be read
            echo("note: the disk is full, so the store is only read", err=True)
            return Millgate.open(
                folder, settings=settings, store=SqliteStore(folder, read_only=True)
            )
    return Millgate.open(settings=settings)
