"""`headgate graph load | show | slice | verify | rotate`: knowledge, and who may use what of a conversation."""

import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click
import orjson

from headgate.cli.options import json_option, opened, place_options, print_json
from headgate.errors import InputError
from headgate.gateway import Headgate
from headgate.graph.admission import admit, dump, load, sign, verify
from headgate.graph.kernel import Slice, Turn, slice_around
from headgate.graph.knowledge import base_score, traverse
from headgate.graph.load import LoadResult, chunk_edges, link_edges, read_edges
from headgate.types import Chunk, Document

DAY = 86_400.0


@click.group()
def graph() -> None:
    """Load knowledge, follow it, and cut and verify slices of conversations."""


@graph.command("load")
@click.argument("files", nargs=-1)
@place_options
@click.option("--collection", help="Take edges from the documents of this collection.")
@json_option
def load_edges(
    files: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    collection: str | None,
    as_json: bool,
) -> None:
    """Link the edges of FILES (.csv, .tsv, .jsonl), or those that stored documents tell."""
    if not files and collection is None:
        raise InputError("nothing to load", hint="name edge files, or a --collection")
    with opened(store, tenant) as hg:
        done = [link_edges(hg.parts.store, hg.tenant, read_edges(Path(name))) for name in files]
        if collection is not None:
            chunks = hg.parts.store.scan(hg.tenant, collection)
            done.append(link_edges(hg.parts.store, hg.tenant, chunk_edges(chunks)))
    result = LoadResult(
        sum(one.linked for one in done),
        sum(one.skipped for one in done),
        tuple(reason for one in done for reason in one.reasons),
    )
    if as_json:
        print_json(result)
        return
    for reason in result.reasons:
        click.echo(f"skipped {reason}", err=True)
    click.echo(f"{result.linked} edges linked, {result.skipped} lines skipped")


@graph.command()
@click.argument("node")
@place_options
@click.option("--hops", type=click.IntRange(1, 10), help="Longest path (default: graph.max_hops).")
@click.option("--limit", type=click.IntRange(1, 10_000), help="Most paths.")
@click.option("--direction", type=click.Choice(["out", "in", "both"]), default="both")
@json_option
def show(
    node: str,
    store: str | None,
    tenant: str | None,
    hops: int | None,
    limit: int | None,
    direction: str,
    as_json: bool,
) -> None:
    """The paths that begin at NODE, shortest first, with their base scores."""
    with opened(store, tenant) as hg:
        given = {"max_hops": hops, "max_results": limit}
        wanted = {name: value for name, value in given.items() if value is not None}
        policy = hg.parts.settings.graph.model_copy(update=wanted)
        paths = traverse(
            hg.parts.store,
            node,
            policy,
            tenant=hg.tenant,
            direction="out" if direction == "out" else "in" if direction == "in" else "both",
        )
        rows = [{"path": path.line, "score": base_score(path, policy)} for path in paths]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        click.echo(f"{row['score']:.2f}  {row['path']}")
    if not rows:
        click.echo(f"(nothing is known of {node!r})")


@graph.command("slice")
@click.argument("anchor")
@place_options
@click.option("--collection", default="turns", show_default=True)
@click.option("--admit", "admitting", is_flag=True, help="Write the token to the slice's turns.")
@json_option
def slice_turns(
    anchor: str,
    store: str | None,
    tenant: str | None,
    collection: str,
    admitting: bool,
    as_json: bool,
) -> None:
    """Cut and sign the slice around the turn ANCHOR; --json prints what `verify` reads."""
    with opened(store, tenant) as hg:
        chunks = [c for c in hg.parts.store.scan(hg.tenant, collection) if c.source == "turn"]
        signed = sign(
            slice_around(map(Turn.from_chunk, chunks), anchor, hg.parts.settings.slice),
            hg.parts.store.secret(hg.tenant),
        )
        if admitting:
            _admit(hg, collection, chunks, signed)
    if as_json:
        print_json(dump(signed))
        return
    click.echo(f"slice {signed.id}: {len(signed.turns)} turns, {len(signed.edges)} edges")
    click.echo(f"token {signed.token}")
    for turn in signed.turns:
        click.echo(f"  {turn.id}  {turn.phase}, salience {turn.salience:g}")


@graph.command("verify")
@click.argument("file")
@place_options
@json_option
@click.pass_context
def verify_slice(
    ctx: click.Context, file: str, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Say whether the slice in FILE ('-' reads stdin) is what this store has signed; exit code 1 if not."""
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        slice = load(orjson.loads(raw))
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}", hint="check its path") from error
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"{file} is not JSON: {error}", hint="give what slice --json wrote"
        ) from None
    with opened(store, tenant) as hg:
        valid = verify(slice, hg.parts.store.secrets(hg.tenant), now=time.time())
    if as_json:
        print_json({"admissible": valid, "slice": slice.id})
    else:
        click.echo("admissible" if valid else "refused: this is not what was signed")
    ctx.exit(0 if valid else 1)


@graph.command()
@place_options
@click.option("--days", type=click.FloatRange(0, 3650), default=30.0, show_default=True,
              help="How long tokens of the former secret still verify.")  # fmt: skip
@json_option
def rotate(store: str | None, tenant: str | None, days: float, as_json: bool) -> None:
    """Sign with a new secret from now on; old tokens verify until they expire."""
    expires = time.time() + days * DAY
    with opened(store, tenant) as hg:
        hg.parts.store.rotate(hg.tenant, expires=expires)
    if as_json:
        print_json({"rotated": True, "expires": expires})
        return
    click.echo(f"a new secret signs; tokens of the former one verify for {days:g} days")


def _admit(hg: Headgate, collection: str, chunks: Iterable[Chunk], signed: Slice) -> None:
    """Write the token to the turns of the slice; each turn is a document of one chunk."""
    admitted = admit(chunks, signed)
    digests = hg.parts.store.digests(hg.tenant, collection, [c.document for c in admitted])
    hg.parts.store.put(
        hg.tenant,
        [
            Document(
                id=chunk.document,
                collection=collection,
                title=chunk.title,
                digest=digests.get(chunk.document, ""),
                source=chunk.source,
                metadata=chunk.metadata,
                chunks=(chunk,),
            )
            for chunk in admitted
        ],
    )
