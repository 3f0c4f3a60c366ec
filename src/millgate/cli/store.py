"""`millgate store`: the group, and the commands that show and remove what a store holds."""

from dataclasses import asdict
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Column, Table

from millgate.cli.command_group import CommandGroup
from millgate.cli.console import SafeConsole
from millgate.cli.facts import describe_fact
from millgate.cli.options import (
    json_option,
    open_existing,
    place_options,
    print_json,
    store_name,
    store_option,
    store_options,
)
from millgate.cli.reviews import print_review
from millgate.cli.store_copies import backup, copy, export, import_records, open_kept, restore
from millgate.cli.store_upkeep import check, compact, distribute, embed, migrate, reindex
from millgate.cli.terminal import echo
from millgate.cli.why import print_trace
from millgate.errors import InputError, NotFound
from millgate.explain.as_data import trace_data
from millgate.gateway.traces import LAST_TRACE
from millgate.operations.copy import WholeStore
from millgate.operations.find import Match, find
from millgate.operations.presence import (
    enumerate_names,
    require_collections,
    whole_trace_id,
)
from millgate.stores.open import folder_of
from millgate.stores.url import hide_password, is_postgres
from millgate.text.table import count_of
from millgate.types import Chunk, Fact, Review, Trace

if TYPE_CHECKING:
    from millgate.stores.postgres.store import PostgresStore


@click.group(cls=CommandGroup)
def store() -> None:
    """See what a store holds, copy it, and keep it sound."""


for _command in (
    *(backup, restore, export, import_records, copy),
    *(check, compact, reindex, embed, migrate, distribute),
):
    store.add_command(_command)


@store.command(epilog="Example: millgate store ls main --match '*.md'")
@click.argument("collection", required=False)
@place_options
@click.option("--match", default="*", help="Only documents whose id fits this pattern.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most documents to list.")  # fmt: skip
@json_option
def ls(
    collection: str | None,
    store: str | None,
    tenant: str | None,
    match: str,
    limit: int,
    as_json: bool,
) -> None:
    """List the collections, or the documents of COLLECTION."""
    left = 0
    with open_existing(store, tenant) as hg:
        if collection is None:
            rows = [
                {"collection": name, "documents": size.documents, "chunks": size.chunks, "chars": size.chars}
                for name, size in hg.collections().items()
            ]  # fmt: skip
        else:
            require_collections(hg, [collection])
            ids = [id for id in hg.store.digests(hg.tenant, collection) if fnmatchcase(id, match)]
            left = max(0, len(ids) - limit)
            documents = {id: hg.document(id, collection=collection) for id in ids[:limit]}
            rows = [
                {"document": id, "chunks": len(chunks), "chars": sum(len(c.text) for c in chunks), "title": chunks[0].title}
                for id, chunks in documents.items()
            ]  # fmt: skip
    if as_json:
        print_json(rows)
        return
    _print_rows(rows)
    if left:
        echo(f"and {left:,} more; --limit shows them, --match narrows them", err=True)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    if not rows:
        echo("nothing is here; add something: millgate add FOLDER")
        return
    columns = [
        Column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
        for name, value in rows[0].items()
    ]
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else escape(str(v)) for v in row.values()))
    SafeConsole().print(table)


@store.command(epilog="Example: millgate store show docs/refunds.md#2")
@click.argument("id")
@place_options
@json_option
def show(id: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Show the document, chunk, fact, trace or review that has ID.

    The beginning of an id is enough if nothing else begins so. `last` is the newest trace.
    """
    with open_existing(store, tenant) as hg:
        found = find(hg, whole_trace_id(hg, id) if id == LAST_TRACE else id)
    if as_json:
        value = trace_data(found.value) if isinstance(found.value, Trace) else found.value
        print_json({"kind": found.kind, "id": found.id, "collection": found.collection, "value": value})  # fmt: skip
    else:
        _print_match(found)


def _print_match(found: Match) -> None:
    match found.value:
        case Trace() as trace:
            echo(f"trace {trace.id}: {trace.request.query}")
            print_trace(trace)
        case Fact() as fact:
            echo(f"fact {describe_fact(fact)}")
        case Review() as review:
            echo("review ", nl=False)
            print_review(review)
        case tuple() as chunks:
            counted = f", {count_of(len(chunks), 'chunk')}" if found.kind == "document" else ""
            echo(f"{found.kind} {found.id} in collection {found.collection}{counted}")
            for chunk in chunks:
                _print_chunk(chunk, alone=found.kind == "chunk")


def _print_chunk(chunk: Chunk, *, alone: bool) -> None:
    about = {"title": chunk.title, "document": chunk.document if alone else "", "source": chunk.source}  # fmt: skip
    shown = ", ".join(f"{name} {value!r}" for name, value in about.items() if value)
    echo(f"\n-- {chunk.id}  {shown}")
    if chunk.metadata:
        echo(f"   {dict(chunk.metadata)}")
    echo(chunk.text)


@store.command(epilog="Example: millgate store remove docs/old.md")
@click.argument("documents", nargs=-1)
@store_options
@click.option("--chunk", "chunks", multiple=True, help="Id of a chunk; repeat for more.")
@click.option("--all", "everything", is_flag=True, help="Empty the whole collection.")
@click.option("--yes", is_flag=True, help="Do not ask before emptying.")
@json_option
def remove(
    documents: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    collection: str,
    chunks: tuple[str, ...],
    everything: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove DOCUMENTS by id, single chunks, or a whole collection."""
    named = bool(documents or chunks)
    if named == everything:
        raise InputError("say what to remove", hint="name document ids, --chunk ids, or --all")
    if everything and not yes:
        click.confirm(f"Remove everything in collection {collection!r}?", abort=True, err=True)
    with open_existing(store, tenant) as hg:
        if everything:
            gone = hg.remove(collection=collection, everything=True)
        else:
            gone = hg.remove(collection=collection, documents=documents, chunks=chunks)
    if named and not gone:
        ids = enumerate_names((*documents, *chunks))
        raise NotFound(
            f"nothing in collection {collection!r} has the id {ids}",
            hint=f"see: millgate store ls {collection}",
        )
    if as_json:
        print_json({"removed": gone})
    else:
        echo(f"removed {count_of(gone, 'chunk')}")


@store.command(epilog="Example: millgate store stats --store postgresql://user@host/database")
@store_option
@json_option
def stats(store: str | None, as_json: bool) -> None:
    """Show how much each tenant has, and the size of each table."""
    name = store_name(store)
    opened = open_kept(name)
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
            echo(f"  {tenant}/{collection}: {count_of(size['documents'], 'document')}, {count_of(size['chunks'], 'chunk')}, {count_of(size['chars'], 'character')}")  # fmt: skip
    for table, size_bytes in tables.items():
        echo(f"  {size_bytes / 1e6:>12,.1f} MB  {table}")


def _disk(opened: WholeStore, name: str) -> tuple[dict[str, int], str]:
    """Bytes on disk by table or by file, and the database that keeps them."""
    if is_postgres(name):
        whole: PostgresStore = opened  # type: ignore[assignment]
        return whole.tables(), whole.server()
    folder = folder_of(name)
    files = sorted(folder.glob("millgate.db*")) if folder else []
    return {file.name: file.stat().st_size for file in files}, "SQLite"
