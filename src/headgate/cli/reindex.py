"""`headgate reindex`: make the derived index of a collection anew from the store.

Needed after the embedder was changed; harmless at any time, since the index holds nothing of its own.
"""

import click
import orjson

from headgate.cli.options import json_option, open_existing, store_options
from headgate.cli.terminal import SafeConsole, echo


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
