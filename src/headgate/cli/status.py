"""`headgate status` and `headgate store ls`: what is in the store."""

from fnmatch import fnmatchcase

import click
from rich.markup import escape
from rich.table import Column, Table

from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.terminal import SafeConsole, count_of, echo
from headgate.operations.presence import require_collections, require_tenant
from headgate.operations.status import Status, TenantStatus
from headgate.operations.status import status as take_stock


@click.command()
@place_options
@json_option
def status(store: str | None, tenant: str | None, as_json: bool) -> None:
    """Say what the store holds, how large it is, and whether its indexes have caught up."""
    with open_existing(store, tenant) as hg:
        if tenant:
            require_tenant(hg, tenant)
        found = take_stock(hg, tenant=tenant)
    if as_json:
        print_json(found)
    else:
        _print_status(found)


def _print_status(found: Status) -> None:
    sizes = f"database {_size(found.database_bytes)}, indexes {_size(found.index_bytes)}"
    echo(f"store {found.store}: {sizes}")
    table = Table(
        "tenant", Column("collection", overflow="fold"), Column("documents", justify="right"),
        Column("chunks", justify="right"), Column("characters", justify="right"), "index",
        box=None, header_style="bold", pad_edge=False,
    )  # fmt: skip
    for owner in found.tenants:
        for held in owner.collections:
            counts = (f"{count:,}" for count in (held.documents, held.chunks, held.chars))
            table.add_row(
                escape(owner.tenant), escape(held.name), *counts, _describe_lag(held.index_lag)
            )
    if table.row_count:
        SafeConsole().print(table)
    else:
        echo("no documents yet; add some: headgate add FOLDER")
    for owner in found.tenants:
        echo(_describe(owner))


def _describe(owner: TenantStatus) -> str:
    counts = {"fact": owner.facts, "edge": owner.edges, "trace": owner.traces}
    said = ", ".join(count_of(n, name) for name, n in counts.items() if n is not None)
    waiting = f", {owner.reviews:,} reviews wait for a person" if owner.reviews else ""
    return f"{owner.tenant}: {said}{waiting}"


def _describe_lag(lag: int | None) -> str:
    if lag is None:
        return "made at the first question"
    return f"{lag:,} changes behind; the next question takes them in" if lag else "up to date"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


@click.command()
@click.argument("collection", required=False)
@place_options
@click.option("--match", default="*", help="Only documents whose id fits, as '*.md'.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
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
    with open_existing(store, tenant) as hg:
        if collection is None:
            held = hg.collections()
            rows = [
                {"collection": name, "documents": size.documents, "chunks": size.chunks, "chars": size.chars}
                for name, size in held.items()
            ]  # fmt: skip
            left = 0
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


def _print_rows(rows: list[dict[str, object]]) -> None:
    if not rows:
        echo("nothing is here; add something: headgate add FOLDER")
        return
    columns = [
        Column(name, justify="right" if isinstance(value, int) else "left", overflow="fold")
        for name, value in rows[0].items()
    ]
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(f"{v:,}" if isinstance(v, int) else escape(str(v)) for v in row.values()))
    SafeConsole().print(table)
