"""`millgate store`: see what a store holds, remove from it, copy it, and keep it up to date."""

import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millgate.cli.facts import describe_fact
from millgate.cli.options import (
    CommandGroup,
    Output,
    collection_option,
    on_store,
    open_existing,
    open_gate,
    place_options,
    prints,
    store_folder,
    store_name,
    store_option,
)
from millgate.cli.reviews import describe_review
from millgate.cli.terminal import echo, progress_bar, table_of
from millgate.cli.why import describe_trace
from millgate.errors import InputError, MissingExtra, NotFound
from millgate.explain.as_data import trace_data
from millgate.gateway import Millgate
from millgate.gateway.traces import LAST_TRACE
from millgate.models.embed import embedder
from millgate.operations.backup import backup as make_backup
from millgate.operations.backup import create_private
from millgate.operations.backup import restore as put_back
from millgate.operations.compact import compact as compact_store
from millgate.operations.copy import Comparison, WholeStore, copy_store
from millgate.operations.find import Match, find
from millgate.operations.presence import (
    enumerate_names,
    existing,
    require_collections,
    whole_trace_id,
)
from millgate.operations.transfer import export_lines, import_lines
from millgate.settings import load
from millgate.stores.open import MEMORY, open_store
from millgate.stores.sqlite.store import has_store
from millgate.stores.url import hide_password, is_postgres
from millgate.text.table import count_of
from millgate.types import Chunk, Fact, Review, Trace

if TYPE_CHECKING:
    from millgate.stores.postgres.store import PostgresStore

dry_option = click.option("--dry-run", is_flag=True, help="Print the SQL and change nothing.")


@click.group(cls=CommandGroup)
def store() -> None:
    """See what a store holds, copy it, and keep it up to date."""


# See and remove


