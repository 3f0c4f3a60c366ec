"""`millgate add`: files, folders and pipes into the store."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from millgate.cli.options import (
    Output,
    collection_option,
    folder_named,
    json_option,
    open_gate,
    place_options,
    show,
    store_name,
)
from millgate.cli.terminal import echo, progress_bar
from millgate.errors import InputError
from millgate.ingest.load import OnProgress, Progress, Summary
from millgate.ingest.readers import SourceFile
from millgate.ingest.rows import Skip
from millgate.ingest.walk import check_paths, walk
from millgate.stores.sqlite.store import has_store
from millgate.text.table import count_of

LOOK_EVERY_S = 1.0  # between two looks at watched folders: a person who saves a file and asks does not wait longer
LOOK_SHARE = 20  # and a large folder is looked at so rarely that it takes a twentieth of one core
SHOWN = 20  # skipped files that a person sees: a screen of them. --json lists up to a thousand


@click.command(epilog="Example: millgate add docs/ --exclude 'drafts/'")
@click.argument("paths", nargs=-1, required=True)
@place_options
@collection_option
@click.option(
    "--exclude", multiple=True, help="Leave out paths that fit this git pattern; repeat for more."
)
@click.option("--ignored", is_flag=True, help="Also add files that .gitignore names.")
@click.option(
    "--prune",
    is_flag=True,
    help="Remove documents of files that are gone, and rows that are gone from theirs.",
)
@click.option("--conversation", is_flag=True, help="Each row, or each line of a text, is a turn of a conversation.")  # fmt: skip
@click.option("--documents", is_flag=True, help="Treat all files as documents, even if they look like a conversation.")  # fmt: skip
@click.option("--watch", is_flag=True, help="Go on, and add what changes, until you press Ctrl-C.")
@click.option("--id", default="stdin", show_default=True, help="Id of the text that '-' reads.")
@json_option
def add(
    paths: tuple[str, ...],
    store: str | None,
    tenant: str | None,
    collection: str,
    exclude: tuple[str, ...],
    ignored: bool,
    prune: bool,
    conversation: bool,
    documents: bool,
    watch: bool,
    id: str,
    as_json: bool,
) -> None:
    """Add files and folders (PATHS), or what comes over a pipe (-). Files that have not changed are left alone."""
    piped = paths == ("-",)
    if "-" in paths and (not piped or watch):
        raise InputError("'-' stands alone", hint="add the files in a second call")
    if conversation and documents:
        raise InputError(
            "what is added is a conversation or documents, not both",
            hint="leave out --conversation or --documents; or add each in a call of its own",
        )
    how: dict[str, Any] = {
        "collection": collection,
        "kind": "conversation" if conversation else "documents" if documents else "",
    }
    if not piped:
        check_paths(paths)  # before the store is opened, which would make one
    own = folder_named(store_name(store))

    def add_once() -> Summary:
        with open_gate(store, tenant) as gate, _progress() as on_progress:
            if piped:
                data = sys.stdin.buffer.read()
                return gate.add_stream(data, id=id, on_progress=on_progress, **how)
            return gate.add_files(
                *paths, exclude=exclude, gitignore=not ignored, prune=prune, on_progress=on_progress, **how
            )  # fmt: skip

    def look() -> Iterator[SourceFile | Skip]:
        return walk(paths, exclude=exclude, gitignore=not ignored, store=own)

    if watch:
        _watch(look, add_once, as_json=as_json)
        return
    nothing = None if piped else _find_nothing(look(), own)
    show(summarize(nothing or add_once()), as_json=as_json)


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """Show how far an ingest has come. Ctrl-C ends the command and says what is kept."""
    documents = 0
    with progress_bar("adding") as move:

        def on_progress(done: Progress) -> None:
            nonlocal documents
            documents = done.documents
            move(min(done.bytes, done.total), done.total, f"{done.chunks:,} chunks")

        try:
            yield on_progress
        except KeyboardInterrupt:
            echo(f"stopped; what was added is kept: {count_of(documents, 'document')}", err=True)
            sys.exit(130)


def _find_nothing(found: Iterable[SourceFile | Skip], store: Path | None) -> Summary | None:
    """What is skipped, if there is no file to add and no store yet: none is made then."""
    if store is None or has_store(store):
        return None
    skipped = []
    for one in found:
        if isinstance(one, SourceFile):
            return None
        skipped.append(one)
    return Summary(skips=len(skipped), skipped=tuple(skipped))


def _watch(
    look: Callable[[], Iterable[SourceFile | Skip]],
    add_once: Callable[[], Summary],
    *,
    as_json: bool,
) -> None:
    """Add once, and again whenever a file is new, gone, or has another size or time.

    The store is open only while it is written, so that other commands can use it.
    """
    seen = list(look())
    show(summarize(add_once())._replace(code=0), as_json=as_json)
    echo("watching; Ctrl-C ends it", err=True)
    with suppress(KeyboardInterrupt):
        while True:
            start = time.perf_counter()
            found = list(look())
            if found != seen:
                made, seen = add_once(), found
                if made.documents or made.removed or made.missing:
                    show(summarize(made)._replace(code=0), as_json=as_json)
            took = time.perf_counter() - start
            time.sleep(max(LOOK_EVERY_S, LOOK_SHARE * took))


def summarize(made: Summary) -> Output:
    """What was added, and what was skipped under its reason, each path on a line of its own, to be copied."""
    if made.unchanged and not (made.documents or made.removed):
        said = (
            f"nothing has changed: {count_of(made.unchanged, 'document')}, {made.skips:,} skipped"
        )
    else:
        said = (
            f"added {count_of(made.documents, 'document')} ({count_of(made.chunks, 'chunk')} changed),"
            f" {made.unchanged:,} unchanged, {made.removed:,} removed, {made.skips:,} skipped"
        )
    if made.packed and made.documents:
        rows = count_of(made.packed, "short row")
        said += f"\n{rows} of large tables share documents; each has its id in the text"
    notes = []
    if made.missing:
        gone = count_of(made.missing, "file")
        notes.append(f"{gone} gone, but still in the store: --prune removes such documents")
    by_reason: dict[str, list[str]] = {}
    for skip in made.skipped[:SHOWN]:
        by_reason.setdefault(skip.reason, []).append(skip.what)
    for reason, paths in by_reason.items():
        notes += [f"skipped: {reason}", *(f"  {path}" for path in paths)]
    if made.skips > SHOWN:
        notes.append(f"and {made.skips - SHOWN:,} more; --json lists them")
    failed = made.skips and not made.documents and not made.unchanged
    skipped = [{"what": skip.what, "reason": skip.reason} for skip in made.skipped]
    data = asdict(made) | {"skipped": skipped}
    return Output(data, said, "\n".join(notes), code=1 if failed else 0)
