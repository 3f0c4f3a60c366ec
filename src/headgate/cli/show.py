"""`headgate store show ID`: one document, chunk, fact, trace or review, whatever has that id."""

from typing import Any

import click

from headgate.cli.facts import describe_fact
from headgate.cli.options import json_option, open_existing, place_options, print_json
from headgate.cli.reviews import print_review
from headgate.cli.terminal import echo
from headgate.cli.why import print_trace
from headgate.explain.as_data import trace_data
from headgate.operations.find import Match, find
from headgate.operations.presence import LAST, whole_trace_id
from headgate.types import Chunk, Fact, Review, Trace


@click.command()
@click.argument("id")
@place_options
@json_option
def show(id: str, store: str | None, tenant: str | None, as_json: bool) -> None:
    """Show what has ID, or an id that begins so: a document, chunk, fact, trace or review.

    `last` stands for the newest trace.
    """
    with open_existing(store, tenant) as hg:
        found = find(hg, whole_trace_id(hg, id) if id == LAST else id)
    if as_json:
        print_json({"kind": found.kind, "id": found.id, "collection": found.collection, "value": _data(found)})  # fmt: skip
    else:
        _print(found)


def _data(found: Match) -> Any:  # noqa: ANN401  (whatever JSON holds)
    return trace_data(found.value) if isinstance(found.value, Trace) else found.value


def _print(found: Match) -> None:
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
            where = f"{found.kind} {found.id} in collection {found.collection}"
            echo(
                f"{where}, {len(chunks)} chunk{'' if len(chunks) == 1 else 's'}"
                if found.kind == "document"
                else where
            )
            for chunk in chunks:
                _print_chunk(chunk, alone=found.kind == "chunk")


def _print_chunk(chunk: Chunk, *, alone: bool) -> None:
    facts = {"title": chunk.title, "document": chunk.document if alone else "", "source": chunk.source}  # fmt: skip
    said = ", ".join(f"{name} {value!r}" for name, value in facts.items() if value)
    echo(f"\n-- {chunk.id}  {said}")
    if chunk.metadata:
        echo(f"   {dict(chunk.metadata)}")
    echo(chunk.text)
