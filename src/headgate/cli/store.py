"""`headgate store migrate|copy|check|embed|distribute|stats`: the database of a store, and moving to another."""

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from headgate.cli.add import remove
from headgate.cli.operations import (
    backup,
    check,
    compact,
    export,
    import_records,
    open_postgres,
    reindex,
    restore,
)
from headgate.cli.options import json_option, print_json, store_option
from headgate.cli.show import show
from headgate.cli.status import ls
from headgate.cli.terminal import SafeConsole, echo
from headgate.errors import InputError, MissingExtra, StoreError
from headgate.models.embed import embedder
from headgate.operations.copy import Comparison, WholeStore, copy_store
from headgate.settings import load
from headgate.stores.memory.store import MemoryStore
from headgate.stores.open import folder_of, open_store
from headgate.stores.url import hide_password, is_postgres

if TYPE_CHECKING:
    from headgate.stores.postgres.store import PostgresStore

dry_option = click.option("--dry-run", is_flag=True, help="Print the SQL and change nothing.")


@click.group()
def store() -> None:
    """Bring a store up to date, copy, check, embed, distribute and measure it."""


@store.command()
@store_option
@dry_option
@json_option
def migrate(store: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring the tables of a store to this release. A service does it by itself when its role may."""
    name = _name(store)
    if not is_postgres(name):
        _open(name).close()
        steps: list[str] = []
    else:
        try:
            from headgate.stores.postgres.migrations import migrate_postgres  # noqa: PLC0415  an extra
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name, extra="postgres") from error
        steps = migrate_postgres(name, dry_run=dry_run)
    if as_json:
        print_json({"store": hide_password(name), "steps": steps, "taken": not dry_run})
    elif not steps:
        echo(f"{hide_password(name)} is up to date")
    elif dry_run:
        for step in steps:
            echo(step)
    else:
        echo(f"{hide_password(name)}: {len(steps)} steps were taken")


@store.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--traces/--no-traces", default=True, help="Whether traces are copied too.")
@json_option
def copy(source: str, target: str, traces: bool, as_json: bool) -> None:
    """Copy the store FROM into the store TO and compare both; started again, it goes on where it was.

    Each is a folder or an address. Let nobody write meanwhile. Exit code 1 when the stores differ afterwards.
    """
    if not is_postgres(source) and not (Path(source) / "headgate.db").is_file():
        raise InputError(f"there is no store in {source}", hint="name its folder or address")
    began, came = time.monotonic(), _open(source)
    try:
        goes = _open(target)
        try:
            if came.id == goes.id:
                raise InputError("FROM and TO are the same store", hint="name another for TO")
            found = _copy(came, goes, traces)
        finally:
            goes.close()
    finally:
        came.close()
    if as_json:
        print_json([{**asdict(one), "equal": one.equal} for one in found])
    else:
        _print_comparison(found, time.monotonic() - began)
    sys.exit(0 if all(one.equal for one in found) else 1)


@store.command()
@store_option
@dry_option
@json_option
def distribute(store: str | None, dry_run: bool, as_json: bool) -> None:
    """Spread the tables over the servers of a Citus cluster, each tenant's rows together."""
    name = _postgres(store)
    from headgate.stores.postgres import citus  # noqa: PLC0415  an extra

    if dry_run:
        statements = citus.distribute_sql()
        if as_json:
            print_json({"statements": statements})
        for statement in [] if as_json else statements:
            echo(f"{statement};")
        return
    opened = open_postgres(name)
    try:
        with opened.session() as connection:
            count = citus.distribute(connection, opened.address)
    finally:
        opened.close()
    if as_json:
        print_json({"tables": count})
    else:
        echo(f"{count} tables were distributed" if count else "all tables are distributed already")


@store.command()
@store_option
@json_option
def stats(store: str | None, as_json: bool) -> None:
    """How much a store holds, of whom, and what it takes on disk."""
    name = _name(store)
    opened = _open(name)
    try:
        sizes = {
            tenant: {name: asdict(size) for name, size in opened.collections(tenant).items()}
            for tenant in opened.tenants()
        }
        tables, server = _disk(opened, name)
    finally:
        opened.close()
    if as_json:
        print_json({"store": hide_password(name), "server": server, "tenants": sizes, "tables": tables})  # fmt: skip
        return
    echo(f"{hide_password(name)}  {server}")
    for tenant, collections in sizes.items():
        for collection, size in collections.items():
            echo(f"  {tenant}/{collection}: {size['documents']:,} documents, {size['chunks']:,} chunks, {size['chars']:,} characters")  # fmt: skip
    for table, size_bytes in tables.items():
        echo(f"  {size_bytes / 1e6:>12,.1f} MB  {table}")


@store.command()
@store_option
@click.option("--collection", help="Only this collection (default: all).")
@json_option
def embed(store: str | None, collection: str | None, as_json: bool) -> None:
    """Compute the embeddings that chunks lack, with the setting `embed.model`.

    On PostgreSQL any number of these may run at once, on any machine: they share the work, and one that is killed
    leaves its part to the others. Started again, it goes on where it was. A collection that is larger than
    `index.max_chunks` gets its index of vectors in the database, where that has pgvector.
    """
    from headgate.operations.embed import build_graphs, embed_store  # noqa: PLC0415  loads numpy

    settings = load(arguments={"store": store} if store else {})
    model = embedder(settings.embed)
    if model is None:
        raise InputError("no embedder is set", hint="set embed.model, as in HEADGATE_EMBED__MODEL=minilm")  # fmt: skip
    began, opened = time.monotonic(), _open(settings.store)
    try:
        with _progress() as bar:
            task = bar.add_task("embedding chunks", total=None)
            made = embed_store(
                opened,
                model,
                collection=collection,
                on_chunks=lambda done, total: bar.update(task, completed=done, total=total),
            )
        most, graphs, obstacle = settings.index.max_chunks, 0, ""
        try:
            graphs = build_graphs(opened, model, max_chunks=most, collection=collection)
        except StoreError as error:  # the embeddings are there all the same
            obstacle = str(error)
    finally:
        opened.close()
    seconds = time.monotonic() - began
    if as_json:
        print_json({"store": hide_password(settings.store), "model": model.name, "dimension": model.dimension, "embedded": made, "graphs": graphs, "obstacle": obstacle, "seconds": round(seconds, 3)})  # fmt: skip
        return
    echo(f"embedded {made:,} chunks with {model.name} in {seconds:.1f} s; none is lacking")
    if graphs:
        echo(f"large collections whose index of vectors was made: {graphs}")
    if obstacle:
        echo(f"the index of vectors of a large collection was not made: {obstacle}", err=True)


for _command in (
    ls,
    show,
    remove,
    backup,
    restore,
    export,
    import_records,
    check,
    compact,
    reindex,
):
    store.add_command(_command)


def _name(store: str | None) -> str:
    return load(arguments={"store": store} if store else {}).store


def _postgres(store: str | None) -> str:
    name = _name(store)
    if not is_postgres(name):
        raise InputError("only a PostgreSQL store can be distributed", hint="name it: --store postgresql://user@host/database")  # fmt: skip
    return name


def _open(name: str) -> WholeStore:
    opened, _ = open_store(name, clock=time.time)
    if isinstance(opened, MemoryStore):
        raise InputError("a store in memory is gone with its process", hint="name a folder or an address")  # fmt: skip
    whole: WholeStore = opened  # type: ignore[assignment]  # every store that is kept can be read whole
    return whole


def _disk(opened: WholeStore, name: str) -> tuple[dict[str, int], str]:
    """Bytes on disk by table or by file, and the database that keeps them."""
    if is_postgres(name):
        whole: PostgresStore = opened  # type: ignore[assignment]
        return whole.tables(), whole.server()
    folder = folder_of(name)
    files = sorted(folder.glob("headgate.db*")) if folder else []
    return {file.name: file.stat().st_size for file in files}, "SQLite"


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())  # fmt: skip
    console = SafeConsole(stderr=True)
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _copy(source: WholeStore, target: WholeStore, traces: bool) -> list[Comparison]:
    with _progress() as bar:
        task = bar.add_task("copying", total=None)
        return copy_store(
            source,
            target,
            traces=traces,
            on_chunks=lambda what, done, total: bar.update(
                task, description=f"{what} chunks", completed=done, total=total
            ),
        )


def _print_comparison(found: list[Comparison], seconds: float) -> None:
    for one in found:
        if not one.equal:
            echo(f"differs: {one.tenant} {one.kind}: {one.source.count:,} and {one.target.count:,}")
    kinds = dict.fromkeys(one.kind for one in found)
    counts = ", ".join(
        f"{sum(one.source.count for one in found if one.kind == kind):,} {kind}" for kind in kinds
    )
    if all(one.equal for one in found):
        echo(f"copied in {seconds:.1f} s, and both stores are equal: {counts or 'nothing'}")
    else:
        echo("the stores differ: was something written meanwhile, or did TO hold other documents? Run it again")  # fmt: skip
