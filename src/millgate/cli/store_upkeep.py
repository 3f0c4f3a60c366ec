"""`millgate store check`, `compact`, `reindex`, `embed`, `migrate`, `distribute`: keep a store sound."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millgate.cli.console import progress_bar
from millgate.cli.options import (
    json_option,
    open_existing,
    print_json,
    store_folder,
    store_name,
    store_option,
    store_options,
)
from millgate.cli.store_copies import open_kept
from millgate.cli.terminal import echo
from millgate.errors import InputError, MissingExtra
from millgate.models.embed import embedder
from millgate.operations.check import check as find_faults
from millgate.operations.compact import compact as compact_store
from millgate.settings import load
from millgate.stores.open import open_store
from millgate.stores.url import hide_password, is_postgres
from millgate.text.table import count_of

if TYPE_CHECKING:
    from millgate.stores.postgres.store import PostgresStore

dry_option = click.option("--dry-run", is_flag=True, help="Print the SQL and change nothing.")


@click.command(epilog="Example: millgate store check --repair")
@store_option
@click.option("--repair", is_flag=True, help="Make anew what is derived from other data in the store.")  # fmt: skip
@json_option
def check(store: str | None, repair: bool, as_json: bool) -> None:
    """Check the database, its counts, fingerprints and indexes.

    The exit code is 1 if something is wrong and was not repaired.
    """
    name = store_name(store)
    if is_postgres(name):
        from millgate.operations.check_postgres import check_postgres  # noqa: PLC0415  an extra

        with _postgres(name) as (opened, folder):
            found = check_postgres(opened, folder, repair=repair)
    else:
        found = find_faults(store_folder(store), repair=repair)
    if as_json:
        print_json([asdict(one) for one in found])
    else:
        for one in found:
            echo(f"{'repaired' if one.repaired else 'wrong'}: {one.what}")
        if not found:
            echo("everything is as it should be")
    sys.exit(1 if any(not one.repaired for one in found) else 0)


@click.command(epilog="Example: millgate store compact")
@store_option
@json_option
def compact(store: str | None, as_json: bool) -> None:
    """Give back the disk space of what was removed.

    Others can read while it runs, and cannot write.
    """
    done = compact_store(store_folder(store))
    if as_json:
        print_json(asdict(done))
    else:
        echo(f"{done.before / 1e6:,.1f} MB became {done.after / 1e6:,.1f} MB; {count_of(done.removals, 'removal')} forgotten")  # fmt: skip


@click.command(epilog="Example: millgate store reindex --collection main")
@store_options
@json_option
def reindex(store: str | None, tenant: str | None, collection: str, as_json: bool) -> None:
    """Rebuild the index of a collection from the store."""
    with open_existing(store, tenant) as gate:
        view = gate.reindex(collection)
        chunks, conversation = view.count, view.conversational
    if as_json:
        print_json({"collection": collection, "chunks": chunks, "conversation": conversation})
        return
    kind = "a conversation" if conversation else "documents"
    echo(f"indexed {count_of(chunks, 'chunk')} of {collection!r} as {kind}")


@click.command(epilog="Example: millgate store embed --collection main")
@store_option
@click.option("--collection", help="Only this collection (default: all).")
@json_option
def embed(store: str | None, collection: str | None, as_json: bool) -> None:
    """Compute the embeddings that chunks lack.

    The setting `embed.model` names the model. The command can be stopped and started again.
    """
    from millgate.operations.embed import embed_store  # noqa: PLC0415  loads numpy

    settings = load(arguments={"store": store} if store else {})
    model = embedder(settings.embed)
    if model is None:
        raise InputError("no embedder is set", hint="set embed.model, as in MILLGATE_EMBED__MODEL=minilm")  # fmt: skip
    began, opened = time.monotonic(), open_kept(settings.store)
    try:
        with progress_bar() as bar:
            task = bar.add_task("embedding chunks", total=None)
            made = embed_store(
                opened,
                model,
                collection=collection,
                on_chunks=lambda done, total: bar.update(task, completed=done, total=total),
            )
    finally:
        opened.close()
    seconds = time.monotonic() - began
    if as_json:
        print_json({"store": hide_password(settings.store), "model": model.name, "dimension": model.dimension, "embedded": made, "seconds": round(seconds, 3)})  # fmt: skip
        return
    echo(
        f"embedded {count_of(made, 'chunk')} with {model.name} in {seconds:.1f} s; none is lacking"
    )


@click.command(epilog="Example: millgate store migrate --dry-run")
@store_option
@click.option("--role", default="", metavar="NAME", help="A role of the database that may then read and write rows, for gateways.")  # fmt: skip
@dry_option
@json_option
def migrate(store: str | None, role: str, dry_run: bool, as_json: bool) -> None:
    """Bring the tables of a store to this release.

    A service does it when it starts, if its database role owns the tables. If it does not, run this before each new
    release with the address of the role that does, and name the role of the gateways once with --role.
    """
    name = store_name(store)
    if not is_postgres(name):
        if role:
            raise InputError("only a PostgreSQL store has roles", hint="name it: --store postgresql://user@host/database")  # fmt: skip
        open_kept(name).close()
        steps: list[str] = []
    else:
        try:
            from millgate.stores.postgres.migrations import migrate_postgres  # noqa: PLC0415  an extra
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name, extra="postgres") from error
        steps = migrate_postgres(name, dry_run=dry_run, role=role)
    if as_json:
        print_json({"store": hide_password(name), "steps": steps, "taken": not dry_run})
    elif not steps:
        echo(f"{hide_password(name)} is up to date")
    elif dry_run:
        for step in steps:
            echo(step)
    else:
        echo(f"{hide_password(name)}: {len(steps)} steps were taken")


@click.command(epilog="Example: millgate store distribute --dry-run")
@store_option
@dry_option
@json_option
def distribute(store: str | None, dry_run: bool, as_json: bool) -> None:
    """Spread the tables over the servers of a Citus cluster. The rows of a tenant stay together.

    The tables are locked until all rows are copied. A large store is faster to move into an empty one: migrate,
    distribute, then `millgate store copy`.
    """
    name = store_name(store)
    if not is_postgres(name):
        raise InputError("only a PostgreSQL store can be distributed", hint="name it: --store postgresql://user@host/database")  # fmt: skip
    from millgate.stores.postgres import citus  # noqa: PLC0415  an extra

    with _postgres(name) as (opened, _), opened.session() as connection:
        if dry_run:
            statements = citus.distribute_sql(citus.read_layout(connection, opened.address))
            if as_json:
                print_json({"statements": statements})
            elif not statements:
                echo("all tables are distributed already")
            for statement in () if as_json else statements:
                echo(f"{statement};")
            return
        count = citus.distribute(connection, opened.address)
    if as_json:
        print_json({"tables": count})
    else:
        echo(f"{count} tables were distributed" if count else "all tables are distributed already")


@contextmanager
def _postgres(name: str) -> "Iterator[tuple[PostgresStore, Path]]":
    """The PostgreSQL store at an address, and the folder of its indexes on this machine."""
    opened, folder = open_store(name, clock=time.time)
    from millgate.stores.postgres.store import PostgresStore  # noqa: PLC0415  an extra

    assert isinstance(opened, PostgresStore)
    assert folder is not None
    try:
        yield opened, folder
    finally:
        opened.close()