@store.command("list", epilog="Example: millgate store list main --match '*.md'")
@click.argument("collection", required=False)
@click.option("--match", default="*", help="Only documents whose id fits this pattern.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="Most documents to list.")  # fmt: skip
@on_store
def list_store(gate: Millgate, collection: str | None, match: str, limit: int) -> Output:
    """List the collections, or the documents of COLLECTION."""
    more = ""
    if collection is None:
        heads = ("collection", "documents", "chunks", "chars")
        rows: list[tuple[str | int, ...]] = [
            (name, size.documents, size.chunks, size.chars) for name, size in gate.collections().items()
        ]  # fmt: skip
    else:
        require_collections(gate, [collection])
        heads = ("document", "chunks", "chars", "title")
        ids = [id for id in gate.store.digests(gate.tenant, collection) if fnmatchcase(id, match)]
        if len(ids) > limit:
            more = f"and {len(ids) - limit:,} more; --limit shows them, --match narrows them"
        held = ((id, gate.document(id, collection=collection)) for id in ids[:limit])
        rows = [(id, len(all), sum(len(c.text) for c in all), all[0].title) for id, all in held]
    none = "nothing is here; add something: millgate add FOLDER"
    shown = ([f"{v:,}" if isinstance(v, int) else v for v in row] for row in rows)
    data = [dict(zip(heads, row, strict=True)) for row in rows]
    return Output(data, table_of(*heads, rows=shown, empty=none), more)


@store.command(epilog="Example: millgate store show docs/refunds.md#2")
@click.argument("id")
@on_store
def show(gate: Millgate, id: str) -> Output:
    """Show the document, chunk, fact, trace or review that has ID.

    The beginning of an id is enough if nothing else begins so. `last` is the newest trace.
    """
    found = find(gate, whole_trace_id(gate, id) if id == LAST_TRACE else id)
    value = trace_data(found.value) if isinstance(found.value, Trace) else found.value
    data = {"kind": found.kind, "id": found.id, "collection": found.collection, "value": value}
    return Output(data, _describe(found))


def _describe(found: Match) -> str:
    match found.value:
        case Trace() as trace:
            return f"trace {trace.id}: {trace.request.query}\n{describe_trace(trace)}"
        case Fact() as fact:
            return f"fact {describe_fact(fact)}"
        case Review() as review:
            return f"review {describe_review(review)}"
        case chunks:
            assert chunks is not None
            alone = found.kind == "chunk"
            counted = "" if alone else f", {count_of(len(chunks), 'chunk')}"
            lines = [f"{found.kind} {found.id} in collection {found.collection}{counted}"]
            return "\n".join(lines + [_describe_chunk(chunk, alone=alone) for chunk in chunks])


def _describe_chunk(chunk: Chunk, *, alone: bool) -> str:
    about = {"title": chunk.title, "document": chunk.document if alone else "", "source": chunk.source}  # fmt: skip
    shown = ", ".join(f"{name} {value!r}" for name, value in about.items() if value)
    metadata = f"\n   {dict(chunk.metadata)}" if chunk.metadata else ""
    return f"\n-- {chunk.id}  {shown}{metadata}\n{chunk.text}"


@store.command(epilog="Example: millgate store remove docs/old.md")
@click.argument("documents", nargs=-1)
@collection_option
@click.option("--chunk", "chunks", multiple=True, help="Id of a chunk; repeat for more.")
@click.option("--all", "everything", is_flag=True, help="Empty the whole collection.")
@click.option("--yes", is_flag=True, help="Do not ask before emptying.")
@place_options
@prints
def remove(
    documents: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    collection: str,
    chunks: tuple[str, ...],
    everything: bool,
    yes: bool,
) -> Output:
    """Remove DOCUMENTS by id, single chunks, or a whole collection."""
    if bool(documents or chunks) == everything:
        raise InputError("say what to remove", hint="name document ids, --chunk ids, or --all")
    if everything and not yes:
        click.confirm(f"Remove everything in collection {collection!r}?", abort=True, err=True)
    with open_existing(store, tenant) as gate:
        named = {"everything": True} if everything else {"documents": documents, "chunks": chunks}
        gone = gate.remove(collection=collection, **named)
    if not everything and not gone:
        ids = enumerate_names((*documents, *chunks))
        raise NotFound(
            f"nothing in collection {collection!r} has the id {ids}",
            hint=f"see: millgate store list {collection}",
        )
    return Output({"removed": gone}, f"removed {count_of(gone, 'chunk')}")


# Copies


@store.command(epilog="Example: millgate store backup /mnt/backup/monday")
@click.argument("target", type=click.Path(path_type=Path))
@store_option
@prints
def backup(target: Path, store: str | None) -> Output:
    """Copy the store into the folder TARGET while it is in use. The copy is checked."""
    with progress_bar("writing") as on_bytes:
        made = make_backup(store_folder(store), target, on_bytes=on_bytes)
    said = f"{made.path}: {made.bytes:,} bytes, {count_of(made.chunks, 'chunk')}, checked, in {made.seconds:.1f} s"
    return Output({**asdict(made), "path": str(made.path)}, said)


@store.command(epilog="Example: millgate store restore /mnt/backup/monday --replace")
@click.argument("source", type=click.Path(path_type=Path))
@store_option
@click.option("--replace", is_flag=True, help="Move a store that is there aside.")
@prints
def restore(source: Path, store: str | None, replace: bool) -> Output:
    """Put the backup SOURCE in the place of the store.

    SOURCE is its folder or its file. Stop the service first.
    """
    made = put_back(source, store_folder(store), replace=replace)
    said = f"{made.path}: {count_of(made.chunks, 'chunk')} put back; the next question makes the indexes anew"
    return Output({**asdict(made), "path": str(made.path)}, said)


@store.command(epilog="Example: millgate store export --output all.jsonl")
@store_option
@click.option("--tenant", help="Only this tenant (default: all).")
@click.option("--output", type=click.Path(path_type=Path), help="A file (default: standard output).")  # fmt: skip
def export(store: str | None, tenant: str | None, output: Path | None) -> None:
    """Write documents, edges, facts and reviews as JSON lines. Secrets, API keys and traces are left out."""
    lines = _export(store_name(store), tenant)
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


def _export(name: str, tenant: str | None) -> Iterator[str]:
    if not is_postgres(name):
        existing(store_folder(name))
    with closing(_open_kept(name)) as opened:
        yield from export_lines(opened, tenant=tenant)


@store.command("import", epilog="Example: millgate store import all.jsonl")
@click.argument("source", type=click.Path(path_type=Path, exists=True), required=False)
@store_option
@click.option("--tenant", help="Put all records under this tenant (default: their own).")
@prints
def import_records(source: Path | None, store: str | None, tenant: str | None) -> Output:
    """Add the records of an export, from the file SOURCE or stdin."""
    with open_gate(store, None) as gate:
        if source is None:
            counts = import_lines(gate.store, sys.stdin, tenant=tenant)
        else:
            with source.open("rb") as lines:
                counts = import_lines(gate.store, lines, tenant=tenant)
    shown = ", ".join(count_of(count, kind) for kind, count in counts.items())
    return Output(counts, shown or "there was nothing to import")


@store.command(epilog="Example: millgate store copy .millgate postgresql://user@host/database")
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--traces/--no-traces", default=True, help="Whether traces are copied too.")
@prints
def copy(source: str, target: str, traces: bool) -> Output:
    """Copy the store FROM into the store TO, and compare both.

    Each is a folder or an address. Nothing should write to them while it runs. A copy that was stopped goes on where it
    was when you start it again. The exit code is 1 if the stores differ afterwards.
    """
    if not is_postgres(source) and not has_store(Path(source)):
        raise InputError(f"there is no store in {source}", hint="name its folder or address")
    began = time.monotonic()
    with closing(_open_kept(source)) as origin, closing(_open_kept(target)) as goal:
        if origin.id == goal.id:
            raise InputError("FROM and TO are the same store", hint="name another for TO")
        with progress_bar("copying") as on_chunks:
            found = copy_store(origin, goal, traces=traces, on_chunks=on_chunks)
    equal = all(one.equal for one in found)
    said = _describe_comparison(found, time.monotonic() - began)
    return Output(found, said, code=0 if equal else 1)


def _describe_comparison(found: list[Comparison], seconds: float) -> str:
    lines = [
        f"differs: {one.tenant} {one.kind}: {one.source:,} and {one.target:,}"
        for one in found
        if not one.equal
    ]
    kinds = dict.fromkeys(one.kind for one in found)
    counts = ", ".join(
        f"{sum(one.source for one in found if one.kind == kind):,} {kind}" for kind in kinds
    )
    lines.append(
        "the stores differ: something wrote to one of them, or TO held other documents before; run it again"
        if lines
        else f"copied in {seconds:.1f} s, and both stores are equal: {counts or 'nothing'}"
    )
    return "\n".join(lines)


def _open_kept(name: str) -> WholeStore:
    """Open a store that outlives this process; one in memory is an error."""
    if name == MEMORY:
        raise InputError("a store in memory is gone with its process", hint="name a folder or an address")  # fmt: skip
    opened, _ = open_store(name, clock=time.time)
    whole: WholeStore = opened  # type: ignore[assignment]  # every store that is kept can be read whole
    return whole


# Upkeep


@store.command(epilog="Example: millgate store compact")
@store_option
@prints
def compact(store: str | None) -> Output:
    """Give back the disk space of what was removed.

    Others can read while it runs, and cannot write.
    """
    done = compact_store(store_folder(store))
    said = f"{done.before / 1e6:,.1f} MB became {done.after / 1e6:,.1f} MB; {count_of(done.removals, 'removal')} forgotten"
    return Output(asdict(done), said)


@store.command(epilog="Example: millgate store reindex --collection main")
@collection_option
@on_store
def reindex(gate: Millgate, collection: str) -> Output:
    """Rebuild the index of a collection from the store."""
    view = gate.reindex(collection)
    kind = "a conversation" if view.conversational else "documents"
    return Output(
        {"collection": collection, "chunks": view.count, "conversation": view.conversational},
        f"indexed {count_of(view.count, 'chunk')} of {collection!r} as {kind}",
    )


@store.command(epilog="Example: millgate store embed --collection main")
@store_option
@click.option("--collection", help="Only this collection (default: all).")
@prints
def embed(store: str | None, collection: str | None) -> Output:
    """Compute the embeddings that chunks lack.

    The setting `embed.model` names the model. The command can be stopped and started again.
    """
    from millgate.operations.embed import embed_store  # noqa: PLC0415  loads numpy

    settings = load(arguments={"store": store} if store else {})
    model = embedder(settings.embed)
    if model is None:
        raise InputError("no embedder is set", hint="set embed.model, as in MILLGATE_EMBED__MODEL=minilm")  # fmt: skip
    began = time.monotonic()
    with closing(_open_kept(settings.store)) as opened, progress_bar("embedding") as on_chunks:
        made = embed_store(opened, model, collection=collection, on_chunks=on_chunks)
    seconds = time.monotonic() - began
    return Output(
        {"store": hide_password(settings.store), "model": model.name, "dimension": model.dimension, "embedded": made, "seconds": round(seconds, 3)},
        f"embedded {count_of(made, 'chunk')} with {model.name} in {seconds:.1f} s; none is lacking",
    )  # fmt: skip


@store.command(epilog="Example: millgate store migrate --dry-run")
@store_option
@click.option("--role", default="", metavar="NAME", help="A role of the database that may then read and write rows, for gateways.")  # fmt: skip
@dry_option
@prints
def migrate(store: str | None, role: str, dry_run: bool) -> Output:
    """Bring the tables of a store to this release.

    A service does it when it starts, if its database role owns the tables. If it does not, run this before each new
    release with the address of the role that does, and name the role of the gateways once with --role.
    """
    name = store_name(store)
    if not is_postgres(name):
        if role:
            raise InputError("only a PostgreSQL store has roles", hint="name it: --store postgresql://user@host/database")  # fmt: skip
        _open_kept(name).close()
        steps: list[str] = []
    else:
        try:
            from millgate.stores.postgres.migrations import migrate_postgres  # noqa: PLC0415  an extra
        except ModuleNotFoundError as error:
            raise MissingExtra(error.name, extra="postgres") from error
        steps = migrate_postgres(name, dry_run=dry_run, role=role)
    shown = hide_password(name)
    said = f"{shown}: {len(steps)} steps were taken" if steps else f"{shown} is up to date"
    return Output(
        {"store": shown, "steps": steps, "taken": not dry_run},
        "\n".join(steps) if steps and dry_run else said,
    )


@store.command(epilog="Example: millgate store distribute --dry-run")
@store_option
@dry_option
@prints
def distribute(store: str | None, dry_run: bool) -> Output:
    """Spread the tables over the servers of a Citus cluster. The rows of a tenant stay together.

    The tables are locked until all rows are copied. A large store is faster to move into an empty one: migrate,
    distribute, then `millgate store copy`.
    """
    name = store_name(store)
    if not is_postgres(name):
        raise InputError("only a PostgreSQL store can be distributed", hint="name it: --store postgresql://user@host/database")  # fmt: skip
    done = "all tables are distributed already"
    opened: PostgresStore = _open_kept(name)  # type: ignore[assignment]
    from millgate.stores.postgres import citus  # noqa: PLC0415  an extra

    with closing(opened), opened.session() as connection:
        if dry_run:
            sql = citus.distribute_sql(citus.read_layout(connection, opened.address))
            return Output({"statements": sql}, "\n".join(f"{one};" for one in sql) or done)
        count = citus.distribute(connection, opened.address)
    return Output({"tables": count}, f"{count} tables were distributed" if count else done)
