"""`millgate store backup`, `restore`, `export`, `import`, `copy`: copies of a store, and back."""

import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click
from rich.progress import BarColumn, DownloadColumn, Progress

from millgate.cli.console import SafeConsole, progress_bar
from millgate.cli.options import (
    json_option,
    open_gate,
    print_json,
    store_folder,
    store_name,
    store_option,
)
from millgate.cli.terminal import echo
from millgate.errors import InputError
from millgate.operations.backup import backup as make_backup
from millgate.operations.backup import create_private
from millgate.operations.backup import restore as put_back
from millgate.operations.copy import Comparison, WholeStore, copy_store
from millgate.operations.transfer import export_lines, import_lines, record_lines
from millgate.stores.open import MEMORY, open_store
from millgate.stores.sqlite.store import has_store
from millgate.stores.url import is_postgres
from millgate.text.table import count_of


@click.command(epilog="Example: millgate store backup /mnt/backup/monday")
@click.argument("target", type=click.Path(path_type=Path))
@store_option
@json_option
def backup(target: Path, store: str | None, as_json: bool) -> None:
    """Copy the store into the folder TARGET while it is in use. The copy is checked."""
    console = SafeConsole(stderr=True)
    columns = ("writing", BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("writing")
        made = make_backup(
            store_folder(store),
            target,
            on_bytes=lambda done, total: bar.update(task, completed=done, total=total),
        )
    if as_json:
        print_json({**asdict(made), "path": str(made.path)})
    else:
        echo(f"{made.path}: {made.bytes:,} bytes, {count_of(made.chunks, 'chunk')}, checked, in {made.seconds:.1f} s")  # fmt: skip


@click.command(epilog="Example: millgate store restore /mnt/backup/monday --replace")
@click.argument("source", type=click.Path(path_type=Path))
@store_option
@click.option("--replace", is_flag=True, help="Move a store that is there aside.")
@json_option
def restore(source: Path, store: str | None, replace: bool, as_json: bool) -> None:
    """Put the backup SOURCE in the place of the store.

    SOURCE is its folder or its file. Stop the service first.
    """
    made = put_back(source, store_folder(store), replace=replace)
    if as_json:
        print_json({**asdict(made), "path": str(made.path)})
    else:
        echo(f"{made.path}: {count_of(made.chunks, 'chunk')} put back; the next question makes the indexes anew")  # fmt: skip


@click.command(name="export", epilog="Example: millgate store export --output all.jsonl")
@store_option
@click.option("--tenant", help="Only this tenant (default: all).")
@click.option("--output", type=click.Path(path_type=Path), help="A file (default: standard output).")  # fmt: skip
def export(store: str | None, tenant: str | None, output: Path | None) -> None:
    """Write documents, edges, facts and reviews as JSON lines. Secrets, API keys and traces are left out."""
    if is_postgres(store_name(store)):
        lines = _postgres_lines(store_name(store), tenant)
    else:
        lines = export_lines(store_folder(store), tenant=tenant)
    if output is None:
        for line in lines:
            echo(line)
        return
    count = 0
    with create_private(output, replace=True) as out:
        for line in lines:
            out.write(f"{line}\n".encode())
            count += 1
    echo(f"{output}: {count_of(count, 'record')}")


def _postgres_lines(name: str, tenant: str | None) -> Iterator[str]:
    opened = open_kept(name)
    try:
        yield from record_lines(opened.records(tenant))
    finally:
        opened.close()


@click.command(name="import", epilog="Example: millgate store import all.jsonl")
@click.argument("source", type=click.Path(path_type=Path, exists=True), required=False)
@store_option
@click.option("--tenant", help="Put all records under this tenant (default: their own).")
@json_option
def import_records(
    source: Path | None, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Add the records of an export, from the file SOURCE or stdin."""
    with open_gate(store, None) as gate:
        if source is None:
            counts = import_lines(gate.store, sys.stdin, tenant=tenant)
        else:
            with source.open("rb") as lines:
                counts = import_lines(gate.store, lines, tenant=tenant)
    if as_json:
        print_json(counts)
    else:
        shown = ", ".join(count_of(count, kind) for kind, count in counts.items())
        echo(shown or "there was nothing to import")


@click.command(epilog="Example: millgate store copy .millgate postgresql://user@host/database")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--traces/--no-traces", default=True, help="Whether traces are copied too.")
@json_option
def copy(source: str, target: str, traces: bool, as_json: bool) -> None:
    """Copy the store FROM into the store TO, and compare both.

    Each is a folder or an address. Nothing should write to them while it runs. A copy that was stopped goes on where it
    was when you start it again. The exit code is 1 if the stores differ afterwards.
    """
    if not is_postgres(source) and not has_store(Path(source)):
        raise InputError(f"there is no store in {source}", hint="name its folder or address")
    began, origin = time.monotonic(), open_kept(source)
    try:
        goal = open_kept(target)
        try:
            if origin.id == goal.id:
                raise InputError("FROM and TO are the same store", hint="name another for TO")
            found = _copy(origin, goal, traces)
        finally:
            goal.close()
    finally:
        origin.close()
    if as_json:
        print_json([{**asdict(one), "equal": one.equal} for one in found])
    else:
        _print_comparison(found, time.monotonic() - began)
    sys.exit(0 if all(one.equal for one in found) else 1)


def open_kept(name: str) -> WholeStore:
    """Open a store that outlives this process; one in memory is an error."""
    if name == MEMORY:
        raise InputError("a store in memory is gone with its process", hint="name a folder or an address")  # fmt: skip
    opened, _ = open_store(name, clock=time.time)
    whole: WholeStore = opened  # type: ignore[assignment]  # every store that is kept can be read whole
    return whole


def _copy(source: WholeStore, target: WholeStore, traces: bool) -> list[Comparison]:
    with progress_bar() as bar:
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
        echo("the stores differ: something wrote to one of them, or TO held other documents before; run it again")  # fmt: skip
