"""`headgate store backup`, `restore`, `export`, `import`, `check`, `compact`, `doctor`: looking after a store."""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress

from headgate.cli.options import (
    json_option,
    open_existing,
    open_gate,
    print_json,
    store_option,
    store_options,
)
from headgate.cli.terminal import SafeConsole, echo
from headgate.errors import InputError
from headgate.operations.backup import backup as make_backup
from headgate.operations.backup import restore as put_back
from headgate.operations.check import Finding
from headgate.operations.check import check as find_faults
from headgate.operations.compact import compact as make_small
from headgate.operations.doctor import examine
from headgate.operations.transfer import export_lines, import_lines, record_lines
from headgate.settings import load
from headgate.stores.open import folder_of, open_store
from headgate.stores.url import is_postgres

if TYPE_CHECKING:
    from headgate.stores.postgres.store import PostgresStore


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@store_option
@json_option
def backup(target: Path, store: str | None, as_json: bool) -> None:
    """Copy the store into the folder TARGET, while it is in use, and check the copy."""
    console = SafeConsole(stderr=True)
    columns = ("writing", BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("writing")
        made = make_backup(
            _folder(store),
            target,
            on_bytes=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({**asdict(made), "path": str(made.path)})
    else:
        echo(f"{made.path}: {made.bytes:,} bytes, {made.chunks:,} chunks, checked, in {made.seconds:.1f} s")  # fmt: skip


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@store_option
@click.option("--replace", is_flag=True, help="Move a store that is there aside.")
@json_option
def restore(source: Path, store: str | None, replace: bool, as_json: bool) -> None:
    """Put the backup SOURCE (its folder or file) in the place of the store. Stop the service first."""
    made = put_back(source, _folder(store), replace=replace)
    if as_json:
        print_json({**asdict(made), "path": str(made.path)})
    else:
        echo(f"{made.path}: {made.chunks:,} chunks are back; indexes are made anew when they are asked for")  # fmt: skip


@click.command(name="export")
@store_option
@click.option("--tenant", help="Only this tenant (default: all).")
@click.option("--output", type=click.Path(path_type=Path), help="A file (default: standard output).")  # fmt: skip
def export(store: str | None, tenant: str | None, output: Path | None) -> None:
    """Write documents, edges, facts and reviews as JSON lines. Secrets, API keys and traces are left out."""
    name = load(arguments={"store": store} if store else {}).store
    if is_postgres(name):
        lines = _postgres_lines(name, tenant)
    else:
        lines = export_lines(_folder(store), tenant=tenant)
    if output is None:
        for line in lines:
            echo(line)
        return
    count = 0
    with output.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(f"{line}\n")
            count += 1
    echo(f"{output}: {count:,} records")


@click.command(name="import")
@click.argument("source", type=click.Path(path_type=Path, exists=True), required=False)
@store_option
@click.option("--tenant", help="Put all records under this tenant (default: their own).")
@json_option
def import_records(
    source: Path | None, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Add the records that `headgate store export` wrote, from the file SOURCE or standard input."""
    with open_gate(store, None) as gate:
        if source is None:
            counts = import_lines(gate.store, sys.stdin, tenant=tenant)
        else:
            with source.open("rb") as lines:
                counts = import_lines(gate.store, lines, tenant=tenant)
    if as_json:
        print_json(counts)
    else:
        said = ", ".join(f"{count:,} {kind}s" for kind, count in counts.items())
        echo(said or "there was nothing to import")


@click.command()
@store_option
@click.option("--repair", is_flag=True, help="Mend what can be made anew from the store's own truth.")  # fmt: skip
@json_option
def check(store: str | None, repair: bool, as_json: bool) -> None:
    """Check the database, its counts, fingerprints and indexes. Exit code 1 when something is wrong and stays so."""
    name = load(arguments={"store": store} if store else {}).store
    if is_postgres(name):
        found = check_postgres_store(name, repair=repair)
    else:
        found = find_faults(_folder(store), repair=repair)
    if as_json:
        print_json([asdict(one) for one in found])
    for one in [] if as_json else found:
        echo(f"{'repaired' if one.repaired else 'wrong'}: {one.what}")
    if not found and not as_json:
        echo("everything is as it should be")
    sys.exit(1 if any(not one.repaired for one in found) else 0)


@click.command()
@store_option
@json_option
def compact(store: str | None, as_json: bool) -> None:
    """Give back the space of what was removed. Others may read meanwhile, and cannot write."""
    done = make_small(_folder(store))
    if as_json:
        print_json(asdict(done))
    else:
        echo(f"{done.before / 1e6:,.1f} MB became {done.after / 1e6:,.1f} MB; {done.removals:,} removals were forgotten")  # fmt: skip


@click.command()
@store_option
@json_option
def doctor(store: str | None, as_json: bool) -> None:
    """Say what is wrong with this installation and what to do. Exit code 1 when there is a problem."""
    settings = load(arguments={"store": store} if store else {})
    found = examine(settings, None if is_postgres(settings.store) else folder_of(settings.store))
    if as_json:
        print_json([asdict(advice) for advice in found])
    colors = {"ok": "green", "warning": "yellow", "problem": "red"}
    console = SafeConsole()
    for advice in [] if as_json else found:
        todo = f"\n          {advice.todo}" if advice.todo else ""
        line = f"[{colors[advice.state]}]{advice.state:<8}[/]  {escape(advice.part)}: {escape(advice.what + todo)}"  # fmt: skip
        console.print(line, highlight=False, soft_wrap=True)
    sys.exit(1 if any(advice.state == "problem" for advice in found) else 0)


def _folder(store: str | None) -> Path:
    name = load(arguments={"store": store} if store else {}).store
    if is_postgres(name):
        raise InputError(
            "a PostgreSQL store has no folder",
            hint="its server's own tools look after it: pg_dump --schema=headgate, pg_restore, VACUUM; see docs/stores.md",
        )
    folder = folder_of(name)
    if folder is None:
        raise InputError("a store in memory has no files", hint="name a folder with --store")
    return folder


def open_postgres(name: str) -> "PostgresStore":
    """The PostgreSQL store at an address."""
    opened, _ = open_store(name, clock=time.time)
    from headgate.stores.postgres.store import PostgresStore  # noqa: PLC0415  an extra

    assert isinstance(opened, PostgresStore)
    return opened


def _postgres_lines(name: str, tenant: str | None) -> Iterator[str]:
    opened = open_postgres(name)
    try:
        yield from record_lines(opened.records(tenant))
    finally:
        opened.close()


def check_postgres_store(name: str, *, repair: bool) -> list[Finding]:
    """What is wrong with the PostgreSQL store at an address, and with its indexes on this machine."""
    opened, folder = open_store(name, clock=time.time)
    from headgate.operations.check_postgres import check_postgres  # noqa: PLC0415  an extra
    from headgate.stores.postgres.store import PostgresStore  # noqa: PLC0415  an extra

    assert isinstance(opened, PostgresStore)
    assert folder is not None
    try:
        return check_postgres(opened, folder, repair=repair)
    finally:
        opened.close()


@click.command()
@store_options
@json_option
def reindex(store: str | None, tenant: str | None, collection: str, as_json: bool) -> None:
    """Rebuild the index of a collection from the store."""
    with open_existing(store, tenant) as gate:
        view = gate.reindex(collection)
        figures = {
            "collection": collection,
            "chunks": view.count,
            "conversation": view.conversational,
        }
    if as_json:
        echo(orjson.dumps(figures))
        return
    kind = "a conversation" if figures["conversation"] else "documents"
    SafeConsole().print(f"{figures['chunks']} chunks of {collection!r} are indexed as {kind}")
