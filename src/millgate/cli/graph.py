"""`millgate graph`: load and follow knowledge; cut, sign and verify slices of conversations."""

from dataclasses import asdict
from typing import Any

import click
import orjson

from millgate.cli.options import CommandGroup, Output, on_new_store, on_store, read_input
from millgate.errors import InputError
from millgate.gateway import Millgate
from millgate.knowledge.admissibility import load
from millgate.knowledge.edges import LoadResult
from millgate.text.table import count_of


@click.group(cls=CommandGroup)
def graph() -> None:
    """Load and follow knowledge; cut, sign and verify slices of conversations."""


@graph.command("load", epilog="Example: millgate graph load edges.csv")
@click.argument("files", nargs=-1)
@click.option("--collection", help="Take edges from the documents of this collection.")
@on_new_store
def load_edges(gate: Millgate, files: tuple[str, ...], collection: str | None) -> Output:
    """Add edges from FILES, or from the documents of a collection. FILES are .csv, .tsv or .jsonl."""
    if not files and collection is None:
        raise InputError("nothing to load", hint="name edge files, or a --collection")
    done = [gate.graph.load(name) for name in files]
    if collection is not None:
        done.append(gate.graph.load_collection(collection))
    result = LoadResult(
        sum(one.linked for one in done),
        sum(one.skipped for one in done),
        tuple(reason for one in done for reason in one.reasons),
    )
    return Output(
        result,
        f"{count_of(result.linked, 'edge')} linked, {count_of(result.skipped, 'line')} skipped",
        note="\n".join(f"skipped {reason}" for reason in result.reasons),
    )


@graph.command(epilog="Example: millgate graph show api --hops 2")
@click.argument("node")
@click.option("--hops", "max_hops", type=click.IntRange(1, 10), help="Longest path (default: graph.max_hops).")  # fmt: skip
@click.option("--limit", "max_results", type=click.IntRange(1, 10_000), help="Most paths.")
@click.option("--direction", type=click.Choice(["out", "in", "both"]), default="both", show_default=True, help="Which edges to follow.")  # fmt: skip
@on_store
def show(gate: Millgate, node: str, **how: Any) -> Output:  # noqa: ANN401  # by option
    """Print the paths that begin at NODE, shortest first. Each has its base score."""
    rows = [{"path": path.line, "score": score} for path, score in gate.graph.paths(node, **how)]
    lines = [f"{row['score']:.2f}  {row['path']}" for row in rows]
    return Output(rows, "\n".join(lines) or f"(no path begins at {node!r})")


@graph.command("slice", epilog="Example: millgate graph slice TURN --json > slice.json")
@click.argument("anchor")
@click.option("--collection", default="turns", show_default=True, help="Where the turns are.")
@click.option("--admit", is_flag=True, help="Write the token to the turns of the slice.")
@on_store
def slice_turns(gate: Millgate, anchor: str, collection: str, admit: bool) -> Output:
    """Cut and sign the slice around the turn ANCHOR. `millgate graph verify` reads the output of --json."""
    signed = gate.graph.cut_slice(anchor, collection=collection, admit=admit)
    sizes = f"{count_of(len(signed.turns), 'turn')}, {count_of(len(signed.edges), 'edge')}"
    lines = [f"slice {signed.id}: {sizes}", f"token {signed.token}"]
    lines += [f"  {turn.id}  {turn.phase}, salience {turn.salience:g}" for turn in signed.turns]
    return Output(asdict(signed), "\n".join(lines))


@graph.command("verify", epilog="Example: millgate graph verify slice.json")
@click.argument("file")
@on_store
def verify_slice(gate: Millgate, file: str) -> Output:
    """Say whether this store has signed the slice in FILE.

    '-' reads stdin. The exit code is 1 if the store has not signed it.
    """
    try:
        slice = load(orjson.loads(read_input(file)))
    except orjson.JSONDecodeError as error:
        raise InputError(
            f"{file} is not JSON: {error}", hint="give the output of millgate graph slice --json"
        ) from None
    valid = gate.graph.verify(slice)
    said = "admissible" if valid else "refused: this is not what was signed"
    return Output({"admissible": valid, "slice": slice.id}, said, code=0 if valid else 1)


@graph.command(epilog="Example: millgate graph rotate --days 7")
@click.option("--days", type=click.FloatRange(0, 3650), default=30.0, show_default=True,
              help="Days for which tokens of the former secret still verify.")  # fmt: skip
@on_store
def rotate(gate: Millgate, days: float) -> Output:
    """Sign with a new secret from now on. Old tokens verify until they expire."""
    expires = gate.graph.rotate_secret(days=days)
    said = f"a new secret signs; tokens of the former one verify for {days:g} days"
    return Output({"rotated": True, "expires": expires}, said)
