"""`millgate graph`: load and follow knowledge; cut, sign and verify slices of conversations."""

import click
import orjson

from millgate.cli.command_group import CommandGroup
from millgate.cli.options import (
    json_option,
    open_existing,
    open_gate,
    place_options,
    print_json,
    read_input,
)
from millgate.cli.terminal import echo
from millgate.errors import InputError
from millgate.knowledge.admissibility import dump, load
from millgate.knowledge.edges import LoadResult
from millgate.text.table import count_of


@click.group(cls=CommandGroup)
def graph() -> None:
    """Load and follow knowledge; cut, sign and verify slices of conversations."""


@graph.command("load", epilog="Example: millgate graph load edges.csv")
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
    """Add edges from FILES, or from the documents of a collection. FILES are .csv, .tsv or .jsonl."""
    if not files and collection is None:
        raise InputError("nothing to load", hint="name edge files, or a --collection")
    with open_gate(store, tenant) as hg:
        done = [hg.graph.load(name) for name in files]
        if collection is not None:
            done.append(hg.graph.load_collection(collection))
    result = LoadResult(
        sum(one.linked for one in done),
        sum(one.skipped for one in done),
        tuple(reason for one in done for reason in one.reasons),
    )
    if as_json:
        print_json(result)
        return
    for reason in result.reasons:
        echo(f"skipped {reason}", err=True)
    echo(f"{count_of(result.linked, 'edge')} linked, {count_of(result.skipped, 'line')} skipped")


@graph.command(epilog="Example: millgate graph show api --hops 2")
@click.argument("node")
@place_options
@click.option("--hops", type=click.IntRange(1, 10), help="Longest path (default: graph.max_hops).")
@click.option("--limit", type=click.IntRange(1, 10_000), help="Most paths.")
@click.option("--direction", type=click.Choice(["out", "in", "both"]), default="both", show_default=True, help="Which edges to follow.")  # fmt: skip
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
    """Print the paths that begin at NODE, shortest first. Each has its base score."""
    with open_existing(store, tenant) as hg:
        paths = hg.graph.paths(
            node,
            direction="out" if direction == "out" else "in" if direction == "in" else "both",
            max_hops=hops,
            max_results=limit,
        )
        rows = [{"path": path.line, "score": score} for path, score in paths]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        echo(f"{row['score']:.2f}  {row['path']}")
    if not rows:
        echo(f"(no path begins at {node!r})")


@graph.command("slice", epilog="Example: millgate graph slice TURN --json > slice.json")
@click.argument("anchor")
@place_options
@click.option("--collection", default="turns", show_default=True, help="Where the turns are.")
@click.option("--admit", is_flag=True, help="Write the token to the turns of the slice.")
@json_option
def slice_turns(
    anchor: str,
    store: str | None,
    tenant: str | None,
    collection: str,
    admit: bool,
    as_json: bool,
) -> None:
    """Cut and sign the slice around the turn ANCHOR. `millgate graph verify` reads the output of --json."""
    with open_existing(store, tenant) as hg:
        signed = hg.graph.cut_slice(anchor, collection=collection, admit=admit)
    if as_json:
        print_json(dump(signed))
        return
    echo(
        f"slice {signed.id}: {count_of(len(signed.turns), 'turn')}, {count_of(len(signed.edges), 'edge')}"
    )
    echo(f"token {signed.token}")
    for turn in signed.turns:
        echo(f"  {turn.id}  {turn.phase}, salience {turn.salience:g}")


@graph.command("verify", epilog="Example: millgate graph verify slice.json")
@click.argument("file")
@place_options
@json_option
@click.pass_context
def verify_slice(
    ctx: click.Context, file: str, store: str | None, tenant: str | None, as_json: bool
) -> None:
    """Say whether this store has signed the slice in FILE.

    '-' reads stdin. The exit code is 1 if the store has not signed it.
    """
    try:
        slice = load(orjson.loads(read_input(file)))
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"{file} is not JSON: {error}", hint="give the output of millgate graph slice --json"
        ) from None
    with open_existing(store, tenant) as hg:
        valid = hg.graph.verify(slice)
    if as_json:
        print_json({"admissible": valid, "slice": slice.id})
    else:
        echo("admissible" if valid else "refused: this is not what was signed")
    ctx.exit(0 if valid else 1)


@graph.command(epilog="Example: millgate graph rotate --days 7")
@place_options
@click.option("--days", type=click.FloatRange(0, 3650), default=30.0, show_default=True,
              help="Days for which tokens of the former secret still verify.")  # fmt: skip
@json_option
def rotate(store: str | None, tenant: str | None, days: float, as_json: bool) -> None:
    """Sign with a new secret from now on. Old tokens verify until they expire."""
    with open_existing(store, tenant) as hg:
        expires = hg.graph.rotate_secret(days=days)
    if as_json:
        print_json({"rotated": True, "expires": expires})
        return
    echo(f"a new secret signs; tokens of the former one verify for {days:g} days")
